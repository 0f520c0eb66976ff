"""In advance or in arrears: over the life of a plan both cost the same, bill by bill at least the minimum."""

from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.billing import Bill
from meterlake.model.calendar.day_range import DayRange
from meterlake.model.period import midnight, zone
from meterlake.stages.bill import BillSelection, Provenance, billing_terms, make_bills
from tests.billing_world import SNAPSHOT, World

BERLIN = zone("Europe/Berlin")
FIRST, AFTER = date(2025, 12, 1), date(2027, 12, 1)
cents = st.integers(0, 100_000).map(lambda number: Decimal(number) / 100)
frequencies = st.sampled_from([("MONTHLY", 1), ("MONTHLY", 3), ("WEEKLY", 1), ("ANNUALLY", 1)])


@st.composite
def lives(draw):
    """A plan for some days, what it charges, and what is used of it."""
    frequency, interval = draw(frequencies)
    start = FIRST + timedelta(days=draw(st.integers(31, 200)))
    days = draw(st.integers(1, 150))
    return {
        "frequency": frequency,
        "interval": interval,
        "start": start,
        "end": start + timedelta(days=days),
        "charge": draw(cents),
        "minimum": draw(cents),
        "pricing_minimum": draw(st.none() | cents),
        "seats": sorted(
            draw(st.dictionaries(st.integers(0, days), st.integers(0, 30), max_size=3)).items()
        ),
        "uses": draw(
            st.lists(st.tuples(st.integers(0, days - 1), st.integers(0, 500)), max_size=4)
        ),
        "bill_epoch": draw(st.none() | st.integers(0, 60)),
    }


def bills(life, *, in_advance):
    made = World(timezone="Europe/Berlin")
    made.aggregation("sum")
    made.counter("seats")
    flags = ("standing_charge_bill_in_advance", "minimum_spend_bill_in_advance")
    template = {
        "bill_frequency": life["frequency"],
        "bill_frequency_interval": life["interval"],
        "standing_charge": life["charge"],
        "minimum_spend": life["minimum"],
        **dict.fromkeys(flags, in_advance),
    }
    made.plan("plan", template)
    made.pricing(
        "plan",
        "sum",
        [(0, 0, 1)],
        minimum_spend=life["pricing_minimum"],
        minimum_spend_bill_in_advance=in_advance,
    )
    bands = [(0, 0, 2), (20, 0, 3)]
    made.counter_pricing("plan", "seats", bands, running_total_bill_in_advance=in_advance)
    epoch = life["bill_epoch"]
    made.account(
        "a",
        "plan",
        start_date=midnight(life["start"], BERLIN),
        end_date=midnight(life["end"], BERLIN),
        bill_epoch=None if epoch is None else life["start"] + timedelta(days=epoch),
    )
    for day, value in life["seats"]:
        made.adjust("a", "seats", str(life["start"] + timedelta(days=day)), value)
    for day, amount in life["uses"]:
        ts = midnight(life["start"] + timedelta(days=day), BERLIN) + timedelta(hours=1)
        made.use("a", ts.isoformat(), amount)
    terms = billing_terms(made.configuration, BillSelection(DayRange(FIRST, AFTER)))
    found = list(make_bills(terms, made.usage(terms), Provenance(SNAPSHOT, "1.0")))
    assert all(isinstance(each, Bill) for each in found), found
    return found


@given(lives())
@settings(max_examples=40, deadline=None)
def test_in_advance_costs_what_it_costs_in_arrears(life):
    arrears, advance = bills(life, in_advance=False), bills(life, in_advance=True)

    total = sum(each.total for each in arrears)
    # Each line is rounded by itself.
    lines = sum(len(each.lines) for each in (*arrears, *advance))
    assert abs(sum(each.total for each in advance) - total) <= Decimal(lines) / 200


@given(lives())
@settings(max_examples=40, deadline=None)
def test_a_bill_in_arrears_is_its_usage_or_the_minimum(life):
    for bill in bills(life, in_advance=False):
        amounts = {}
        for line in bill.lines:
            amounts[str(line.type)] = amounts.get(str(line.type), 0) + line.subtotal
        counted = sum(
            amounts.get(kind, 0)
            for kind in (
                "USAGE",
                "COUNTER_RUNNING_TOTAL_CHARGE",
                "COUNTER_ADJUSTMENT_DEBIT",
                "COUNTER_ADJUSTMENT_CREDIT",
                "MINIMUM_SPEND",
            )
        )
        assert counted >= minimum_of(life, bill)
        assert bill.total == sum(line.subtotal for line in bill.lines)


def minimum_of(life, bill):
    """The plan's minimum for a bill of one regular period, by a count of its days."""
    starts = [each.service_period for each in bill.lines]
    if life["bill_epoch"] is not None or not starts:
        return Decimal(-1)
    first, after = bill.start_date, bill.bill_date
    held = sum(
        life["start"] <= first + timedelta(days=day) < life["end"]
        for day in range((after - first).days)
    )
    exact = Fraction(life["minimum"]) * held / (after - first).days
    return Decimal(exact.numerator) / exact.denominator - Decimal("0.005")
