"""Which closed periods late measurements touch."""

from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import text

from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.home.status import status
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.pipeline.usage.late import late
from tests.bills import price_egress, subscribe
from tests.databases import need_folder
from tests.homes import HEADER, a_home, configure, csv_row

SEPTEMBER = Month(2026, 9)


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        price_egress(opened)
        opened.clock.time = datetime(2026, 10, 2, tzinfo=UTC)
        use(opened, "first", ("acme", "2026-09-03"), ("bolt", "2026-08-03"))
        yield opened


def use(home, name, *rows):
    lines = [
        csv_row(f"{name}{n}", 1, account, ts=f"{day}T00:00:00Z")
        for n, (account, day) in enumerate(rows)
    ]
    home.ingest(f"{name}.csv", HEADER + "".join(lines))


def found(home):
    return [
        (each.closed_by, each.period, sorted(each.accounts), each.measurements)
        for each in late(home.organization)
    ]


@pytest.mark.long
def test_what_comes_after_a_run_is_late_for_its_period_until_it_is_aggregated_again(home):
    assert found(home) == []
    aggregate(home.organization, SEPTEMBER)
    # The next month is still open.
    aggregate(home.organization, Month(2026, 10))
    # Neither repeats nor what is rejected is late.
    use(home, "first", ("acme", "2026-09-03"), ("bolt", "2026-08-03"))
    home.ingest("bad.csv", HEADER + csv_row("x", "no number"))
    assert found(home) == []
    home.clock.advance(hours=1)
    use(home, "late", ("acme", "2026-09-30"), ("new", "2026-09-01"), ("acme", "2026-10-01"))
    [one] = late(home.organization)

    assert found(home) == [("quantities", "2026-09", ["acme", "new"], 2)]
    assert one.meters == {"egress"}
    assert one.first_received == one.last_received == home.clock()
    home.clock.advance(hours=1)
    use(home, "later", ("bolt", "2026-09-05"))
    [both] = late(home.organization)
    assert (both.measurements, both.last_received) == (3, home.clock())
    assert both.first_received == one.first_received
    aggregate(home.organization, SEPTEMBER)
    assert found(home) == []


@pytest.mark.long
def test_a_bill_until_the_first_bill_date_is_late_for_all_of_its_period(home):
    plan = {
        "code": "mid-basic",
        "accountId": "mid",
        "planId": "basic",
        "startDate": "2026-07-20T00:00:00Z",
        "billEpoch": "2026-09-15",
    }
    account = {"code": "mid", "name": "M", "emailAddress": "a@b.example"}
    configure(home.organization, accounts=[account], accountPlans=[plan])
    use(home, "mid", ("mid", "2026-07-20"), ("mid", "2026-09-14"))
    # Until 15 September, it is the bill of the month in which it ends.
    assert [each.total for each in bill(home.organization, Month(2026, 8)).bills] == []
    [made] = bill(home.organization, SEPTEMBER).bills
    assert str(made.bill_date) == "2026-09-15"
    use(home, "late", ("mid", "2026-07-19"), ("mid", "2026-07-20"), ("mid", "2026-09-15"))

    assert found(home) == [("bills", "2026-09", ["mid"], 1)]
    bill(home.organization, SEPTEMBER)
    assert found(home) == []


@pytest.mark.long
@pytest.mark.parametrize(
    ("frequency", "interval", "day"),
    [
        ("DAILY", 1, "2026-09-30"),
        pytest.param("WEEKLY", 1, "2026-09-28", marks=pytest.mark.slow),
        ("MONTHLY", 3, "2026-07-03"),
        pytest.param("ANNUALLY", 1, "2025-11-03", marks=pytest.mark.slow),
    ],
)
def test_a_bill_of_any_frequency_is_late_for_all_of_its_period(home, frequency, interval, day):
    template = {
        "code": "own",
        "name": "Own",
        "productId": "cloud",
        "currency": "USD",
        "standingCharge": 5,
        "billFrequency": frequency,
        "billFrequencyInterval": interval,
    }
    account = {"code": "own", "name": "O", "emailAddress": "a@b.example"}
    configure(
        home.organization,
        organizationConfig={"yearEpoch": "2022-10-01", "currency": "USD", "daysBeforeBillDue": 5},
        planTemplates=[template],
        plans=[{"code": "own", "name": "Own", "planTemplateId": "own"}],
        pricings=[
            {
                "code": "own",
                "planId": "own",
                "aggregationId": "sent",
                "startDate": "2025-01-01T00:00:00Z",
                "pricingBands": [{"lowerLimit": 0, "fixedPrice": 0, "unitPrice": 1}],
            }
        ],
        accounts=[account],
        accountPlans=[
            {
                "code": "own",
                "accountId": "own",
                "planId": "own",
                "startDate": "2025-10-01T00:00:00Z",
            }
        ],
    )
    bill(home.organization, SEPTEMBER, accounts=["own"])
    assert found(home) == []
    home.clock.advance(hours=1)
    use(home, "late", ("own", day), ("own", "2025-09-30"), ("own", "2026-10-01"))

    assert found(home) == [("bills", "2026-09", ["own"], 1)]
    bill(home.organization, SEPTEMBER, accounts=["own"])
    assert found(home) == []


@pytest.mark.long
def test_every_account_is_late_for_its_own_period(home):
    configure(
        home.organization,
        accounts=[
            {"code": "mid", "name": "M", "emailAddress": "a@b.example", "billEpoch": "2022-01-10"}
        ],
    )
    use(home, "mid", ("mid", "2026-08-15"), ("mid", "2026-09-15"))
    for month in (8, 9):
        aggregate(home.organization, Month(2026, month))
    # Until 10 September it is August to this account, and its September is not over.
    use(home, "late", ("mid", "2026-09-09"), ("mid", "2026-09-10"), ("acme", "2026-09-09"))

    assert found(home) == [
        ("quantities", "2026-08", ["mid"], 1),
        ("quantities", "2026-09", ["acme"], 1),
    ]


@pytest.mark.long
def test_the_own_period_of_an_account_without_any_usage_yet_counts_as_well(home):
    fields = {"name": "M", "emailAddress": "a@b.example"}
    configure(
        home.organization,
        accounts=[
            fields | {"code": "mid", "billEpoch": "2022-01-15"},
            fields | {"code": "parent", "billEpoch": "2022-01-20"},
            fields | {"code": "child", "parentAccountId": "parent"},
        ],
    )
    subscribe(home, "parent")
    home.clock.time = datetime(2026, 11, 1, tzinfo=UTC)
    use(home, "october", ("acme", "2026-10-05"))
    for month in (8, 9, 10):
        aggregate(home.organization, Month(2026, month))
    # Nobody else has a quantity; until the 15th, or the 20th, it is September to them.
    use(home, "late", *((code, "2026-10-17") for code in ("mid", "child", "parent")))
    assert found(home) == [("quantities", "2026-09", ["child", "parent"], 2)]
    use(home, "later", ("mid", "2026-10-05"), ("acme", "2026-10-05"))

    assert found(home) == [
        ("quantities", "2026-09", ["child", "mid", "parent"], 3),
        ("quantities", "2026-10", ["acme"], 1),
    ]


@pytest.mark.long
def test_a_measurement_touches_every_run_and_bill_of_its_time(home):
    subscribe(home, "acme")
    day = datetime(2026, 9, 3, tzinfo=UTC).date()
    for asked in (
        SEPTEMBER,
        PeriodSpec.on(BillingFrequency.DAILY, day),
        PeriodSpec.between(day, day + timedelta(days=1)),
    ):
        aggregate(home.organization, asked)
    bill(home.organization, SEPTEMBER)
    home.clock.advance(hours=1)
    # An account without a bill cannot be late for it.
    use(home, "late", ("acme", "2026-09-03"), ("new", "2026-09-04"))

    assert found(home) == [
        ("quantities", "2026-09-03/2026-09-04", ["acme"], 1),
        ("quantities", "2026-09-03", ["acme"], 1),
        ("quantities", "2026-09", ["acme", "new"], 2),
        ("bills", "2026-09", ["acme"], 1),
    ]
    bill(home.organization, SEPTEMBER)
    assert ("bills", "2026-09", ["acme"], 1) not in found(home)


@pytest.mark.long
def test_upkeep_forgets_nothing_that_came_late(home):
    aggregate(home.organization, SEPTEMBER)
    use(home, "late", ("acme", "2026-09-30"))
    maintain(home.organization, snapshots_for=timedelta(0), kept_for=timedelta(0))

    assert found(home) == [("quantities", "2026-09", ["acme"], 1)]
    organization = home.stores.find_organization(home.org_id)
    [line] = status(organization).to_wire()["late"]
    assert (line["period"], line["measurements"], line["accounts"]) == ("2026-09", 1, ["acme"])


@pytest.mark.long
def test_files_of_other_months_and_of_before_are_not_opened(home):
    need_folder()
    aggregate(home.organization, SEPTEMBER)
    use(home, "late", ("acme", "2026-09-30"), ("acme", "2025-01-01"))
    lake = home.organization.lake
    folders = (lake.files.folder / "main").glob("m_*")
    [table] = [folder for folder in folders if any(folder.rglob("*.parquet"))]
    for path in table.rglob("*.parquet"):
        if "month=9" not in str(path):
            path.unlink()
    for path in sorted(table.rglob("month=9/*.parquet"), key=lambda each: each.stat().st_mtime)[:1]:
        path.unlink()

    assert found(home) == [("quantities", "2026-09", ["acme"], 1)]


@pytest.mark.long
def test_bills_of_periods_that_nothing_came_for_are_not_read(home):
    subscribe(home, "acme", "bolt")
    for month in (8, 9):
        bill(home.organization, Month(2026, month))
    home.clock.advance(hours=1)
    # The period still open, and one that nobody was billed for.
    use(home, "late", ("acme", "2026-09-30"), ("bolt", "2026-10-01"), ("bolt", "2026-07-31"))
    # Whoever reads the bills of August fails.
    with home.stores.state.writing_home() as connection:
        connection.execute(text("UPDATE bill SET body = 'no JSON' WHERE period = '2026-08'"))

    assert found(home) == [("bills", "2026-09", ["acme"], 1)]
