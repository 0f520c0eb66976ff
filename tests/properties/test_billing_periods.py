"""A `billEpoch` is the first bill date: periods and days against a count in plain Python."""

from bisect import bisect_right
from calendar import monthrange
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.bills.bill import Bill, LineItemType
from meterlake.model.bills.billed_usage import BilledUsage
from meterlake.model.bills.billing_dates import BillingCycle
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.customers.recurring_period import RECURRING, PeriodSpec, recurring
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import Month
from meterlake.stages.bill import BillSelection, Provenance, billing_terms, make_bills
from meterlake.stages.usage.cycles import Cycles
from tests.billing_world import SNAPSHOT, World
from tests.oracles import half_up

A_DAY = timedelta(days=1)
DAYS = st.dates(date(2024, 11, 1), date(2026, 2, 28))
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu"]
CHARGE = 365


def after_months(day, months):
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))


def recurring_days(frequency, epoch, interval):
    """All days of a recurrence around an epoch, in order."""
    numbers = range(-1300, 1301)
    match frequency:
        case BillingFrequency.DAILY:
            return [epoch + A_DAY * interval * n for n in numbers]
        case BillingFrequency.WEEKLY:
            return [epoch + A_DAY * 7 * interval * n for n in numbers]
        case BillingFrequency.MONTHLY:
            return [after_months(epoch, interval * n) for n in numbers]
    return [after_months(epoch, 12 * interval * n) for n in range(-80, 81)]


def neighbours(days, day):
    """The last of some days on or before a day, and the first one after it."""
    at = bisect_right(days, day)
    return days[at - 1], days[at]


@given(st.sampled_from(RECURRING), st.integers(1, 4), DAYS, DAYS, st.sampled_from(ZONES))
@settings(max_examples=25, deadline=None)
def test_a_plan_has_one_period_until_its_first_bill_date_and_regular_ones_then(
    frequency, interval, epoch, begin, zone
):
    days = recurring_days(frequency, epoch, interval)
    start = datetime(begin.year, begin.month, begin.day, 13, tzinfo=ZoneInfo(zone))
    cycle = BillingCycle.from_first_bill(
        recurring(frequency, epoch, interval), start.astimezone(UTC), ZoneInfo(zone)
    )
    for day in (begin + A_DAY * n for n in range(-40, 500, 3)):
        first, after = neighbours(days, day)
        if begin <= day < epoch:
            first, after = begin, epoch
        elif day < begin < epoch:
            after = min(after, begin)
        found = cycle.containing(day)
        assert (found.first, found.after) == (first, after)
        regular = [neighbours(days, first)]
        while regular[-1][1] < after:
            regular.append(neighbours(days, regular[-1][1]))
        assert [(each.first, each.after) for each in cycle.regular(found)] == regular


@st.composite
def plans(draw):
    """A plan for an account: in which zone, from when until when, counted from which epochs."""
    zone, interval = draw(st.sampled_from(ZONES)), draw(st.sampled_from([1, 1, 2, 3]))
    hours = draw(st.integers(0, 24 * 300))
    start = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
    lasts = draw(st.none() | st.integers(1, 24 * 200))
    times = {"start_date": start}
    if lasts is not None:
        times["end_date"] = start + timedelta(hours=lasts)
    epochs = draw(st.sampled_from([("own",), ("account",), ("own", "account"), ()]))
    return zone, interval, times, {each: draw(DAYS) for each in epochs}


def world(plan):
    zone, interval, times, epochs = plan
    made = World(timezone=zone)
    made.aggregation("sum")
    made.plan("plan", {"bill_frequency_interval": interval}, standing_charge=CHARGE)
    made.pricing("plan", "sum", [(0, 0, 1)])
    made.account("a", **({"bill_epoch": epochs["account"]} if "account" in epochs else {}))
    own = {"bill_epoch": epochs["own"]} if "own" in epochs else {}
    made.subscribe("a", "plan", **times, **own)
    return made


def months(first, count):
    day = first
    for _ in range(count):
        yield Month(day.year, day.month)
        day = after_months(day.replace(day=1), 1)


def local(instant, zone):
    return instant.astimezone(ZoneInfo(zone)).date()


class Expected:
    """What the bills of a plan are, day by day."""

    def __init__(self, plan):
        zone, interval, times, epochs = plan
        epoch = epochs.get("own") or epochs.get("account") or date(2022, 1, 1)
        days = recurring_days(BillingFrequency.MONTHLY, epoch, interval)
        self.begin = local(times["start_date"], zone)
        first_bill = epoch if epochs and self.begin < epoch else date.min
        self.bill_dates = [each for each in days if each >= first_bill]
        end = times.get("end_date")
        self.charged: dict[date, Counter[tuple[date, date]]] = {}
        day, last = self.begin, self.begin + A_DAY * 600
        while day < last:
            following = datetime.combine(day + A_DAY, datetime.min.time(), ZoneInfo(zone))
            at_its_end = following.astimezone(UTC) - timedelta(microseconds=1)
            holds = times["start_date"] <= at_its_end and (end is None or at_its_end < end)
            if holds:
                bill = self.charged.setdefault(self.bill_date(day), Counter())
                bill[neighbours(days, day)] += 1
            day += A_DAY

    def bill_date(self, day):
        return next(each for each in self.bill_dates if each > day)


@given(plans())
@settings(max_examples=25, deadline=None)
def test_standing_charges_are_those_of_a_count_of_days(plan):
    made, expected, found = world(plan), Expected(plan), {}
    configuration = made.configuration
    for month in months(date(2024, 12, 1), 20):
        terms = billing_terms(configuration, BillSelection(month))
        for bill in make_bills(terms, BilledUsage(), Provenance(SNAPSHOT, "1.0")):
            assert isinstance(bill, Bill), bill
            assert month.first <= bill.bill_date - A_DAY < month.after
            assert bill.bill_date not in found
            found[bill.bill_date] = bill
    for bill_date, bill in found.items():
        counted = expected.charged.get(bill_date, Counter())
        amounts = [
            half_up(Fraction(CHARGE) * days / (after - first).days, 2)
            for (first, after), days in sorted(counted.items())
        ]
        assert [Fraction(line.subtotal) for line in bill.lines] == amounts
    missing = {each for each in expected.charged if each not in found}
    assert all(each > date(2026, 8, 1) for each in missing), missing


@given(plans())
@settings(max_examples=30, deadline=None)
def test_quantities_have_the_periods_of_bills(plan):
    made = world(plan)
    configuration = made.configuration
    account_id = derived_id("Account", "a")
    for month in months(date(2025, 3, 1), 12):
        terms = billing_terms(configuration, BillSelection(month))
        for bill in make_bills(terms, BilledUsage(), Provenance(SNAPSHOT, "1.0")):
            assert isinstance(bill, Bill), bill
            run = PeriodSpec.on(BillingFrequency.MONTHLY, bill.start_date).of(
                terms.organization.entity
            )
            periods = Cycles(configuration, run).periods(account_id, None)
            assert bill.period in periods


def billed_and_reported(made):
    """What is billed by bill date, and what is reported as unpriced by month."""
    billed, reported = Counter(), Counter()
    for month in map(str, months(date(2024, 12, 1), 20)):
        for line in (line for bill in made.bills(month) for line in bill.lines):
            if line.type is LineItemType.USAGE:
                billed[month] += line.quantity
        for row in made.unpriced(month):
            reported[month] += row.quantity
    return billed, reported


@given(plans(), st.lists(st.integers(0, 24 * 400), max_size=6))
@settings(max_examples=12, deadline=None)
def test_usage_is_on_one_bill_or_in_the_report_of_one_month(plan, hours):
    zone, _, times, _ = plan
    made, expected = world(plan), Expected(plan)
    end = times.get("end_date") or datetime.max.replace(tzinfo=UTC)
    wanted, unpriced = Counter(), Counter()
    for n, hour in enumerate(hours):
        instant = datetime(2025, 1, 1, tzinfo=UTC) + timedelta(hours=hour)
        made.use("a", instant.isoformat(), 2**n)
        day = local(instant, zone)
        if times["start_date"] <= instant < end:
            wanted[f"{expected.bill_date(day) - A_DAY:%Y-%m}"] += 2**n
        else:
            unpriced[f"{day:%Y-%m}"] += 2**n
    billed, reported = billed_and_reported(made)

    assert {month: amount for month, amount in wanted.items() if month < "2026-08"} == billed
    assert unpriced == reported
