"""Which lines billed in advance may have changed, and what their bills pin."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from meterlake.model.bills.billed_usage import BilledUsage
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.stages.bill import BillIdentity, BillOverrides, BillSelection, billing_terms
from meterlake.stages.bill.advance_memos import find_memos
from meterlake.stages.bill.bills import Provenance, make_bills
from meterlake.stages.bill.terms.advance_lines import (
    AdvanceLine,
    ClosedBills,
    may_have_changed,
)
from tests.billing_world import World

BILL = BillIdentity("acme", date(2026, 2, 1), BillingFrequency.MONTHLY, 1)


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def line(days=28, **more):
    """A line for February, or the first days of it."""
    body = {
        "servicePeriodStartDate": "2026-02-01T00:00:00Z",
        "servicePeriodEndDate": f"2026-02-{days + 1:02}T00:00:00Z"
        if days < 28
        else "2026-03-01T00:00:00Z",
        "convertedSubtotal": "28",
    }
    row = {"active_days": days, "period_days": 28, **more}
    return AdvanceLine(
        "bill", "line", BILL, BillOverrides(), "STANDING_CHARGE/plan//x", body, "USD", "plan", **row
    )


@pytest.mark.parametrize(
    ("found", "start", "end", "changed"),
    [
        (line(), "2026-01-01", None, False),
        (line(), "2026-01-01", "2026-03-01", False),
        (line(), "2026-02-01", "2026-02-28", True),
        (line(), "2026-02-02", None, True),
        # It may hold for longer now.
        (line(10), "2026-01-01", None, True),
        (line(10), "2026-01-01", "2026-02-11", True),
        (line(active_days=None), "2026-01-01", None, True),
        # A memo has corrected it before.
        (line(settled=Decimal(-1)), "2026-01-01", None, True),
    ],
)
def test_a_full_line_within_the_time_of_its_plan_is_right_as_it_is(found, start, end, changed):
    assert may_have_changed(found, (at(start), end and at(end))) is changed


def test_a_bill_is_closed_by_its_lock_or_by_the_lock_date():
    later = BILL._replace(bill_date=date(2026, 3, 1))

    assert ClosedBills({BILL}).has(BILL)
    assert not ClosedBills({BILL}).has(later)
    assert ClosedBills((), date(2026, 3, 1)).has(later)
    assert not ClosedBills((), date(2026, 2, 28)).has(later)


def test_without_lines_there_are_no_memos():
    assert find_memos(World().configuration, [], ClosedBills(())) == []


def test_a_bill_pins_the_prices_of_what_it_charges_in_advance():
    """A price of seats that begins with the bill date."""
    world = World()
    world.plan("plan")
    world.counter("seats")
    pricing = world.counter_pricing("plan", "seats", [(0, 0, 2)], start_date=at("2026-02-01"))
    world.account("acme", "plan")
    world.adjust("acme", "seats", "2026-01-01", 5)
    selection = BillSelection(DayRange.of_day(date(2026, 1, 31)))
    terms = billing_terms(world.configuration, selection)
    [made] = make_bills(terms, BilledUsage(), Provenance(1, "1.0"))

    assert [each.converted_subtotal for each in made.lines] == [10]
    assert made.pins.versions[pricing] == 1
