"""In advance or in arrears: over the life of a plan both cost the same, bill by bill at least the minimum."""

from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.bills.bill import Bill
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.values.period import midnight, zone
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


def bills(life, *, in_advance, pricing_flag="the same", said_by="template"):
    """The bills of a life; who says that minimums are in advance, and what the pricing says itself."""
    minimum = {"minimum_spend_bill_in_advance": in_advance}
    # Whoever is asked later says the opposite, which nobody hears.
    other = {"minimum_spend_bill_in_advance": not in_advance}
    made = World(timezone="Europe/Berlin", **(minimum if said_by == "organization" else other))
    made.aggregation("sum")
    made.counter("seats")
    template = {
        "bill_frequency": life["frequency"],
        "bill_frequency_interval": life["interval"],
        "standing_charge": life["charge"],
        "minimum_spend": life["minimum"],
        "standing_charge_bill_in_advance": in_advance,
    }
    template |= {"organization": {}, "template": minimum, "plan": other}[said_by]
    made.plan("plan", template, **(minimum if said_by == "plan" else {}))
    made.pricing(
        "plan",
        "sum",
        [(0, 0, 1)],
        minimum_spend=life["pricing_minimum"],
        minimum_spend_bill_in_advance=in_advance if pricing_flag == "the same" else pricing_flag,
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
@settings(max_examples=25, deadline=None)
def test_in_advance_costs_what_it_costs_in_arrears(life):
    arrears, advance = bills(life, in_advance=False), bills(life, in_advance=True)

    total = sum(each.total for each in arrears)
    # Each line is rounded by itself.
    lines = sum(len(each.lines) for each in (*arrears, *advance))
    assert abs(sum(each.total for each in advance) - total) <= Decimal(lines) / 200


@given(
    lives(),
    st.booleans(),
    st.sampled_from(["organization", "template", "plan"]),
    st.sampled_from([None, True, False]),
)
@settings(max_examples=25, deadline=None)
def test_a_pricing_without_a_flag_of_its_own_has_that_of_its_plan(life, in_advance, said_by, own):
    found = bills(life, in_advance=in_advance, said_by=said_by, pricing_flag=own)

    # As if the template said what is said first, and the pricing said it, too.
    as_said = in_advance if own is None else own
    assert shown(found) == shown(bills(life, in_advance=in_advance, pricing_flag=as_said))


def shown(found):
    """All that bills charge, without who they are."""
    return [
        (each.total, [(line.type, line.subtotal, line.service_period) for line in each.lines])
        for each in found
    ]


@given(lives())
@settings(max_examples=25, deadline=None)
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
