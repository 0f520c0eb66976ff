"""`bill` reads the quantities that `aggregate` stored, if they are those that it would calculate."""

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.core.tables import BILL, BILL_LINE
from tests.bills import a_home_to_bill, aggregation, use
from tests.homes import HEADER, configure, csv_row
from tests.laws import examples

pytestmark = pytest.mark.usefixtures("home_database")

SEPTEMBER = Month(2026, 9)


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path) as opened:
        yield opened


@contextmanager
def scans(home):
    """The queries that aggregate measurements, as DuckDB's own log has them."""
    found = []
    lake = home.organization.lake
    lake.open_to_write()  # Both verbs read where the first of them writes.
    with lake.reader() as connection:
        connection.execute("CALL enable_logging('QueryLog')")
        connection.execute("CALL truncate_duckdb_logs()")
    yield found
    with lake.reader() as connection:
        messages = connection.execute("SELECT message FROM duckdb_logs").fetchall()
        connection.execute("CALL disable_logging()")
    asked = [text for [text] in messages if text.startswith("SELECT")]
    found += [text for text in asked if 'lake."m_' in text and "GROUP BY" in text]


def run(home, **options):
    return bill(home.organization, SEPTEMBER, **options)


def scans_of_bill(home, **options):
    with scans(home) as found:
        run(home, **options)
    return len(found)


def total(home):
    return run(home).totals["USD"]


@pytest.mark.long
def test_a_month_that_is_aggregated_and_billed_is_scanned_once(home):
    with scans(home) as aggregated:
        aggregate(home.organization, SEPTEMBER)
    with scans(home) as billed:
        result = run(home)

    assert result.totals == {"USD": 204.5}
    assert len(aggregated) == 1
    assert billed == []


@pytest.mark.long
def test_a_month_whose_compounds_are_billed_is_scanned_once(home):
    configure(home.organization, **CHANGES["compound"])
    aggregate(home.organization, SEPTEMBER)

    assert scans_of_bill(home) == 0
    assert total(home) == 204.5 + 42.5 + 3 * 21.25 + 200 + 3 * 200


@pytest.mark.long
def test_billing_again_and_billing_some_accounts_scan_nothing(home):
    aggregate(home.organization, SEPTEMBER)

    assert scans_of_bill(home) == 0
    assert scans_of_bill(home, accounts=["acme"]) == 0


def test_without_quantities_bill_scans_once(home):
    assert scans_of_bill(home) == 1


@pytest.mark.long
def test_measurements_of_the_month_that_came_later_are_billed(home):
    aggregate(home.organization, SEPTEMBER)
    use(home, ("9", "acme", 10))

    assert scans_of_bill(home) == 1
    assert total(home) == 214.5


@pytest.mark.long
def test_measurements_of_other_months_do_not_matter(home):
    aggregate(home.organization, SEPTEMBER)
    home.ingest("o.csv", HEADER + csv_row("9", 10, "acme", ts="2026-10-01T00:00:00Z"))

    assert scans_of_bill(home) == 0


@pytest.mark.long
def test_after_a_change_of_the_aggregation_measurements_are_read(home):
    aggregate(home.organization, SEPTEMBER)
    changed = aggregation("sent", "SUM", quantityPerUnit=2)
    configure(home.organization, aggregations=[changed])

    assert scans_of_bill(home) == 1
    assert total(home) == 62 + 21.25 + 100


@pytest.mark.long
def test_aggregating_again_after_an_unrelated_change_notes_that_the_quantities_stand(home):
    aggregate(home.organization, SEPTEMBER)
    configure(home.organization, products=[{"code": "cloud", "name": "Clouds"}])
    again = aggregate(home.organization, SEPTEMBER)

    assert not again.appended
    assert scans_of_bill(home) == 0


PLAN = {"accountId": "acme", "planId": "basic"}
OWN_PRICE = {"planId": "basic", "startDate": "2026-01-01T00:00:00Z", "cumulative": True,
             "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}]}  # fmt: skip
# Each makes the month of accounts another one: in parts, their own, without a plan, by default; or
# charges for something else in it.
CHANGES = {
    "ends": {"accountPlans": [{**PLAN, "code": "acme-basic", "startDate": "2026-01-01T00:00:00Z",
                               "endDate": "2026-09-03T10:00:00Z"}]},
    "epoch": {"accounts": [{"code": "bolt", "name": "Bolt", "emailAddress": "b@b.example",
                            "billEpoch": "2026-01-15"}]},
    "default": {"aggregations": [aggregation("sent", "SUM", defaultValue=3)]},
    "spans": {"pricings": [{**OWN_PRICE, "code": "sent", "aggregationId": "sent", "tiersSpanPlan": True}]},
    "compound": {
        "compoundAggregations": [{"code": "both", "name": "Both", "unit": "x", "rounding": "NONE",
                                  "quantityPerUnit": 1,
                                  "calculation": "aggregation.sent + 3 * aggregation.mean"}],
        "pricings": [{**OWN_PRICE, "code": "both", "compoundAggregationId": "both"}]},
    "custom sql": {
        "aggregations": [aggregation("own", "CUSTOM_SQL", customSql="SELECT max(gb) FROM measurements")],
        "pricings": [{**OWN_PRICE, "code": "own", "aggregationId": "own"}]},
    "unpriced meter": {"aggregations": [{**aggregation("calls", "COUNT"), "meterId": "calls",
                                         "targetField": "n"}]},
}  # fmt: skip
USE = st.tuples(
    st.sampled_from(["acme", "bolt", "nobody"]),
    st.integers(1, 30),
    st.decimals(-5, 200, places=2),
)


@pytest.mark.slow
@settings(max_examples=examples(4), deadline=None)
@given(st.lists(USE, max_size=4), st.sets(st.sampled_from(sorted(CHANGES))))
def test_bills_after_aggregate_are_those_without_it(rows, changes):
    with tempfile.TemporaryDirectory() as folder, a_home_to_bill(Path(folder)) as home:
        for each in sorted(changes):
            configure(home.organization, **CHANGES[each])
        lines = [
            csv_row(f"n{number}", gb, account, ts=f"2026-09-{day:02}T10:00:00Z")
            for number, (account, day, gb) in enumerate(rows)
        ]
        home.ingest("more.csv", HEADER + "".join(lines))
        alone = everything(home)
        forget_bills(home)
        aggregate(home.organization, SEPTEMBER)

        assert everything(home) == alone


def everything(home):
    """All that billing comes to, but for the snapshot that it read."""
    result = run(home)
    with home.organization.reading() as reader:
        contents = [each.content for each in bills.of_period(reader, str(SEPTEMBER))]
    found = [
        repr(replace(content, pins=unpinned(content.pins), lines=unpinned_lines(content)))
        for content in contents
    ]
    return sorted(found), result.unpriced, result.failures, result.without


def unpinned(pins):
    return {name: value for name, value in pins.items() if name != "snapshot"}


def unpinned_lines(content):
    return [replace(line, pins=unpinned(line.pins)) for line in content.lines]


def forget_bills(home):
    with home.organization.transaction("someone") as transaction:
        for table in (BILL_LINE, BILL):
            transaction.connection.execute(delete(table))
