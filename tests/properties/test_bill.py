from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.bills.bill import LineItemType
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import Month, local_date, zone
from tests.billing_world import LONG_AGO, World
from tests.oracles import half_up, tiered, volume

BERLIN = zone("Europe/Berlin")
MONTH = Month(2026, 10)
OCTOBER = MONTH.period(BERLIN)
RATE = Decimal("0.85473")

numbers = st.decimals(-10, 1000, places=6)
prices = st.decimals(0, 100, places=5)
# From before the month to after it, in steps of five hours and at its edges.
instants = st.sampled_from(
    [OCTOBER.start + timedelta(hours=5) * step for step in range(-2, 152)]
    + [OCTOBER.end, OCTOBER.end - timedelta(microseconds=1)]
)
uses = st.lists(st.tuples(st.sampled_from(["a", "b"]), instants, numbers), max_size=10)
bands = st.lists(st.tuples(prices, prices), min_size=1, max_size=3).map(
    lambda found: [(10 * n, fixed, unit) for n, (fixed, unit) in enumerate(found)]
)


class Case:
    """Accounts a (in USD) and b (in EUR) on one plan, which may begin late and change its price."""

    def __init__(self, data):
        self.uses = data.draw(uses)
        self.bands = [data.draw(bands), data.draw(bands)]
        self.cumulative = data.draw(st.booleans())
        self.change = data.draw(instants)
        self.start = data.draw(st.one_of(st.just(LONG_AGO), instants))
        self.standing_charge = data.draw(prices)

    def world(self, uses=None):
        world = World(
            timezone="Europe/Berlin",
            currency_conversions=({"from": "USD", "to": "EUR", "multiplier": RATE},),
        )
        world.aggregation("sum")
        world.plan("plan", standing_charge=self.standing_charge)
        shared = {"cumulative": self.cumulative}
        world.pricing("plan", "sum", self.bands[0], end_date=self.change, **shared)
        world.pricing("plan", "sum", self.bands[1], start_date=self.change, **shared)
        world.account("a", "plan", start_date=self.start)
        world.account("b", "plan", start_date=self.start, currency="EUR")
        for account, ts, n in self.uses if uses is None else uses:
            world.use(account, ts.isoformat(), n)
        return world

    def expected(self, account, rate):
        """The amounts of the lines, by another way: each in USD, exact."""
        if self.start >= OCTOBER.end:
            return None
        begin = max(self.start, OCTOBER.start)
        amounts = []
        parts = [(begin, min(self.change, OCTOBER.end)), (max(begin, self.change), OCTOBER.end)]
        for (low, high), rows in zip(parts, self.bands, strict=True):
            values = [
                Fraction(n) for code, ts, n in self.uses if code == account and low <= ts < high
            ]
            if values:
                price = tiered if self.cumulative else volume
                amounts.append(price(sum(values), [tuple(map(Fraction, row)) for row in rows]))
        if self.standing_charge:
            days = (MONTH.after - local_date(begin, BERLIN)).days
            charge = Fraction(self.standing_charge) * days / 31
            amounts += [charge] if half_up(charge * rate, 2) else []
        return amounts


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_bills_are_what_plain_arithmetic_makes_of_the_month(data):
    case = Case(data)
    made = {bill.account_code: bill for bill in case.world().bills("2026-10")}
    for code, rate in (("a", Fraction(1)), ("b", Fraction(RATE))):
        amounts = case.expected(code, rate)
        if amounts is None:
            assert code not in made
            continue
        lines = made[code].lines
        assert [Fraction(line.subtotal) for line in lines] == [half_up(each, 2) for each in amounts]
        assert [Fraction(line.converted_subtotal) for line in lines] == [
            half_up(each * rate, 2) for each in amounts
        ]


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_a_bill_is_the_sum_of_its_rounded_lines_and_a_line_of_its_bands(data):
    for bill in Case(data).world().bills("2026-10"):
        assert bill.total == sum(line.converted_subtotal for line in bill.lines)
        for line in bill.lines:
            if line.type is LineItemType.USAGE:
                exact = sum(Fraction(band.subtotal) for band in line.bands)
                assert Fraction(line.subtotal) == half_up(exact, 2)
                assert sum(Fraction(band.quantity) for band in line.bands) in {
                    Fraction(line.quantity),
                    0 if not line.units else Fraction(line.quantity),
                }


@given(st.data())
@settings(max_examples=15, deadline=None)
def test_the_order_of_measurements_changes_no_bill(data):
    case = Case(data)
    shuffled = data.draw(st.permutations(case.uses))

    assert case.world(shuffled).bills("2026-10") == case.world().bills("2026-10")


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_usage_is_on_a_bill_or_in_the_report_and_never_lost(data):
    case = Case(data)
    world = case.world()
    for code in ("a", "b"):
        used = sum(
            Fraction(n)
            for account, ts, n in case.uses
            if account == code and OCTOBER.start <= ts < OCTOBER.end
        )
        billed = sum(
            Fraction(line.quantity)
            for bill in world.bills("2026-10")
            for line in bill.lines
            if bill.account_code == code and line.type is LineItemType.USAGE
        )
        reported = sum(
            Fraction(row.quantity)
            for row in world.unpriced("2026-10")
            if row.account_id == derived_id("Account", code)
        )
        assert billed + reported == used
