"""What is charged per period: with every bill or every N-th one, in arrears or in advance."""

from datetime import date, timedelta
from decimal import Decimal

import pytest

from meterlake.model.bills.bill import Bill
from meterlake.model.bills.billed_usage import BilledUsage
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.stages.bill import BillSelection, Provenance, billing_terms, make_bills
from tests.billing_world import SNAPSHOT, World, instant

ALL_YEAR = DayRange(date(2025, 12, 1), date(2027, 3, 1))


def charges(world, days=ALL_YEAR, **selection):
    """The standing charges by bill date: first day, day after the last one, amount."""
    terms = billing_terms(world.configuration, BillSelection(days, **selection))
    found = {}
    for bill in make_bills(terms, BilledUsage(), Provenance(SNAPSHOT, "1.0")):
        assert isinstance(bill, Bill), bill
        found[str(bill.bill_date)] = [
            (
                f"{line.service_period.start:%m-%d}",
                f"{line.service_period.end:%m-%d}",
                str(line.subtotal),
            )
            for line in bill.lines
        ]
    return found


def world_with(template, start, end=None, **more):
    world = World()
    world.plan("gold", {"standing_charge": Decimal(31), **template})
    times = {"start_date": instant(start)} | ({"end_date": instant(end)} if end else {})
    world.account("acme", "gold", **times, **more)
    return world


def test_in_advance_a_bill_charges_the_period_that_begins_with_it():
    world = world_with(
        {"standing_charge_bill_in_advance": True}, "2026-01-01T00:00:00Z", "2026-04-01T00:00:00Z"
    )

    assert charges(world) == {
        "2026-01-01": [("01-01", "02-01", "31.00")],
        "2026-02-01": [("02-01", "03-01", "31.00")],
        "2026-03-01": [("03-01", "04-01", "31.00")],
        "2026-04-01": [],
    }


def test_a_plan_that_begins_in_mid_period_has_its_first_part_and_the_next_on_one_bill():
    world = world_with(
        {"standing_charge_bill_in_advance": True}, "2026-01-17T00:00:00Z", "2026-03-01T00:00:00Z"
    )

    assert charges(world) == {
        "2026-02-01": [("01-17", "02-01", "15.00"), ("02-01", "03-01", "31.00")],
        "2026-03-01": [],
    }


def test_a_plan_that_begins_with_a_bill_date_has_no_bill_on_that_day_in_arrears():
    world = world_with({}, "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")

    assert charges(world) == {"2026-02-01": [("01-01", "02-01", "31.00")]}


@pytest.mark.parametrize(
    ("offset", "bill_dates"), [(0, ("2026-04-01", "2026-10-01")), (1, ("2026-07-01", "2027-01-01"))]
)
def test_every_second_quarter_charges_two_quarters(offset, bill_dates):
    world = world_with(
        {
            "bill_frequency_interval": 3,
            "standing_charge_interval": 2,
            "standing_charge_offset": offset,
        },
        "2026-01-01T00:00:00Z",
        "2027-01-01T00:00:00Z",
    )

    found = charges(world)

    assert {day for day, lines in found.items() if lines} == set(bill_dates)
    assert [found[day] for day in bill_dates] == [
        [("01-01", "07-01", "31.00")],
        [("07-01", "01-01", "31.00")],
    ]


def test_what_would_be_charged_after_the_end_of_the_plan_stands_on_its_last_bill():
    world = world_with(
        {"standing_charge_interval": 12, "standing_charge_offset": 11},
        "2026-01-01T00:00:00Z",
        "2026-03-15T00:00:00Z",
    )

    found = charges(world)

    # 73 of the 365 days of the group.
    assert found == {
        "2026-02-01": [],
        "2026-03-01": [],
        "2026-04-01": [("01-01", "03-15", "6.20")],
    }


def test_each_regular_period_inside_a_long_first_one_counts():
    world = world_with(
        {"standing_charge_interval": 2},
        "2026-01-01T00:00:00Z",
        "2026-07-01T00:00:00Z",
        bill_epoch=date(2026, 4, 1),
    )

    found = charges(world)

    assert found == {
        "2026-04-01": [("01-01", "03-01", "31.00"), ("03-01", "05-01", "31.00")],
        "2026-05-01": [],
        "2026-06-01": [("05-01", "07-01", "31.00")],
        "2026-07-01": [],
    }


@pytest.mark.parametrize(
    ("frequency", "epoch", "bill_dates"),
    [
        ("DAILY", {}, ["2026-01-02", "2026-01-03", "2026-01-04"]),
        ("WEEKLY", {"week_epoch": date(2022, 1, 15)}, ["2026-01-03", "2026-01-10"]),
        ("ANNUALLY", {"year_epoch": date(2023, 1, 3)}, ["2026-01-03", "2027-01-03"]),
        ("MONTHLY", {"month_epoch": date(2022, 1, 31)}, ["2026-01-31"]),
    ],
)
def test_epochs_decide_on_which_days_bills_are(frequency, epoch, bill_dates):
    world = World(**epoch)
    world.plan("gold", {"standing_charge": Decimal(31), "bill_frequency": frequency})
    start, end = instant("2026-01-01T00:00:00Z"), instant("2026-01-04T00:00:00Z")
    world.account("acme", "gold", start_date=start, end_date=end)

    assert list(charges(world)) == bill_dates


def test_a_run_of_one_bill_date_and_frequency_makes_no_others():
    world = world_with({}, "2026-01-01T00:00:00Z")
    world.plan("daily", {"standing_charge": Decimal(1), "bill_frequency": "DAILY"})
    world.subscribe("acme", "daily")
    last_day = DayRange.of_day(date(2026, 1, 31))
    terms = billing_terms(world.configuration, BillSelection(last_day))

    keys = [bill.key for each in terms.account_terms_of.values() for bill in each.bills]

    assert [(each.frequency, str(each.bill_date)) for each in keys] == [
        ("DAILY", "2026-02-01"),
        ("MONTHLY", "2026-02-01"),
    ]
    monthly = charges(world, last_day, frequency=BillingFrequency.MONTHLY)
    assert monthly == {"2026-02-01": [("01-01", "02-01", "31.00")]}
    assert charges(world, last_day, frequency=BillingFrequency.MONTHLY, interval=2) == {}
    assert charges(world, last_day, frequency=BillingFrequency.AD_HOC) == {}


def test_open_periods_are_those_with_the_day():
    world = world_with({}, "2026-01-01T00:00:00Z")
    today = date(2026, 2, 10)

    found = charges(world, DayRange(today, today), open_day=today)
    with_january = charges(world, DayRange(today - timedelta(days=15), today), open_day=today)

    assert list(found) == ["2026-03-01"]
    assert list(with_january) == ["2026-02-01", "2026-03-01"]
