"""What follows each other within a month adds up to the month, wherever it is split."""

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.values.period import Month, zone
from tests.billing_world import LONG_AGO, World
from tests.oracles import half_up

# Summer time begins or ends in each; also at midnight, at one minute past it, and by a whole day.
PLACES = [
    ("UTC", Month(2025, 1)),
    ("Europe/Berlin", Month(2026, 10)),
    ("America/New_York", Month(2026, 3)),
    ("America/Sao_Paulo", Month(2018, 11)),
    ("America/St_Johns", Month(2006, 10)),
    ("Pacific/Apia", Month(2011, 12)),
    ("Asia/Kathmandu", Month(2024, 2)),
]
CHARGE = 310
NEVER = datetime(2100, 1, 1, tzinfo=UTC)
_INSTANT = timedelta(microseconds=1)


def ends_of_days(name, month):
    """The midnights after the days of a month, in plain Python."""
    there, day = ZoneInfo(name), month.first
    found = []
    while day < month.after:
        day += timedelta(days=1)
        found.append(datetime(day.year, day.month, day.day, tzinfo=there).astimezone(UTC))
    return found


def counted(ends, start, end):
    """Day by day: at the end of how many days something holds."""
    days = 0
    for midnight in ends:
        last = midnight - _INSTANT
        begun = start <= last and not midnight - timedelta(seconds=1) <= start < midnight
        ended = end <= last and not midnight - timedelta(seconds=1) <= end < midnight
        days += begun and not ended
    return days


@st.composite
def splits(draw):
    """A place and a month, and instants in and around it: any, and those beside midnights."""
    name, month = draw(st.sampled_from(PLACES))
    period = month.period(zone(name))
    ends = ends_of_days(name, month)
    beside = st.builds(
        lambda midnight, offset: midnight + offset,
        st.sampled_from(ends),
        st.timedeltas(timedelta(seconds=-2), timedelta(seconds=2)),
    )
    around = st.datetimes(
        (period.start - timedelta(days=2)).replace(tzinfo=None),
        (period.end + timedelta(days=2)).replace(tzinfo=None),
    ).map(lambda each: each.replace(tzinfo=UTC))
    cuts = draw(st.lists(st.one_of(around, beside), max_size=6, unique=True))
    return name, month, ends, sorted(cuts)


def world(name, charges, bounds):
    made = World(timezone=name)
    made.account("a")
    for n, (charge, (start, end)) in enumerate(zip(charges, pairwise(bounds), strict=True)):
        made.plan(f"plan{n}", standing_charge=charge)
        made.subscribe("a", f"plan{n}", start_date=start, end_date=end)
    return made


def lines(made, month):
    found = {
        made.records[line.plan_id].entity.code: line
        for bill in made.bills(str(month))
        for line in bill.lines
    }
    return {int(code.removeprefix("plan")): line for code, line in found.items()}


@given(splits())
@settings(max_examples=40, deadline=None)
def test_plans_that_follow_each_other_share_the_days_of_the_month(case):
    name, month, ends, cuts = case
    found = lines(world(name, [CHARGE] * (len(cuts) + 1), [LONG_AGO, *cuts, NEVER]), month)
    days = [line.made_from.active_days for line in found.values()]

    assert sum(days) == len(ends)
    assert min(days) > 0
    exact = [Fraction(CHARGE) * each / len(ends) for each in days]
    assert sum(exact) == CHARGE
    assert [Fraction(line.subtotal) for line in found.values()] == [
        half_up(each, 2) for each in exact
    ]


@given(splits(), st.data())
@settings(max_examples=40, deadline=None)
def test_a_plan_is_charged_for_the_days_at_whose_end_it_holds(case, data):
    name, month, ends, cuts = case
    bounds = [LONG_AGO, *cuts, NEVER]
    charges = data.draw(
        st.lists(st.decimals(1, 1000, places=2), min_size=len(bounds) - 1, max_size=len(bounds) - 1)
    )
    found = lines(world(name, charges, bounds), month)
    expected = {n: counted(ends, start, end) for n, (start, end) in enumerate(pairwise(bounds))}

    assert {n: line.made_from.active_days for n, line in found.items()} == {
        n: days for n, days in expected.items() if days
    }
    for n, line in found.items():
        amount = Fraction(charges[n]) * expected[n] / len(ends)
        assert Fraction(line.subtotal) == half_up(amount, 2)
