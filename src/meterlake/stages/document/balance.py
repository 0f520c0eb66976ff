"""Whether the numbers of a document agree: a bill that does not add up is not printed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, Inexact
from typing import Any, NamedTuple

from meterlake.model.errors import UnbalancedBill
from meterlake.model.values.money import divide, exact, plain, round_quotient
from meterlake.stages.document.facts import BandPrice, CurrencyRounding, DocumentFacts
from meterlake.stages.document.texts import sum_of

Body = Mapping[str, Any]


class _Sum(NamedTuple):
    """What parts come to, and what they should."""

    what: str
    found: Decimal
    due: Decimal


def check_balance(facts: DocumentFacts) -> None:
    """Look whether all sums of a document are exact.

    Raises:
        UnbalancedBill: One is not; the first of them is named.
    """
    for each in _sums(facts):
        if each.found != each.due:
            bill_id = str(facts.content.bill["id"])
            raise UnbalancedBill(bill_id, each.what, plain(each.found), plain(each.due))


def _sums(facts: DocumentFacts) -> Iterator[_Sum]:
    bodies = {each.body["id"]: each.body for each in facts.content.lines}
    total = Decimal(facts.content.bill["billTotal"])
    yield _Sum("its lines", _add_up(bodies.values(), "convertedSubtotal"), total)
    for id_, body in bodies.items():
        yield from _sums_of_bands(body)
        draws = facts.draws.get(id_)
        if draws:
            paid = sum_of(each.amount for each in draws)
            with exact():
                due = -Decimal(body["convertedSubtotal"])
            yield _Sum(f"what line {body['sequenceNumber']} pays", paid, due)
    for price in facts.band_prices:
        yield from _sums_of_price(price, [bodies[each] for each in price.line_ids])
    for line in facts.content.lines:
        # The rows of what adds up, beside the quantity of the lines that charge for it.
        for usage in line.usage:
            if usage.is_additive and usage.quantity is not None and usage.rows:
                rows = sum_of(each.quantity for each in usage.rows if each.quantity is not None)
                yield _Sum(f"the usage of line {line.body['sequenceNumber']}", rows, usage.quantity)


def _add_up(bodies: Iterable[Body], name: str) -> Decimal:
    return sum_of(each[name] for each in bodies)


def _sums_of_bands(body: Body) -> Iterator[_Sum]:
    """The units of each band at its prices, and the units of all bands."""
    bands, number = body.get("usagePerPricingBand") or (), body["sequenceNumber"]
    for position, band in enumerate(bands, start=1):
        names = ("bandUnits", "unitPrice", "fixedPrice", "bandSubtotal")
        units, price, fixed, subtotal = (Decimal(band[each]) for each in names)
        with exact():
            charged = units * price + fixed
        yield _Sum(f"the prices of band {position} of line {number}", charged, subtotal)
    if bands:
        units = _add_up(bands, "bandUnits")
        yield _Sum(f"the units in the bands of line {number}", units, Decimal(body["units"]))


def _sums_of_price(price: BandPrice, bodies: Sequence[Body]) -> Iterator[_Sum]:
    """What bands come to, by the days that count, converted and rounded as lines are."""
    bands = [band for body in bodies for band in body.get("usagePerPricingBand") or ()]
    numbers = " and ".join(str(each["sequenceNumber"]) for each in bodies)
    what = f"the bands of line {numbers}"
    amount, rate = _add_up(bands, "bandSubtotal"), Decimal(bodies[0]["conversionRate"])
    if price.own is not None:
        found = _round(amount, price.days, price.own)
        yield _Sum(what, found, _add_up(bodies, "subtotal"))
    with exact():
        converted = amount * rate
    found = _round(converted, price.days, price.billed)
    yield _Sum(what, found, _add_up(bodies, "convertedSubtotal"))


def _round(amount: Decimal, days: tuple[int, int], rounding: CurrencyRounding) -> Decimal:
    """An amount as a line has it; with more digits where the currency is never rounded."""
    with exact():
        dividend = amount * days[0]
    try:
        return round_quotient(dividend, days[1], *rounding)
    except Inexact:
        return divide(dividend, Decimal(days[1]))
