"""Quantities of any period, each account over its own, against sums in plain Python."""

import json
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.values.period import Month, format_instant, midnight, zone
from meterlake.pipeline.usage.aggregate import aggregate
from tests.bills import price_egress, subscribe
from tests.homes import HEADER, a_home, configure, csv_row

DAILY, WEEKLY, MONTHLY = (BillingFrequency(name) for name in ("DAILY", "WEEKLY", "MONTHLY"))


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        opened.clock.time = datetime(2027, 6, 1, tzinfo=UTC)
        price_egress(opened)
        yield opened


def organization(home, **fields):
    configure(home.organization, organizationConfig={"daysBeforeBillDue": 30, **fields})


def accounts(home, *entries):
    fields = {"name": "A", "emailAddress": "a@b.example"}
    configure(home.organization, accounts=[fields | entry for entry in entries])


def ingest(home, rows, name="usage.csv"):
    lines = [
        csv_row(f"{name}{n}", gb, account, ts=format_instant(ts))
        for n, (account, ts, gb) in enumerate(rows)
    ]
    receipt = home.ingest(name, HEADER + "".join(lines))
    assert receipt.accepted == len(lines)


def around(tz, *days):
    """The boundary of each day's beginning and a microsecond before it; two powers each."""
    bit = 1
    for day in days:
        for instant in (midnight(day, tz) - timedelta(microseconds=1), midnight(day, tz)):
            yield instant, bit
            bit *= 2


def sums(home, asked):
    """The sums of a run by account and first and last instant; of the aggregation `sent`."""
    codes = home.account_codes()
    result = aggregate(home.organization, asked)
    sent = home.organization.configuration().find(Aggregation, "sent")
    return {
        (codes[each.account_id], each.period): each.value
        for each in result.quantities
        if each.aggregation_id == sent.id
    }


def expected(rows, periods):
    """What each account used in each of its periods."""
    found = defaultdict(Decimal)
    for account, ts, gb in rows:
        for period in periods.get(account, ()):
            if period.start <= ts < period.end:
                found[account, period] += gb
    return dict(found)


@pytest.mark.long
def test_a_timestamp_on_the_boundary_is_in_the_later_period_whatever_the_clocks_do(home):
    for name, frequency, day, first, after in (
        # The longest day, a month that is half an hour shorter, a day whose midnight is skipped.
        ("America/New_York", DAILY, "2026-11-01", "2026-11-01", "2026-11-02"),
        ("Australia/Lord_Howe", MONTHLY, "2026-10-04", "2026-10-01", "2026-11-01"),
        ("America/Santiago", DAILY, "2026-09-06", "2026-09-06", "2026-09-07"),
    ):
        organization(home, timezone=name)
        tz = zone(name)
        begins, ends = date.fromisoformat(first), date.fromisoformat(after)
        ingest(home, [(name[-5:], *point) for point in around(tz, begins, ends)], name[-5:])
        found = sums(home, PeriodSpec.on(frequency, date.fromisoformat(day)))
        [period] = {period for account, period in found if account == name[-5:]}

        assert (period.start, period.end) == (midnight(begins, tz), midnight(ends, tz))
        # The first instant of the period, and the last before its end.
        assert found[name[-5:], period] == 2 + 4


@pytest.mark.long
def test_every_account_has_its_own_periods_in_one_run(home):
    organization(home, timezone="America/New_York", monthEpoch="2022-01-05")
    accounts(
        home,
        {"code": "tenth", "billEpoch": "2022-01-10"},
        {"code": "end", "billEpoch": "2022-01-31"},
    )
    configure(
        home.organization,
        planTemplates=[
            {
                "code": "quarter",
                "name": "Q",
                "productId": "cloud",
                "currency": "USD",
                "standingCharge": 0,
                "billFrequency": "MONTHLY",
                "billFrequencyInterval": 3,
            }
        ],
        plans=[{"code": "quarter", "name": "Q", "planTemplateId": "quarter"}],
        accountPlans=[
            {
                "code": "bolt",
                "accountId": "bolt",
                "planId": "quarter",
                "startDate": "2026-01-01T00:00:00Z",
                "billEpoch": "2026-02-20",
            }
        ],
    )
    tz = zone("America/New_York")
    rows = [
        (account, midnight(date(2026, 1, 28), tz) + timedelta(hours=7 * n), Decimal(n))
        for account in ("acme", "tenth", "end", "bolt")
        for n in range(450)
    ]
    ingest(home, rows)

    def period(first, after):
        return (
            PeriodSpec.between(date.fromisoformat(first), date.fromisoformat(after))
            .of(None)
            .period(tz)
        )

    first, last = "2026-02-05", "2026-03-05"
    february = {
        "acme": [period(first, last)],
        "tenth": [period("2026-02-10", "2026-03-10")],
        "end": [period("2026-02-28", "2026-03-31")],
        "bolt": [period("2026-02-20", "2026-05-20")],
    }
    march = {
        "acme": [period(last, "2026-04-05")],
        "tenth": [period("2026-03-10", "2026-04-10")],
        "end": [period("2026-03-31", "2026-04-30")],
    }

    assert sums(home, Month(2026, 2)) == expected(rows, february)
    assert sums(home, Month(2026, 3)) == expected(rows, march)


@pytest.mark.long
def test_around_the_beginning_and_the_end_of_a_plan_all_usage_is_in_one_quantity(home):
    template = {"name": "T", "productId": "cloud", "currency": "USD", "standingCharge": 0}
    template |= {"billFrequency": "MONTHLY", "code": "quarter", "billFrequencyInterval": 3}
    configure(
        home.organization,
        planTemplates=[template, template | {"code": "month", "billFrequencyInterval": 1}],
        plans=[
            {"code": code, "name": "P", "planTemplateId": code} for code in ("quarter", "month")
        ],
    )
    accounts(home, *({"code": code} for code in ("begun", "moved", "ended")))
    start, end = "2026-11-20T00:00:00Z", "2026-11-10T00:00:00Z"
    always = {"startDate": "2022-01-01T00:00:00Z"}
    configure(
        home.organization,
        accountPlans=[
            {"code": account, "accountId": account, "planId": plan, **fields}
            for account, plan, fields in (
                ("begun", "quarter", {"startDate": start, "billEpoch": "2022-01-01"}),
                ("moved", "month", {"startDate": start, "billEpoch": "2022-01-15"}),
                ("ended", "quarter", always | {"endDate": end, "billEpoch": "2022-01-01"}),
            )
        ],
    )
    days = [datetime(2026, 10, 1, 12, tzinfo=UTC) + timedelta(days=n) for n in range(92)]
    ingest(home, [(code, day, 1) for code in ("begun", "moved", "ended") for day in days])
    found = [sums(home, Month(2026, month)) for month in (9, 10, 11, 12)]
    by_account = {
        code: [[int(value) for (name, _), value in run.items() if name == code] for run in found]
        for code in ("begun", "moved", "ended")
    }

    assert by_account == {
        "begun": [[], [92], [], []],
        "moved": [[], [31], [14, 30], [17]],
        "ended": [[], [92], [], []],
    }


@pytest.mark.long
def test_days_add_up_to_the_days_together(home):
    organization(home, timezone="Australia/Lord_Howe")
    tz = zone("Australia/Lord_Howe")
    begin = midnight(date(2026, 4, 3), tz)
    rows = [("acme", begin + timedelta(hours=5 * n), Decimal(n + 1)) for n in range(30)]
    ingest(home, rows)
    days = [date(2026, 4, 4) + timedelta(days=n) for n in range(3)]
    each = [sums(home, PeriodSpec.on(DAILY, day)) for day in days]
    [together] = sums(home, PeriodSpec.between(days[0], days[-1] + timedelta(days=1))).values()

    assert sum(value for found in each for value in found.values()) == together


@pytest.mark.long
def test_runs_of_other_frequencies_and_periods_do_not_touch_each_other(home):
    ingest(home, [("acme", datetime(2026, 9, day, 12, tzinfo=UTC), 1) for day in range(1, 29)])
    asked = [
        Month(2026, 9),
        PeriodSpec.on(DAILY, date(2026, 9, 1)),
        PeriodSpec.on(WEEKLY, date(2026, 9, 1)),
        PeriodSpec.between(date(2026, 9, 1), date(2026, 9, 3)),
        PeriodSpec.between(date(2026, 9, 1), date(2026, 9, 4)),
    ]
    runs = [aggregate(home.organization, each) for each in asked]
    again = [aggregate(home.organization, each) for each in asked[1:3]]

    assert all(run.appended for run in runs)
    assert [run.run_id for run in again] == [run.run_id for run in runs[1:3]]
    assert not any(run.appended for run in again)
    assert [
        (*row[:3], Decimal(row[3]))
        for row in home.query(
            "SELECT frequency, period, month, quantity FROM lake.quantity"
            " WHERE value_sum IS NULL ORDER BY frequency, period"
        )
    ] == [
        ("AD_HOC", "2026-09-01/2026-09-03", None, 2),
        ("AD_HOC", "2026-09-01/2026-09-04", None, 3),
        ("DAILY", "2026-09-01", None, 1),
        ("MONTHLY", "2026-09", "2026-09", 28),
        ("WEEKLY", "2026-09-01", None, 7),
    ]


@pytest.mark.long
def test_a_run_of_an_older_version_stands_as_long_as_nothing_changed(home):
    ingest(home, [("acme", datetime(2026, 9, 1, tzinfo=UTC), 1)])
    first = aggregate(home.organization, Month(2026, 9))
    lake = home.organization.lake
    with lake.lock(), lake.transaction() as connection:
        connection.execute(
            "UPDATE lake.quantity SET frequency = NULL, period = NULL, kind = NULL,"
            " statement_id = NULL"
        )
    again = aggregate(home.organization, Month(2026, 9))

    assert (again.appended, again.run_id) == (False, first.run_id)


@pytest.mark.long
def test_what_children_use_is_pooled_with_their_parent(home):
    accounts(
        home,
        {"code": "parent"},
        {"code": "free", "parentAccountId": "parent"},
        {"code": "own", "parentAccountId": "parent"},
        {"code": "moved", "parentAccountId": "parent"},
        {"code": "idle"},
        {"code": "busy", "parentAccountId": "idle"},
    )
    subscribe(home, "parent", "own", "idle")
    configure(
        home.organization,
        accountPlans=[
            {
                "code": "moved",
                "accountId": "moved",
                "planId": "basic",
                "startDate": "2026-09-16T00:00:00Z",
            }
        ],
    )
    half, whole = datetime(2026, 9, 16, tzinfo=UTC), datetime(2026, 9, 15, 23, tzinfo=UTC)
    ingest(
        home,
        [
            *(("parent", half, 1), ("free", half, 2), ("own", half, 4)),
            *(("moved", half, 8), ("moved", whole, 16), ("acme", half, 32)),
            ("busy", half, 64),
        ],
    )
    result = aggregate(home.organization, Month(2026, 9))
    codes = home.account_codes()
    found = {
        (codes[row.quantity.account_id], row.pooled and row.pooled.value): row.quantity.value
        for row in result.rows
        if row.quantity.mean is None
    }

    assert found == {
        ("parent", "parent"): 1 + 2 + 16,
        ("free", "child"): 2,
        ("own", None): 4,
        ("moved", "child"): 24,
        ("acme", None): 32,
        # Without usage of its own, a parent has what its children use.
        ("idle", "parent"): 64,
        ("busy", "child"): 64,
    }
    # Of the pool the mean is the mean of all measurements.
    [mean] = [
        row.quantity
        for row in result.rows
        if row.quantity.mean and codes[row.quantity.account_id] == "parent"
    ]
    assert (mean.mean, mean.measurements) == ((19, 3), 3)
    assert home.query(
        "SELECT count(*) FROM lake.quantity WHERE pooled = 'parent' AND value_sum IS NULL"
    ) == [(2,)]


@pytest.mark.long
def test_what_gave_a_quantity_is_kept_and_gives_it_again(home):
    accounts(
        home,
        {"code": "parent"},
        {"code": "child", "parentAccountId": "parent"},
        {"code": "own", "billEpoch": "2022-01-15"},
    )
    subscribe(home, "parent")
    first = datetime(2026, 9, 20, tzinfo=UTC)
    ingest(
        home, [(code, first, n + 1) for n, code in enumerate(("acme", "own", "child", "parent"))]
    )
    result = aggregate(home.organization, Month(2026, 9))
    # What comes later does not change what a snapshot holds.
    ingest(home, [("acme", first, 100)], "late.csv")
    stored = home.query(
        "SELECT q.account_id, q.value, q.value_sum, s.sql, s.parameters, s.snapshot"
        " FROM lake.quantity q JOIN lake.quantity_statement s"
        " ON s.run_id = q.run_id AND s.id = q.statement_id"
    )
    statements = {(sql, parameters) for *_, sql, parameters, _ in stored}

    assert len(stored) == len(result.rows) == 8
    assert len(statements) == 3  # The month, periods of their own, pools.
    assert {row[-1] for row in stored} == {result.snapshot}
    again = set()
    with home.organization.lake.reader() as connection:
        for sql, parameters in statements:
            for row in connection.execute(sql, json.loads(parameters)).fetchall():
                again |= {(row[0], value) for value in row if isinstance(value, Decimal)}
    assert {(account, value) for account, value, mean, *_ in stored if mean is None} <= again
