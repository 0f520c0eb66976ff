"""Step 8: usage that every source left uncovered: surcharges, or lines of its own."""

from fractions import Fraction

from tests.billing_oracle.charges import Charge, bill_currency, make_charge
from tests.billing_oracle.drawdowns import DrawDown, Part, may_draw
from tests.billing_oracle.ledger import COMMITMENT, Source
from tests.billing_oracle.money import exact, round_money, round_to
from tests.billing_oracle.periods import Window
from tests.billing_oracle.rating import (
    UNIT_PLACES,
    bands_of,
    invert_tiered,
    is_cumulative,
    price,
)
from tests.billing_oracle.world import World

Uncovered = list[tuple[Part, Source]]


def uncovered_usage(down: DrawDown) -> Uncovered:
    """The uncovered parts of usage lines, each with the last exhausted source that holds in it."""
    found = []
    for part in down.parts:
        if part.line.type == "USAGE" and part.left > 0:
            exhausted = [
                source
                for source in down.sources
                if may_draw(source, part.line)
                and source.holds(part.held)
                and down.is_exhausted(source)
            ]
            if exhausted:
                found.append((part, exhausted[-1]))
    return found


def percent_of(source: Source) -> Fraction:
    return exact(source.row.get("overageSurchargePercent") or 0)


def is_separate(source: Source, line: Charge) -> bool:
    """A commitment says separateOverageUsage; beyond a balance, overage bands of the pricing count.

    A commitment says so only without a surcharge. Any overageSurchargePercent of a balance, also 0,
    overrides the bands.
    """
    if source.kind == COMMITMENT:
        return bool(source.row.get("separateOverageUsage")) and percent_of(source) == 0
    has_bands = line.pricing is not None and bool(line.pricing.get("overagePricingBands"))
    return source.row.get("overageSurchargePercent") is None and has_bands


def surcharges(down: DrawDown, uncovered: Uncovered) -> list[Charge]:
    """OVERAGE_SURCHARGE: the percent of what was left uncovered; negative is a discount; one line per source."""
    found = []
    for number, source in enumerate(down.sources):
        parts = [part for part, last in uncovered if last is source]
        amount = sum((part.left for part in parts), Fraction(0)) * percent_of(source) / 100
        if amount:
            service = Window(
                min(part.window.start for part in parts), max(part.window.end for part in parts)
            )
            found.append(_surcharge(down, source, number, (amount, service)))
    return found


def _surcharge(
    down: DrawDown, source: Source, number: int, what: tuple[Fraction, Window]
) -> Charge:
    amount, service = what
    return make_charge(
        down.world,
        "OVERAGE_SURCHARGE",
        down.bill,
        amount,
        bill_currency(down.world, down.bill),
        service=service,
        source_id=source.row["id"],
        level=0,
        number=number,
    )


def separate_overage(down: DrawDown, uncovered: Uncovered) -> list[Charge]:
    """Make OVERAGE_USAGE lines of uncovered parts; the usage lines keep what is covered."""
    found = []
    apart = [(part, source) for part, source in uncovered if is_separate(source, part.line)]
    lines = {id(part.line): part.line for part, _ in apart}
    for line in lines.values():
        own = [(part, source) for part, source in apart if part.line is line]
        amount = sum((part.left for part, _ in own), Fraction(0))
        found.append(split_line(down.world, line, amount, own[-1][1]))
    return found


def covered_units(line: Charge, covered: Fraction) -> Fraction:
    """The units at which the source ran dry: by inverting tiered bands, else units × drawn ÷ amount."""
    assert line.pricing is not None
    if line.amount == 0 or covered == 0:
        return Fraction(0)
    found = None
    if is_cumulative(line.pricing) and is_whole(line):
        bands = bands_of(line.pricing)
        found = invert_tiered(covered / line.rate, bands, line.units)
    if found is None:
        found = line.units * covered / line.amount
    return round_to(found, UNIT_PLACES)


def is_whole(line: Charge) -> bool:
    """Whether a line's amount is the price of its units: no share of a pool, no bands that began earlier."""
    assert line.pricing is not None
    if line.is_share:
        return False
    bands = bands_of(line.pricing)
    tiered = price(line.units, bands, cumulative=True)
    return not line.pricing.get("tiersSpanPlan") and tiered == line.exact


def split_line(world: World, line: Charge, uncovered: Fraction, source: Source) -> Charge:
    """Take what is uncovered out of a usage line and price it by the overage bands, from zero."""
    assert line.pricing is not None
    covered = line.amount - uncovered
    units = covered_units(line, covered)
    rest = line.units - units
    share = rest / line.units if line.units else uncovered / line.amount
    over = _overage_line(world, line, (uncovered, rest, line.quantity * share), source)
    line.quantity -= line.quantity * share
    line.units, line.amount = units, covered
    line.exact = covered / line.rate
    line.subtotal = round_money(world, line.exact, line.currency)
    return over


def _overage_line(
    world: World, line: Charge, what: tuple[Fraction, Fraction, Fraction], source: Source
) -> Charge:
    uncovered, units, quantity = what
    assert line.pricing is not None
    bands = bands_of(line.pricing, "overagePricingBands") if line.units > 0 else []
    amount = price(units, bands, cumulative=True) if bands else uncovered / line.rate
    over = make_charge(
        world,
        "OVERAGE_USAGE",
        line.bill,
        amount,
        line.currency,
        terms=line.terms,
        plan=line.plan,
        product=line.product,
        item=line.item,
        pricing=line.pricing,
        segment=line.segment,
        child=line.child,
        contract_id=line.contract_id,
        quantity=quantity,
        units=units,
        service=line.service,
        level=1,
        source_id=source.row["id"],
    )
    if not bands:
        over.amount = uncovered
    return over
