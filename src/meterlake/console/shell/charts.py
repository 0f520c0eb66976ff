"""Charts as SVG that the server draws: bars over days or months, stacked by group.

A chart shows; the table under it says. Every bar has its exact value as its title. Colours come
from the style sheet, so a chart is dark where the page is.
"""

from collections.abc import Mapping, Sequence
from decimal import ROUND_UP, Decimal
from typing import Final

from babel import Locale
from babel.numbers import format_decimal
from markupsafe import Markup

from meterlake.console.shell.numbers import exact_number
from meterlake.model.values.money import ZERO
from meterlake.model.values.units import unit_name

# Of the drawing; the page scales it.
_WIDTH: Final = 800
_HEIGHT: Final = 240
_LEFT: Final = 84
_RIGHT: Final = 24
_TOP: Final = 12
_BOTTOM: Final = 28
_LABELS: Final = 7
_ROUND: Final = (Decimal(1), Decimal(2), Decimal("2.5"), Decimal(5), Decimal(10))
# How many groups have a colour of their own.
GROUPS: Final = 8


def bar_chart(
    title: str,
    labels: Sequence[str],
    groups: Mapping[str, Sequence[Decimal | None]],
    locale: Locale,
    unit: str = "",
) -> Markup:
    """Bars, one for each label, stacked by group; negative values hang below the line.

    Args:
        title: What the chart shows, for those who do not see it.
        labels: One for each bar, as people read them.
        groups: For each group its value at each label; None where there is none.
        locale: How the axis writes numbers.
        unit: The unit or currency of all values.
    """
    high, low = _bounds(groups, len(labels))
    if not labels or high == low:
        return Markup("")
    place = _Scale(low, high, len(labels))
    unit = unit_name(unit)
    parts = [_axis(place, locale, unit)]
    ups, downs = [ZERO] * len(labels), [ZERO] * len(labels)
    for number, (name, values) in enumerate(groups.items()):
        for index, value in enumerate(values):
            if not value:
                continue
            stack = ups if value > 0 else downs
            told = f"{exact_number(value, locale)} {unit}".rstrip()
            said = ", ".join(filter(None, (labels[index], name)))
            parts.append(place.bar(number % GROUPS, index, stack[index], value, f"{said}: {told}"))
            stack[index] += value
    every = -(-len(labels) // _LABELS)
    parts += [
        Markup('<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>').format(
            place.middle(index), _HEIGHT - 8, label
        )
        for index, label in enumerate(labels)
        if index % every == 0
    ]
    legend = Markup("")
    if len(groups) > 1:
        items = (
            Markup('<li><span class="swatch group-{}"></span>{}</li>').format(number % GROUPS, name)
            for number, name in enumerate(groups)
        )
        legend = Markup('<ul class="legend">{}</ul>').format(Markup("").join(items))
    return Markup(
        '<figure class="chart" tabindex="0"><svg viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>{}</figure>'
    ).format(_WIDTH, _HEIGHT, title, Markup("").join(parts), legend)


def _bounds(groups: Mapping[str, Sequence[Decimal | None]], count: int) -> tuple[Decimal, Decimal]:
    """The highest and the lowest stack; zero is between them."""
    ups, downs = [ZERO] * count, [ZERO] * count
    for values in groups.values():
        for index, value in enumerate(values):
            stack = ups if (value or ZERO) > 0 else downs
            stack[index] += value or ZERO
    return max([ZERO, *ups]), min([ZERO, *downs])


class _Scale:
    """From values to places in the drawing, in tenths of its units."""

    def __init__(self, low: Decimal, high: Decimal, count: int) -> None:
        step = _round_step(high - low)
        # Rounded away from zero, so that each bar ends within the axis.
        first, last = (int((each / step).to_integral_value(ROUND_UP)) for each in (low, high))
        self.levels = [step * n for n in range(first, last + 1)]
        self.low, self.high = self.levels[0], self.levels[-1]
        self._step = Decimal(_WIDTH - _LEFT - _RIGHT) / count

    def height(self, value: Decimal) -> Decimal:
        """The vertical place of a value."""
        room = _HEIGHT - _TOP - _BOTTOM
        return _tenth(_TOP + (self.high - value) / (self.high - self.low) * room)

    def middle(self, index: int) -> Decimal:
        """The horizontal middle of a bar."""
        return _tenth(_LEFT + self._step * index + self._step / 2)

    def bar(self, group: int, index: int, base: Decimal, value: Decimal, said: str) -> Markup:
        """One part of one bar, which stands on a base."""
        top, bottom = sorted((self.height(base), self.height(base + value)))
        return Markup(
            '<rect class="group-{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
        ).format(
            group,
            _tenth(_LEFT + self._step * index + self._step / 10),
            top,
            _tenth(self._step * 8 / 10),
            max(bottom - top, Decimal("0.5")),
            said,
        )


def _axis(place: _Scale, locale: Locale, unit: str) -> Markup:
    lines = (
        Markup(
            '<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>'
            '<text class="tick" x="{}" y="{}" text-anchor="end">{}</text>'
        ).format(
            _LEFT,
            _WIDTH - _RIGHT,
            place.height(level),
            place.height(level),
            _LEFT - 6,
            place.height(level) + 4,
            " ".join(
                filter(None, (short_number(level, locale), unit if level == place.high else ""))
            ),
        )
        for level in place.levels
    )
    return Markup("").join(lines)


def _round_step(span: Decimal) -> Decimal:
    """The distance of round numbers of which two to four fit into a span: 1, 2, 2.5 or 5 with zeros."""
    size = Decimal(1).scaleb((span / 4).adjusted())
    return next(size * each for each in _ROUND if size * each * 4 >= span)


def short_number(value: Decimal, locale: Locale) -> str:
    """A number for an axis: three digits that count, thousands and millions by their letter."""
    size, letter = next(
        (
            (size, letter)
            for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k"))
            if abs(value) >= size
        ),
        (1, ""),
    )
    rounded = Decimal(f"{value / size:.3g}")
    return str(format_decimal(rounded, locale=locale)) + letter


def _tenth(value: Decimal) -> Decimal:
    return value.quantize(Decimal("0.1"))
