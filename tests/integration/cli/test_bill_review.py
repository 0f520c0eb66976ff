"""`meterlake bill review`: one line for each thing that is open before bills are approved."""

import json
import shlex
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import text

from meterlake.cli import run
from meterlake.model.errors import Invalid
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.bills import approve_bills
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.open_points import (
    count_open_points,
    describe_open_points,
    has_jumped,
)
from meterlake.pipeline.closing.bill_review import review_bills
from meterlake.pipeline.ingest.expected_files import overdue_files
from meterlake.stores.state.billing.bills.lists import BillFilters
from meterlake.stores.state.billing.bills.summaries import read_month_bills
from meterlake.stores.state.billing.bills.totals import BillTotals
from tests.bills import a_home_to_bill, aggregation, price_egress, refuse_bills, subscribe, use
from tests.homes import HEADER, configure, csv_row
from tests.late_bills import retract, revert
from tests.sent_bills import top_up

SEPTEMBER = Month(2026, 9)


@pytest.fixture
def home(tmp_path, monkeypatch):
    with a_home_to_bill(tmp_path) as opened:
        monkeypatch.setenv("METERLAKE_HOME", str(opened.stores.home))
        yield opened


def settings(home, **changes):
    configure(home.organization, organizationConfig={"daysBeforeBillDue": 14, **changes})


def opened(home, month=SEPTEMBER):
    return [
        (each.kind.value, each.subject, each.detail)
        for each in review_bills(home.organization, month)
    ]


def bill_months(home, *months):
    for month in months:
        assert not bill(home.organization, Month(2026, month)).failures


@pytest.mark.long
def test_bills_that_were_made_have_nothing_open(home, capsys):
    bill_months(home, 9)

    assert run(["bill", "review", "--month", "2026-09"]) == 0
    assert "Nothing is open: the bills of 2026-09 may be approved." in capsys.readouterr().out


@pytest.mark.long
def test_a_month_that_nobody_billed_has_its_bills_missing(home, capsys):
    assert opened(home) == [
        ("MissingBill", "acme", "no bill for September 2026; it would come to 73.50 USD"),
        ("MissingBill", "bolt", "no bill for September 2026; it would come to 131.00 USD"),
    ]
    assert run(["bill", "review", "--month", "2026-09", "--json"]) == 1
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["type"] == "open"
    assert first["command"] == "meterlake bill --date 2026-10-01 --account acme"
    assert (first["amount"], first["currency"]) == (73.5, "USD")
    assert run(shlex.split(first["command"])[1:]) == 0
    assert [subject for _, subject, _ in opened(home)] == ["bolt"]

    settings(home, reviewMissingBills=False)
    assert opened(home) == []


def test_no_bill_is_missing_before_the_month_is_over(home):
    home.clock.time = datetime(2026, 9, 30, 23, 59, tzinfo=UTC)
    assert opened(home) == []
    home.clock.time = datetime(2026, 10, 1, tzinfo=UTC)
    assert [kind for kind, _, _ in opened(home)] == ["MissingBill", "MissingBill"]


def test_nothing_of_a_review_is_stored(home):
    before = stored(home)
    opened(home)
    assert stored(home) == before


def stored(home):
    """All of State, where it is in a file."""
    with home.organization.reading() as reader:
        is_sqlite = reader.connection.dialect.name == "sqlite"
        return list(reader.connection.connection.iterdump()) if is_sqlite else None


def test_an_account_that_cannot_be_billed_is_open_with_its_reason(home):
    bill_months(home, 9)
    refuse_bills(home, "bolt")

    [(kind, subject, detail)] = opened(home)
    assert (kind, subject) == ("FailedAccount", "bolt")
    assert "EUR" in detail


def test_an_account_with_a_damaged_row_is_open_by_name_beside_all_others(home):
    with home.organization.transaction("someone") as transaction:
        damaged = "UPDATE entity SET body = '{broken' WHERE kind = 'Account' AND code = 'acme'"
        assert transaction.connection.execute(text(damaged)).rowcount == 1

    missing, failed = sorted(opened(home), reverse=True)
    assert missing == (
        "MissingBill",
        "bolt",
        "no bill for September 2026; it would come to 131.00 USD",
    )
    assert failed[:2] == ("FailedAccount", "acme")
    assert "the row of Account" in failed[2]


def test_usage_before_a_plan_is_told_with_the_day_on_which_the_plan_began(home):
    row = csv_row("early", "7", "zoë's", ts="2026-09-05T00:00:00Z")
    home.ingest("early.csv", HEADER + row)
    subscribe(home, "zoë's", start="2026-09-19T00:00:00Z")

    details = [detail for kind, _, detail in opened(home) if kind == "UnpricedUsage"]
    assert len(details) == 1
    assert details[0].endswith(
        "without a price: NoAccountPlan: used before the plan began on 19 Sep 2026"
    )


@pytest.mark.long
def test_usage_without_a_price_is_open_unless_the_settings_say_otherwise(home, capsys):
    use(home, ("9", "zoë's", 7))
    bill_months(home, 9)

    [(kind, subject, detail)] = opened(home)
    assert (kind, subject) == ("UnpricedUsage", "zoë's")
    assert detail.startswith("1 measurement of egress")
    assert run(["bill", "review", "--month", "2026-09"]) == 1
    capsys.readouterr()
    [found] = review_bills(home.organization, SEPTEMBER)
    # Up to 100 units are 1 USD each, whatever the average of the bills is.
    assert (found.amount, found.currency) == (Decimal("7.00"), "USD")
    command = found.command
    assert command.startswith("meterlake sql \"SELECT * FROM 'egress' WHERE account_id = '")
    before = stored(home)
    assert run([*shlex.split(command)[1:], "--json"]) == 0
    [used] = map(json.loads, capsys.readouterr().out.splitlines())
    assert (used["account"], used["gb"]) == ("zoë's", 7)
    assert stored(home) == before

    settings(home, reviewUnpricedUsage=False)
    assert opened(home) == []


def test_at_stake_is_what_a_plan_that_begins_earlier_adds_to_the_bill(home):
    fixed = {"lowerLimit": 0, "fixedPrice": 45, "unitPrice": 0}
    configure(
        home.organization,
        aggregations=[aggregation("peak", "MAX")],
        pricings=[
            {
                "code": "peak",
                "planId": "basic",
                "aggregationId": "peak",
                "startDate": "2026-01-01T00:00:00Z",
                "cumulative": True,
                "pricingBands": [fixed],
            }
        ],
    )
    for day, gb in (("05", 90), ("25", 40)):
        row = csv_row(f"early-{day}", gb, "early", ts=f"2026-09-{day}T00:00:00Z")
        home.ingest(f"{day}.csv", HEADER + row)
    subscribe(home, "early", start="2026-09-19T00:00:00Z")
    bill_months(home, 9)

    def total():
        with home.organization.reading() as reader:
            return sum(each.total for each in read_month_bills(reader, str(SEPTEMBER)))

    before, found = total(), review_bills(home.organization, SEPTEMBER)
    at_stake = [each.amount for each in found if each.kind.value == "UnpricedUsage"]
    subscribe(home, "early", start="2026-09-01T00:00:00Z")
    bill_months(home, 9)

    # 90 GB come to the 40 that are on the bill, and 100 cost something; 45 USD are fixed.
    assert sorted(at_stake) == [0, 60]
    # Besides, the plan has a standing charge for 18 more days.
    assert total() - before == 60 + Decimal("18.60")


@pytest.mark.long
def test_usage_that_came_after_the_bills_is_open(home):
    bill_months(home, 9)
    use(home, ("late", "acme", 1), ("late-2", "bolt", 1))

    found = [each for each in review_bills(home.organization, SEPTEMBER) if each.bill_id]
    came = "usage that came after the bill was made comes to +"
    # One more does not change what bolt pays.
    assert [(each.kind.value, each.subject, each.amount) for each in found] == [
        ("LateUsage", "acme", Decimal(1))
    ]
    assert found[0].detail.startswith(came)


@pytest.mark.long
def test_usage_that_went_after_the_bills_is_open_until_somebody_has_dealt_with_it(home):
    bill_months(home, 9)
    backfill = retract(home, "1.csv")

    # acme and bolt came in one file.
    went = "a backfill came after the bill was made (retract of 1.csv, applied); it comes to -"
    found = review_bills(home.organization, SEPTEMBER)
    assert [(each.kind.value, each.subject) for each in found] == [
        ("LateUsage", code) for code in ("acme", "bolt")
    ]
    assert [each.detail for each in found if not each.detail.startswith(went)] == []
    assert run(shlex.split(found[0].command)[1:]) == 0
    revert(home, backfill)
    # What is taken back changes no amount.
    assert opened(home) == []
    bill_months(home, 9)
    assert opened(home) == []


@pytest.mark.long
def test_late_usage_is_open_until_the_policy_has_dealt_with_it(home):
    bill_months(home, 9)
    use(home, ("late", "acme", 1))
    assert run(["late", "--apply"]) == 0

    [found] = review_bills(home.organization, SEPTEMBER)
    assert (found.kind.value, found.subject) == ("LateUsage", "acme")
    assert "comes to +1.00 USD" in found.detail
    assert run(shlex.split(found.command)[1:]) == 0

    settings(home, lateUsage="RECALCULATE")
    assert run(["late", "--apply"]) == 0
    assert opened(home) == []


def test_rejected_rows_are_of_the_month_in_the_zone_of_the_organization(home):
    settings(home, timezone="Europe/Berlin")
    rows = [
        csv_row("in", "many", "acme", ts="2026-09-30T21:59:00Z"),
        csv_row("out", "many", "acme", ts="2026-09-30T22:29:00Z"),
    ]
    home.ingest("bad.csv", HEADER + "".join(rows))

    for month in (SEPTEMBER, Month(2026, 10)):
        [found] = [each for each in review_bills(home.organization, month) if each.count]
        assert (found.subject, found.count) == ("InvalidNumber", 1)
    assert not any(each.count for each in review_bills(home.organization, Month(2026, 8)))


@pytest.mark.long
def test_rejected_rows_of_the_month_are_open_and_those_of_others_are_not(home):
    bill_months(home, 9)
    rows = [
        csv_row("bad", "many", "acme"),
        csv_row("bad-2", "many", "acme"),
        csv_row("other", "many", "acme", ts="2026-07-03T00:00:00Z"),
    ]
    home.ingest("bad.csv", HEADER + "".join(rows))

    assert opened(home) == [
        ("RejectedRows", "InvalidNumber", "2 rejected rows wait to be mended"),
    ]
    [found] = review_bills(home.organization, SEPTEMBER)
    assert found.command == "meterlake rejected list --reason InvalidNumber"
    assert opened(home, Month(2026, 8)) == [
        ("MissingBill", "acme", "no bill for August 2026; it would come to 31.00 USD"),
        ("MissingBill", "bolt", "no bill for August 2026; it would come to 31.00 USD"),
    ]

    settings(home, reviewRejectedRows=2)
    assert opened(home) == []
    settings(home, reviewRejectedRows=1)
    assert len(opened(home)) == 1


@pytest.mark.long
def test_a_file_that_is_expected_and_has_not_come_is_open(home):
    bill_months(home, 9)
    settings(home, reviewFiles=["1.csv", "usage-{month}-*.csv"])

    assert opened(home) == [("MissingFile", "usage-2026-09-*.csv", "no such file has come")]


@pytest.mark.long
def test_a_file_of_a_day_is_open_when_it_is_overdue(home, capsys):
    bill_months(home, 9)
    daily = {"name": "Gateway", "pattern": "gate-{date}*.csv", "hours": 3, "since": "2026-09-28"}
    monthly = {"name": "Invoices", "pattern": "inv-{month}.csv", "every": "MONTH"}
    files = [daily, {**monthly, "hours": 48, "since": "2026-08-15"}]
    settings(home, expectedFiles=files, timezone="Europe/Berlin", reviewMissingBills=False)
    home.ingest("gate-2026-09-29-late.csv", HEADER)
    # Three hours after the end of the 30th in Berlin.
    home.clock.time = datetime(2026, 10, 1, 0, 59, tzinfo=UTC)

    missing = ("MissingFile", "gate-2026-09-28*.csv")
    assert [each[:2] for each in opened(home) if each[0] == "MissingFile"] == [missing]
    home.clock.time += timedelta(minutes=1)
    late = [each for each in opened(home) if each[0] == "MissingFile"]
    assert late[1:] == [
        (
            "MissingFile",
            "gate-2026-09-30*.csv",
            "Gateway of 2026-09-30 was due 2026-10-01T01:00:00Z",
        )
    ]
    found = [(each.name, each.period) for each in overdue_files(home.organization)]
    assert found == [
        ("Invoices", "2026-08"),
        ("Gateway", "2026-09-28"),
        ("Gateway", "2026-09-30"),
    ]

    capsys.readouterr()
    assert run(["check", "files", "--json"]) == 1
    lines = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert {"Gateway", "Invoices"} == {each["name"] for each in lines}


def test_the_name_of_an_expected_file_says_of_when_it_is(home):
    for every, pattern in (("DAY", "a-{month}.csv"), ("MONTH", "a-{date}.csv")):
        file = {"name": "A", "pattern": pattern, "every": every, "since": "2026-09-01"}
        with pytest.raises(Invalid, match=f"a file of each {every.lower()} has"):
            settings(home, expectedFiles=[file])


@pytest.mark.long
def test_a_total_that_jumped_is_open(home):
    bill_months(home, 7, 8, 9)

    assert opened(home) == [
        (
            "TotalJumped",
            "acme",
            "73.50 USD is 137 % above the median of 2 bills before: 31.00 USD",
        ),
        (
            "TotalJumped",
            "bolt",
            "131.00 USD is 323 % above the median of 2 bills before: 31.00 USD",
        ),
    ]
    at_stake = [each.amount for each in review_bills(home.organization, SEPTEMBER)]
    assert at_stake == [Decimal("42.5"), Decimal(100)]
    settings(home, reviewTotalPercent=Decimal("137.1"), reviewTotalPeriods=1)
    assert [each[:2] for each in opened(home)] == [("TotalJumped", "bolt")]
    settings(home, reviewTotalPercent=0)
    assert opened(home) == []


@pytest.mark.long
def test_a_total_after_bills_of_nothing_is_no_percentage(home):
    free = {"code": "basic", "name": "Basic", "planTemplateId": "cloud", "standingCharge": 0}
    configure(home.organization, plans=[free])
    bill_months(home, 8, 9)

    assert opened(home) == [
        ("TotalJumped", "acme", "42.50 USD is above the bill before: 0.00 USD"),
        ("TotalJumped", "bolt", "100.00 USD is above the bill before: 0.00 USD"),
    ]


@pytest.mark.usefixtures("home")
def test_what_is_no_month_is_refused(capsys):
    assert run(["bill", "review", "--month", "2026-13"]) == 1
    assert "2026-13" in capsys.readouterr().err


TOTALS = st.decimals(-1000, 1000, places=2)


@pytest.mark.long
@given(TOTALS, st.lists(TOTALS, min_size=1, max_size=7), st.decimals(0, 300, places=1))
def test_a_jump_is_further_from_the_median_than_the_percent(total, earlier, percent):
    found = has_jumped(BillTotals("b", "a", "USD", total, tuple(earlier)), percent)

    middle = median([each * 100 for each in earlier]) / 100
    low, high = sorted(
        (middle * (100 - percent) / 100, middle * (100 + percent) / 100),
    )
    assert found == (not low <= total <= high)


def test_a_first_bill_never_jumps():
    assert not has_jumped(BillTotals("b", "a", "USD", Decimal(10**9), ()), Decimal(0))


@pytest.mark.long
def test_a_plan_that_begins_later_has_no_bill_missing(home):
    bill_months(home, 9)
    configure(
        home.organization,
        accounts=[{"code": "new", "name": "New", "emailAddress": "a@new.example"}],
    )
    subscribe(home, "new", start="2026-11-01T00:00:00Z")

    assert opened(home) == []


def test_a_bill_that_is_not_calculated_from_what_holds_now_is_open_by_its_cause(home, capsys):
    bill_months(home, 9)
    home.clock.time = datetime(2026, 10, 2, tzinfo=UTC)
    assert opened(home) == []
    top_up(home, "acme")
    topped_up = opened(home)
    assert run(["bill", "approve", "acme/2026-09"]) == 0
    told = capsys.readouterr().out
    assert run(["bill", "lock", "acme/2026-09", "--dry-run"]) == 0
    before_lock = capsys.readouterr().out
    assert run(["bill", "unapprove", "acme/2026-09"]) == 0
    price_egress(home, price=2)
    repriced = opened(home)
    bill_months(home, 9)

    assert [each[:2] for each in topped_up] == [("OutdatedBill", "acme")]
    assert topped_up[0][2].startswith("balances or commitments of the customer changed after")
    open_point = "Open: 1 OutdatedBill (meterlake bill review --month 2026-09)"
    assert open_point in told
    assert open_point in before_lock
    assert {each[1]: each[2].partition(" changed")[0] for each in repriced} == {
        "acme": "balances or commitments of the customer",
        "bolt": "prices, plans or settings",
    }
    assert opened(home) == []


@pytest.mark.long
def test_whoever_approves_by_the_command_is_told_what_is_open(home, capsys):
    settings(home, reviewFiles=["usage-{month}.csv"])
    assert run(["bill", "--month", "2026-09"]) == 0
    capsys.readouterr()
    assert run(["bill", "--month", "2026-09", "--approve", "--json"]) == 0

    lines = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert [each["subject"] for each in lines if each["type"] == "open"] == ["usage-2026-09.csv"]
    assert {each["status"] for each in lines if each["type"] == "bill"} == {"APPROVED"}


@pytest.mark.long
def test_whoever_approves_by_the_api_is_told_what_is_open(home):
    bill_months(home, 8)
    use(home, ("late", "bolt", 1))
    home.ingest("e.csv", HEADER + csv_row("e", 1, "bolt", ts="2026-08-03T00:00:00Z"))
    bill_months(home, 9)
    assert run(["late", "--apply"]) == 0

    def told(**filters):
        return describe_open_points(home.organization, BillFilters(**filters))

    where = "(meterlake bill review --month 2026-09)"
    assert told() == f"open: 1 LateUsage, 2 TotalJumped {where}"
    assert told(date_from=date(2026, 9, 2)) == f"open: 2 TotalJumped {where}"
    settings(home, reviewTotalPercent=0)
    assert told(date_from=date(2026, 9, 2)) == ""
    refuse_bills(home, "bolt")
    home.clock.advance(hours=1)
    bill(home.organization, SEPTEMBER)
    assert told(date_from=date(2026, 9, 2)) == f"open: 1 UnpricedUsage {where}"
    # What was open before the approval still is, until the lock.
    with home.organization.reading() as reader:
        ids = [each.id for each in read_month_bills(reader, "2026-09")]
    approve_bills(home.organization, "ada", ids)
    those = BillFilters(date_from=date(2026, 9, 2))
    assert told(date_from=date(2026, 9, 2)) == ""
    found = count_open_points(home.organization, those, also_approved=True)
    assert found.describe() == f"open: 1 UnpricedUsage {where}"
