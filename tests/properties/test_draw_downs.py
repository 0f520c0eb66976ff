"""Laws of what commitments and balances pay, of fees and of splitting."""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.bills.billing_dates import BillingCycle
from meterlake.model.calendar.recurrence import Recurrence, ScheduleFrequency
from meterlake.model.catalog.plans import PricingBand
from meterlake.model.configuration.organization import BillCreditType
from meterlake.model.values.money import RoundingMode, exact, round_amount
from meterlake.model.values.period import Period, zone
from meterlake.stages.bill.credits.draw_downs import CreditSource, DrawTerms, PayableLine, draw_down
from meterlake.stages.bill.credits.overage import UsageToSplit, find_overage, split_overage
from meterlake.stages.bill.periods.service_periods import Every
from meterlake.stages.bill.pricing.rate import slice_units
from meterlake.stages.bill.pricing.remainders import split_by_weights
from meterlake.stages.bill.terms.commitment_fees import FeeTerms, PlanSpan, plan_instalments
from tests.laws import examples

D = Decimal
BERLIN = zone("Europe/Berlin")
START = datetime(2026, 1, 1, tzinfo=UTC)
TYPES = ("USAGE", "STANDING_CHARGE", "AD_HOC", "COMMITMENT_FEE")
cents = st.integers(0, 100_000).map(lambda number: D(number).scaleb(-2))


def periods(days=120):
    hours = st.integers(0, days * 24).map(lambda number: START + timedelta(hours=number))
    return st.tuples(hours, hours).map(lambda two: Period(*sorted(two)))


@st.composite
def payable_lines(draw):
    lines = []
    for number in range(draw(st.integers(0, 6))):
        amount = draw(cents | cents.map(lambda each: -each))
        kind = draw(st.sampled_from(TYPES))
        units = draw(st.none() | st.integers(0, 50))
        weigh = None if units is None else lambda part, units=units: D(units * part.start.day % 7)
        lines.append(
            PayableLine(
                number=number,
                type=kind,
                amount=amount,
                period=draw(periods()),
                product_id=draw(st.sampled_from(["p", "q", None])),
                units_of=weigh if kind == "USAGE" else None,
                covers=draw(st.frozensets(st.integers(0, 6), max_size=2))
                if amount < 0
                else frozenset(),
            )
        )
    return lines


@st.composite
def payers(draw):
    rates = st.sampled_from([D(1), D("1.25"), D("0.0067"), D("133.7")])
    return [
        CreditSource(
            id=str(number),
            name=str(number),
            kind=draw(st.sampled_from(BillCreditType)),
            period=draw(periods()),
            created=START + timedelta(days=draw(st.integers(0, 2))),
            left=draw(cents),
            rate=draw(rates),
            product_ids=draw(st.frozensets(st.sampled_from("pq"), max_size=1)),
            overdraft=draw(st.booleans()),
            surcharge=D(10),
        )
        for number in range(draw(st.integers(0, 5)))
    ]


terms = st.builds(DrawTerms, st.sampled_from([0, 2, 3]), st.sampled_from([UTC, BERLIN]))


def rounded(lines, places):
    return [
        PayableLine(
            **{name: getattr(each, name) for name in PayableLine.__slots__ if name != "amount"},
            amount=round_amount(each.amount, places, RoundingMode.HALF_UP),
        )
        for each in lines
    ]


@settings(max_examples=examples(80))
@given(lines=payable_lines(), sources=payers(), what=terms)
def test_draws_never_exceed_a_source_nor_a_line(lines, sources, what):
    lines = rounded(lines, what.places)

    found = draw_down(lines, sources, what)

    amount_of = {each.number: each.amount for each in lines}
    paid = defaultdict(D)
    posted = defaultdict(D)
    for each in found.draws:
        assert each.amount > 0
        paid[each.part.line] += each.amount
        posted[each.source] += each.posted
    assert all(0 < amount <= amount_of[number] for number, amount in paid.items())
    for each in found.sources:
        assert posted[each.source.key] == each.posted
        assert each.left == each.source.left - each.posted
        assert each.left >= 0 or each.source.overdraft
        with exact():
            worth = each.source.left * each.source.rate
        assert each.amount <= worth or each.source.overdraft
    for part in found.parts:
        drawn = sum(each.amount for each in found.draws if each.part == part.key)
        assert drawn + found.uncovered[part.key] == part.amount
        assert found.uncovered[part.key] >= 0


@settings(max_examples=examples(60))
@given(lines=payable_lines(), sources=payers(), what=terms, data=st.data())
def test_the_order_of_what_is_given_decides_nothing(lines, sources, what, data):
    lines = rounded(lines, what.places)

    shuffled = draw_down(
        data.draw(st.permutations(lines)), data.draw(st.permutations(sources)), what
    )

    assert shuffled == draw_down(lines, sources, what)


@settings(max_examples=examples(60))
@given(lines=payable_lines(), what=terms)
def test_a_fully_covered_bill_is_0(lines, what):
    """A source that pays for everything leaves nothing, and there is no overage."""
    lines = [each for each in rounded(lines, what.places) if each.type != "COMMITMENT_FEE"]
    source = CreditSource(
        id="b",
        name="b",
        kind=BillCreditType.BALANCE,
        period=Period(START - timedelta(days=1), START + timedelta(days=999)),
        created=START,
        left=D(10) ** 9,
    )

    found = draw_down(lines, [source], what)

    assert not any(found.uncovered.values())
    assert find_overage(found) == []
    positive = [each.amount for each in lines if each.amount > 0]
    unrestricted = all(not each.covers for each in lines)
    total = sum(each.amount for each in lines)
    [drawn] = found.sources
    if unrestricted:
        # More credit than there are charges is no draw-down.
        assert drawn.amount == max(total, 0)
    assert drawn.amount <= sum(positive, D(0))


@settings(max_examples=examples(60))
@given(lines=payable_lines(), sources=payers(), what=terms)
def test_more_in_a_source_never_leaves_more_uncovered(lines, sources, what):
    lines = rounded(lines, what.places)
    before = draw_down(lines, sources, what)

    richer = [
        CreditSource(
            **{name: getattr(each, name) for name in CreditSource.__slots__ if name != "left"},
            left=each.left + 10,
        )
        for each in sources
    ]
    after = draw_down(lines, richer, what)

    assert sum(after.uncovered.values()) <= sum(before.uncovered.values())


def _stretch(first, days):
    start = START + timedelta(days=first)
    return Period(start, start + timedelta(days=days))


stretches = st.builds(_stretch, st.integers(0, 500), st.integers(1, 500))


@st.composite
def fee_terms(draw):
    amount = draw(cents)
    paid = draw(st.integers(0, int(amount.scaleb(2)))) * D("0.01")
    epoch = st.integers(-60, 700).map(lambda days: date(2026, 1, 1) + timedelta(days=days))
    return FeeTerms(
        draw(stretches),
        amount,
        2,
        pre_paid=paid,
        first_bill=draw(st.integers(0, int((amount - paid).scaleb(2)))) * D("0.01"),
        in_advance=draw(st.booleans()),
        every=Every(draw(st.integers(1, 5)), draw(st.integers(0, 6))),
        bill_epoch=draw(st.none() | epoch),
    )


@st.composite
def plan_spans(draw):
    anchor = date(2026, 1, 1) + timedelta(days=draw(st.integers(-60, 700)))
    cycle = BillingCycle(Recurrence(draw(st.sampled_from(ScheduleFrequency)), 1, anchor))
    return [PlanSpan(each, cycle) for each in draw(st.lists(stretches, min_size=1, max_size=4))]


@settings(max_examples=examples(80))
@given(what=fee_terms(), plans=plan_spans())
def test_fees_add_up_to_the_amount_without_what_was_paid_before(what, plans):
    found = plan_instalments(what, plans, BERLIN)

    overlaps = any(each.period.intersection(what.time.start, what.time.end) for each in plans)
    assert sum(each.amount for each in found) == (what.amount - what.pre_paid) * overlaps
    assert all(each.amount > 0 for each in found)
    assert all(what.time.start <= each.service_period.start for each in found)
    assert all(each.service_period.end <= what.time.end for each in found)


@settings(max_examples=examples(60))
@given(amount=st.integers(1, 10**7), months=st.integers(1, 36), every=st.integers(1, 4))
def test_full_fees_differ_by_a_unit_at_most(amount, months, every):
    cycle = BillingCycle(Recurrence(ScheduleFrequency.MONTHLY, 1, date(2026, 1, 1)))
    period = Period(
        START, datetime(2026 + months * every // 12, months * every % 12 + 1, 1, tzinfo=UTC)
    )
    what = FeeTerms(period, D(amount).scaleb(-2), 2, every=Every(every))

    found = [each.amount for each in plan_instalments(what, [PlanSpan(period, cycle)], UTC)]

    assert max(found) - min(found) <= D("0.01")
    assert len(found) == min(months, amount)


@settings(max_examples=examples(60))
@given(
    amount=st.integers(-(10**6), 10**6),
    weights=st.lists(st.integers(-5, 50) | st.fractions(0, 5), min_size=1, max_size=8),
)
def test_parts_add_up_and_each_is_less_than_a_unit_off(amount, weights):
    money = D(amount).scaleb(-2)

    parts = split_by_weights(money, weights, 2)

    assert sum(parts) == money
    total = sum(max(each, 0) for each in weights)
    for part, weight in zip(parts, weights, strict=True):
        if total:
            assert abs(int(part.scaleb(2)) - amount * max(weight, 0) / total) < 1


@settings(max_examples=examples(80))
@given(
    units=st.integers(1, 10**6),
    limits=st.lists(st.integers(1, 10**6), unique=True, max_size=4),
    data=st.data(),
)
def test_units_are_split_where_the_bands_have_charged_what_was_paid(units, limits, data):
    price = st.integers(0, 500).map(lambda number: D(number).scaleb(-2))
    bands = [
        PricingBand(lower_limit=D(limit), unit_price=data.draw(price), fixed_price=data.draw(price))
        for limit in sorted({0, *limits})
    ]
    total = _price(D(units), bands)
    if total <= 0:
        return
    uncovered = data.draw(st.integers(0, int(total.scaleb(2)))) * D("0.01")

    found = split_overage(UsageToSplit(D(units), total, uncovered, bands, cumulative=True))

    assert found.covered_units + found.overage_units == units
    assert found.covered_units >= 0
    assert found.overage_units >= 0
    paid, slack = total - uncovered, D("1E-7")
    # Part of a fixed price buys no unit of its band.
    assert _price(found.covered_units, bands) <= paid + slack
    assert _price(found.covered_units + D("1E-9"), bands) >= paid - slack


def _price(units, bands):
    with exact():
        parts = slice_units(units, bands, cumulative=True)
        return sum(
            (each.units * each.band.unit_price + each.band.fixed_price for each in parts), D(0)
        )
