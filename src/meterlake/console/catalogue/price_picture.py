"""A price as a picture: what a quantity costs, band by band, drawn by the server as SVG.

The amounts are those of the bill: the same function prices the quantity of each point.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final, NamedTuple

from babel import Locale
from markupsafe import Markup

from meterlake.console.shell.charts import short_number
from meterlake.console.shell.numbers import exact_number
from meterlake.model.catalog.plans import PricingBand
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.units import unit_name
from meterlake.stages.bill.pricing.rate import amount, price_units

_WIDTH: Final = 640
_HEIGHT: Final = 220
_LEFT: Final = 72
_RIGHT: Final = 12
_TOP: Final = 14
_BOTTOM: Final = 34
# How far the picture goes where only one band says where.
_ONE_BAND: Final = Decimal(100)
_BEYOND: Final = Decimal("1.5")
_CLOSE: Final = 40


class Piece(NamedTuple):
    """The costs of the quantities of one band, which rise in a straight line."""

    start: Decimal
    end: Decimal
    low: Decimal
    high: Decimal
    band: PricingBand


def price_kind(price: Mapping[str, Any]) -> str:
    """How the bands of a price work, in words."""
    bands = _bands(price)
    if len(bands) == 1:
        return "one price for every unit" if not bands[0].fixed_price else "one band"
    if price.get("cumulative"):
        return "tiered: each band prices its own part"
    if not any(each.unit_price for each in bands):
        return "stairstep: the band reached has one price"
    return "volume: the band reached prices all units"


def price_pieces(price: Mapping[str, Any]) -> list[Piece]:
    """What quantities cost, band by band; the last piece ends where the picture does.

    Args:
        price: A pricing as the API has it.
    """
    bands = _bands(price)
    limits = [each.lower_limit for each in bands]
    last = limits[-1] * _BEYOND or _ONE_BAND
    found = []
    for band, (start, end) in zip(bands, pairwise([*limits, last]), strict=True):
        with exact():
            middle, high = (_cost(price, bands, each) for each in ((start + end) / 2, end))
            # Just above its lower limit a band may jump: the line says what it costs there.
            low = middle * 2 - high
        found.append(Piece(start, end, low, high, band))
    return found


def _bands(price: Mapping[str, Any]) -> list[PricingBand]:
    found = [PricingBand.model_validate(each) for each in price["pricingBands"]]
    return sorted(found, key=lambda each: each.lower_limit)


def _cost(price: Mapping[str, Any], bands: Sequence[PricingBand], units: Decimal) -> Decimal:
    cumulative = bool(price.get("cumulative"))
    return amount(price_units(units, units, bands, cumulative))


class _Place:
    """From quantities and amounts to places in the drawing."""

    def __init__(self, width: Decimal, low: Decimal, high: Decimal) -> None:
        self.width, self.low, self.high = width, low, high

    def x(self, quantity: Decimal) -> Decimal:
        """The horizontal place of a quantity."""
        return _tenth(_LEFT + quantity / self.width * (_WIDTH - _LEFT - _RIGHT))

    def y(self, cost: Decimal) -> Decimal:
        """The vertical place of an amount."""
        room = _HEIGHT - _TOP - _BOTTOM
        return _tenth(_TOP + (self.high - cost) / (self.high - self.low) * room)


def _tenth(value: Decimal) -> Decimal:
    return value.quantize(Decimal("0.1"))


def price_picture(
    title: str, price: Mapping[str, Any], locale: Locale, currency: str, unit: str
) -> Markup:
    """What quantities cost as a drawing: bands side by side, the line of the cost, the minimum.

    Args:
        title: What is priced, for those who do not see the drawing.
        price: A pricing as the API has it.
        locale: How numbers are written.
        currency: The currency of its amounts.
        unit: What one unit is called.
    """
    pieces, unit = price_pieces(price), unit_name(unit)
    minimum = Decimal(price.get("minimumSpend") or ZERO)
    costs = [ZERO, minimum, *(cost for each in pieces for cost in (each.low, each.high))]
    low, high = min(costs), max(costs)
    if low == high:
        return Markup("")
    place = _Place(pieces[-1].end, low, high)
    parts = [
        *_levels(place, minimum, locale, currency),
        *(_shade(place, each, number, locale, unit) for number, each in enumerate(pieces)),
        *_limits(place, pieces, locale, unit),
        *_lines(place, pieces, minimum),
    ]
    return Markup(
        '<figure class="chart price" tabindex="0"><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg></figure>'
    ).format(_WIDTH, _HEIGHT, title, Markup("").join(parts))


def _levels(place: _Place, minimum: Decimal, locale: Locale, currency: str) -> list[Markup]:
    levels = sorted({place.low, ZERO, place.high / 2, place.high})
    found = [
        Markup(
            '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
            '<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>'
        ).format(
            *(_LEFT, _WIDTH - _RIGHT, place.y(level), place.y(level), _LEFT - 6),
            place.y(level) + 4,
            f"{short_number(level, locale)}{f' {currency}' if level == place.high else ''}",
        )
        for level in levels
    ]
    if minimum:
        found.append(
            Markup(
                '<line class="minimum" x1="{}" x2="{}" y1="{}" y2="{}"/>'
                '<text class="tick" x="{}" y="{}">minimum {}</text>'
            ).format(
                *(_LEFT, _WIDTH - _RIGHT, place.y(minimum), place.y(minimum), _LEFT + 4),
                place.y(minimum) - 4,
                short_number(minimum, locale),
            )
        )
    return found


def _shade(place: _Place, piece: Piece, number: int, locale: Locale, unit: str) -> Markup:
    """The room of a band, with what it charges."""
    x, end = place.x(piece.start), place.x(piece.end)
    said = band_text(piece.band, locale, unit)
    label = Markup("")
    if end - x > _CLOSE * 2:
        label = Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            _tenth((x + end) / 2), _HEIGHT - _BOTTOM - 6, said
        )
    return Markup(
        '<rect class="band-{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>{}'
    ).format(
        *(number % 2, x, _TOP, end - x, _HEIGHT - _TOP - _BOTTOM),
        f"above {piece.start:f} {unit}: {said}",
        label,
    )


def band_text(band: PricingBand, locale: Locale, unit: str) -> str:
    """What a band charges: `5 + 0.2/GB`."""
    parts = []
    if band.fixed_price:
        parts.append(exact_number(band.fixed_price.normalize(), locale))
    if band.unit_price or not parts:
        text = exact_number(band.unit_price.normalize(), locale)
        parts.append(f"{text}/{unit}" if unit else text)
    return " + ".join(parts)


def _limits(place: _Place, pieces: Sequence[Piece], locale: Locale, unit: str) -> list[Markup]:
    """Where bands begin, and where the drawing ends; labels that would touch are left out."""
    found, free = [], Decimal(0)
    for limit in (*(each.start for each in pieces), pieces[-1].end):
        x = place.x(limit)
        is_last = limit == pieces[-1].end
        if x >= free or is_last:
            text = short_number(limit, locale)
            found.append(
                Markup('<text class="tick" x="{}" y="{}" text-anchor="{}">{}</text>').format(
                    x,
                    _HEIGHT - _BOTTOM + 18,
                    "end" if is_last else "middle",
                    f"{text} {unit}" if is_last else text,
                )
            )
            free = x + _CLOSE
        found.append(
            Markup('<line class="grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                x, _TOP, _HEIGHT - _BOTTOM
            )
        )
    return found


def _lines(place: _Place, pieces: Sequence[Piece], minimum: Decimal) -> list[Markup]:
    """The cost, piece by piece; below the minimum it is thin, as nobody pays so little."""
    found = []
    for each in pieces:
        is_below = max(each.low, each.high) < minimum
        found.append(
            Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
                "cost below" if is_below else "cost",
                *(place.x(each.start), place.y(each.low), place.x(each.end), place.y(each.high)),
            )
        )
    for before, after in pairwise(pieces):
        if before.high != after.low:
            found.append(
                Markup('<line class="jump" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>').format(
                    place.x(after.start), place.y(before.high), place.y(after.low)
                )
            )
    return found
