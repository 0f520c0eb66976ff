"""Compound aggregations, custom SQL and bands that span the plan, from the lake to bills."""

import tempfile
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill, aggregation, use
from tests.homes import HEADER, configure, csv_row
from tests.laws import examples

pytestmark = pytest.mark.usefixtures("home_database")

D = Decimal
AUGUST, SEPTEMBER, OCTOBER = (Month(2026, month) for month in (8, 9, 10))
FILES = aggregation("files", "COUNT")
SCALED = "aggregation.sent * customFields.account.factor + aggregation.files"


def compound(code, calculation, **changes):
    return {
        "code": code,
        "name": code.title(),
        "calculation": calculation,
        "rounding": "NONE",
        "quantityPerUnit": 1,
        "unit": "point",
        **changes,
    }


def pricing(code, price=1, **more):
    return {
        "code": code,
        "planId": "basic",
        "startDate": "2026-01-01T00:00:00Z",
        "cumulative": True,
        "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": price}],
        **more,
    }


def price_metrics(home, calculation=SCALED, sql="SELECT max(gb) FROM measurements"):
    configure(
        home.organization,
        customFields={"account": {"factor": 2}},
        aggregations=[FILES, aggregation("own", "CUSTOM_SQL", customSql=sql)],
        compoundAggregations=[compound("scaled", calculation)],
        pricings=[
            pricing("scaled", 10, compoundAggregationId="scaled"),
            pricing("own", 100, aggregationId="own"),
        ],
    )


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path) as opened:
        yield opened


def account_field(home, code, value):
    account = {"code": code, "name": code, "emailAddress": "a@a.example"}
    configure(home.organization, accounts=[account | {"customFields": {"factor": value}}])


def lines(home, month=SEPTEMBER):
    """What stands on the bills, by account and description."""
    with home.organization.reading() as reader:
        found = bills.of_period(reader, str(month))
    return {
        (each.content.body["accountCode"], line.body["description"]): line
        for each in found
        for line in each.content.lines
    }


def quantities(home, month=SEPTEMBER):
    return {key: line.body["quantity"] for key, line in lines(home, month).items()}


def reasons(result):
    return {each.account_code: each.reason for each in result.failures}


def run(home, month=SEPTEMBER):
    return bill(home.organization, month)


@pytest.mark.long
def test_a_quantity_that_cannot_be_calculated_fails_the_account_by_name(home):
    price_metrics(home)
    account_field(home, "acme", "many")
    result = run(home)

    [(account, reason)] = reasons(result).items()
    assert account == "acme"
    assert reason.startswith("compound aggregation 'scaled': ")
    assert {code for code, _ in lines(home)} == {"bolt"}


@pytest.mark.long
def test_sql_that_gives_no_number_fails_the_account_and_the_compounds_that_read_it(home):
    price_metrics(home, sql="SELECT gb FROM measurements WHERE gb > 100")
    result = run(home)

    [(account, reason)] = reasons(result).items()
    assert account == "acme"
    assert "aggregation 'own'" in reason
    assert "it gives no row, not one" in reason
    assert quantities(home)["bolt", "Own"] == 200

    configure(
        home.organization,
        compoundAggregations=[compound("twice", "aggregation.own * 2")],
        pricings=[pricing("own", compoundAggregationId="twice", aggregationId=None)],
    )
    again = run(home)
    assert reasons(again)["acme"].startswith("compound aggregation 'twice': aggregation 'own'")
    assert quantities(home)["bolt", "Twice"] == 400


@pytest.mark.long
def test_bills_charge_for_compounds_and_sql(home):
    price_metrics(home)
    account_field(home, "bolt", 3)
    result = run(home)
    found = lines(home)

    assert reasons(result) == {}
    assert result.unpriced == []
    # 42.5 GB in 2 files, 200 GB in one: x factor + files, and the largest file.
    assert {key: value for key, value in quantities(home).items() if key[1] != "Sent"} == {
        ("acme", "Scaled"): 87,
        ("acme", "Own"): 40,
        ("acme", "Standing Charge"): 1,
        ("bolt", "Scaled"): 601,
        ("bolt", "Own"): 200,
        ("bolt", "Standing Charge"): 1,
    }
    scaled, own = found["acme", "Scaled"], found["acme", "Own"]
    configuration = home.organization.configuration()
    record = configuration.find(CompoundAggregation, "scaled")
    assert scaled.body["compoundAggregationId"] == record.id
    assert not {"aggregationId", "meterId"} & scaled.body.keys()
    assert (scaled.body["unit"], scaled.body["subtotal"]) == ("point", 870)
    assert (scaled.pins["aggregationVersion"], scaled.pins["measurements"]) == (1, 2)
    assert own.body["aggregationId"] == configuration.find(Aggregation, "own").id
    assert own.body["subtotal"] == 4000


@pytest.mark.long
def test_bills_pin_the_parts_of_a_compound(home):
    price_metrics(home)
    run(home)
    with home.organization.reading() as reader:
        [content, _] = [each.content for each in bills.of_period(reader, "2026-09")]
    configuration = home.organization.configuration()
    parts = [configuration.find(Aggregation, code).id for code in ("sent", "files")]

    assert {*parts, configuration.find(CompoundAggregation, "scaled").id} <= content.pins[
        "versions"
    ].keys()


@pytest.mark.long
def test_a_change_of_a_part_changes_the_bill(home):
    price_metrics(home)
    run(home)
    use(home, ("9", "acme", 10))
    result = run(home)

    assert {each.account_code: each.stored.value for each in result.bills} == {
        "acme": "updated",
        "bolt": "unchanged",
    }
    assert quantities(home)["acme", "Scaled"] == 108


@pytest.mark.long
def test_bands_of_a_compound_may_span_the_plan(home):
    price_metrics(home)
    bands = [
        {"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 10},
        {"lowerLimit": 100, "fixedPrice": 0, "unitPrice": 1},
    ]
    spanning = {"tiersSpanPlan": True, "pricingBands": bands}
    changed = [
        pricing("scaled", compoundAggregationId="scaled") | spanning,
        pricing("own", aggregationId="own") | spanning,
    ]
    configure(home.organization, pricings=changed)
    home.ingest("a.csv", HEADER + csv_row("8", 30, "acme", ts="2026-08-02T00:00:00Z"))
    run(home, AUGUST)
    run(home)

    # 30 x 2 + 1 = 61 in August, 87 in September: 39 up to 100, 48 beyond.
    assert quantities(home, AUGUST)["acme", "Scaled"] == 61
    august, september = (lines(home, month) for month in (AUGUST, SEPTEMBER))
    assert august["acme", "Scaled"].body["subtotal"] == 610
    assert september["acme", "Scaled"].body["quantity"] == 87
    assert september["acme", "Scaled"].body["subtotal"] == 390 + 48
    # The largest file was of 30 GB, and is of 40 GB.
    assert september["acme", "Own"].body["quantity"] == 40
    assert september["acme", "Own"].body["subtotal"] == 100


@pytest.mark.long
def test_usage_of_custom_sql_without_a_plan_is_reported(home):
    price_metrics(home)
    use(home, ("7", "nobody", 9))
    configuration = home.organization.configuration()
    rows = run(home).unpriced

    assert {(each.aggregation_code, each.quantity, each.reason.value) for each in rows} == {
        ("sent", 9, "NoAccountPlan"),
        ("files", 1, "NoAccountPlan"),
        ("own", 9, "NoAccountPlan"),
    }
    assert configuration.find(Aggregation, "mean").id not in {each.aggregation_id for each in rows}


uses = st.lists(
    st.tuples(st.sampled_from(["acme", "bolt"]), st.integers(1, 30), st.decimals(0, 200, places=2)),
    max_size=4,
)
CALCULATIONS = (
    SCALED,
    "aggregation.sent / aggregation.files",
    "isnull(aggregation.sent, 4) + aggregation.own",
    "customFields.account.factor * 7",
)


@pytest.mark.long
@settings(max_examples=examples(4), deadline=None)
@given(uses, st.sampled_from(CALCULATIONS), st.booleans(), st.booleans())
def test_a_bill_has_the_quantities_that_aggregate_stores(rows, calculation, evaluates, first):
    with tempfile.TemporaryDirectory() as folder, a_home_to_bill(Path(folder)) as home:
        price_metrics(home)
        metric = compound("scaled", calculation, evaluateNullAggregations=evaluates)
        configure(home.organization, compoundAggregations=[metric])
        days = [
            csv_row(f"n{n}", gb, account, ts=f"2026-10-{day:02}T10:00:00Z")
            for n, (account, day, gb) in enumerate(rows)
        ]
        home.ingest("more.csv", HEADER + "".join(days))
        if not first:
            run(home, OCTOBER)
        stored = aggregate(home.organization, OCTOBER)
        if first:
            run(home, OCTOBER)
        configuration, codes = home.organization.configuration(), home.account_codes()
        names = {
            each.id: each.entity.name
            for kind in (Aggregation, CompoundAggregation)
            for each in configuration.all(kind)
            if each.entity.code in {"scaled", "own", "sent"}
        }
        expected = {
            (codes[each.account_id], names[each.aggregation_id]): each.value
            for each in stored.quantities
            if each.aggregation_id in names
        }
        found = quantities(home, OCTOBER)

        assert not stored.failures
        assert {key: n for key, n in found.items() if key[1] != "Standing Charge"} == expected
