"""The bills that a backfill touches are shown with what they would come to."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.model.bills.memos import CreditLineItem
from meterlake.model.values.period import Month, Period
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.billing.memos import MemoRef, create_memo
from meterlake.pipeline.usage.late import late
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.batch import BillOutcome
from meterlake.stores.state.billing.memos.memos import line_id
from tests.bills import a_home_to_bill
from tests.homes import HEADER, configure, csv_row


@pytest.mark.long
def test_a_bill_is_shown_with_its_amount_before_and_after(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        made = bill(home.organization, Month(2026, 9))
        totals = {each.account_code: each.total for each in made.bills}
        [[source]] = home.query("SELECT DISTINCT identity FROM lake.source")
        wanted = BackfillSpec(Mode.RETRACT, "wrong", source=source)

        found = backfill.start(home.organization, Order(wanted, "ann", "b"))
        backfill.apply(home.organization, "b", "ann")
        again = bill(home.organization, Month(2026, 9))

    shown = {each["account"]: each for each in found.summary["bills"]}
    assert set(shown) == {"acme", "bolt"}
    for code, entry in shown.items():
        assert entry["status"] == "PENDING"
        assert entry["billed"] == entry["before"] == f"{totals[code].normalize():f}"
    # What was foreseen is what the bills are then.
    assert {code: entry["after"] for code, entry in shown.items()} == {
        each.account_code: f"{each.total.normalize():f}" for each in again.bills
    }


@pytest.mark.long
def test_the_lines_that_people_put_on_a_bill_count_before_and_after(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        bill(home.organization, Month(2026, 9), accounts=["acme"])
        credited(home, Decimal("12.5"))
        [[source]] = home.query("SELECT DISTINCT identity FROM lake.source")
        wanted = BackfillSpec(Mode.RETRACT, "wrong", source=source)

        found = backfill.start(home.organization, Order(wanted, "ann", "b"))
        backfill.apply(home.organization, "b", "ann")
        bill(home.organization, Month(2026, 9), accounts=["acme"])
        [again] = stored(home)

    [shown] = found.summary["bills"]
    assert shown["before"] == shown["billed"]
    assert Decimal(shown["after"]) == again.content.total
    assert any(each.body["lineItemType"] == "CREDIT_MEMO" for each in again.content.lines)


def credited(home, amount):
    """Credit an amount on the first line of the only bill."""
    [made] = stored(home)
    body = made.content.lines[0].body
    document = {
        "productId": body["productId"],
        "accountingProductId": body["accountingProductId"],
        "description": "sorry",
        "amount": amount,
        "referencedBillId": made.id,
        "referencedLineItemId": line_id(made.id, made.content.lines[0].key),
        "servicePeriodStartDate": "2026-09-01T00:00:00Z",
        "servicePeriodEndDate": "2026-10-01T00:00:00Z",
    }
    create_memo(home.organization, "carl", MemoRef(CreditLineItem, made.id), document)


@pytest.mark.long
def test_a_locked_bill_outlives_every_backfill_of_its_usage(tmp_path):
    """Late usage and a withdrawal touch a closed period: its bill stays, and is named."""
    with a_home_to_bill(tmp_path) as home:
        bill(home.organization, Month(2026, 9), approve=True)
        with home.organization.transaction("ann") as transaction:
            for each in bills.of_period(transaction, "2026-09"):
                bills.lock(transaction, each.id)
        closed = stored(home)
        home.ingest("late.csv", HEADER + csv_row("late", "7", "acme"))
        [[source]] = home.query(
            "SELECT identity FROM lake.source WHERE name <> 'late.csv' ORDER BY ALL LIMIT 1"
        )
        wanted = BackfillSpec(Mode.RETRACT, "wrong", source=source)
        found = backfill.start(home.organization, Order(wanted, "ann", "b"))
        shown = {each["account"]: each for each in found.summary["bills"]}
        backfill.apply(home.organization, "b", "ann")
        again = bill(home.organization, Month(2026, 9))
        named = [each for each in late(home.organization) if each.closed_by == "bills"]
        assert stored(home) == closed
        backfill.revert(home.organization, "b", "ann")
        bill(home.organization, Month(2026, 9))
        assert stored(home) == closed

    assert set(shown) == {"acme", "bolt"}
    assert all(Decimal(each["after"]) != Decimal(each["billed"]) for each in shown.values())
    assert {each.stored for each in again.bills} == {BillOutcome.LOCKED}
    assert [(each.period, each.accounts, each.measurements) for each in named] == [
        ("2026-09", {"acme"}, 1)
    ]


def stored(home):
    with home.organization.reading() as reader:
        return bills.of_period(reader, "2026-09")


@pytest.mark.long
def test_bills_of_quantities_that_change_are_shown(tmp_path):
    with a_home_to_bill(tmp_path) as home:
        bill(home.organization, Month(2026, 9))
        window = Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
        order = Order(BackfillSpec(Mode.REAGGREGATE, window=window), "ann", "q")

        found = backfill.start(home.organization, order)

    # The month was billed, and never aggregated.
    shown = {each["account"]: each for each in found.summary["bills"]}
    assert {each["account"] for each in found.summary["quantities"]} >= set(shown) != set()
    assert found.summary["billsTouched"] == len(shown)
    for entry in shown.values():
        assert entry["billed"] == entry["before"] == entry["after"]


@pytest.mark.long
def test_the_bill_of_a_first_period_is_shown_for_usage_of_earlier_months(tmp_path):
    plan = {
        "code": "early",
        "accountId": "early",
        "planId": "basic",
        "startDate": "2026-07-20T00:00:00Z",
        "billEpoch": "2026-10-15",
    }
    account = {"code": "early", "name": "Early", "emailAddress": "bills@early.example"}
    with a_home_to_bill(tmp_path) as home:
        configure(home.organization, accounts=[account], accountPlans=[plan])
        rows = [csv_row("e", "7", "early", ts="2026-08-03T00:00:00Z")]
        home.ingest("early.csv", HEADER + "".join(rows))
        [made] = bill(home.organization, Month(2026, 10), accounts=["early"]).bills
        [[source]] = home.query("SELECT identity FROM lake.source WHERE name = 'early.csv'")
        wanted = BackfillSpec(Mode.RETRACT, "wrong", source=source)

        found = backfill.start(home.organization, Order(wanted, "ann", "b"))

    [shown] = found.summary["bills"]
    assert (shown["month"], shown["billId"]) == ("2026-10", made.bill_id)
    assert shown["billed"] == shown["before"] == f"{made.total.normalize():f}"
    assert Decimal(shown["after"]) == made.total - 7
    # The quantity is in the run in which its period begins.
    [quantity] = found.summary["quantities"][:1]
    assert (quantity["month"], quantity["start"]) == ("2026-07", "2026-07-20T00:00:00Z")
