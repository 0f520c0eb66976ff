"""Who would pay more and who would pay less, as a picture: one SVG file that needs nothing else."""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from meterlake.model.bills.what_if import AmountTotal, CurrencyMovers, Mover
from meterlake.stages.report.charts import shorten

_WIDTH: Final = 960
_MARGIN: Final = 32
_ROW: Final = 26
_BAR: Final = 16
# Where the names of accounts end, and where bars begin to the left and to the right.
_NAMES: Final = 230
_MIDDLE: Final = 490
_REACH: Final = 160
_NAME_MAX: Final = 27
_HEAD: Final = 96
_PANEL_HEAD: Final = 74
_EMPTY: Final = 40
_STYLE: Final = """
  svg { font-family: system-ui, 'Segoe UI', 'Noto Sans', 'DejaVu Sans', sans-serif; }
  .ground { fill: #ffffff } .ink { fill: #1d2433 } .soft { fill: #667085 } .line { stroke: #d5dae3 }
  .more { fill: #d1543b } .less { fill: #2f9163 } .track { fill: #f4f6f9 }
  .amount { font-variant-numeric: tabular-nums }
  @media (prefers-color-scheme: dark) {
    .ground { fill: #151a23 } .ink { fill: #e8ecf3 } .soft { fill: #98a2b3 } .line { stroke: #333c4d }
    .more { fill: #f0836c } .less { fill: #58c290 } .track { fill: #1d2430 }
  }
"""


class PictureText(NamedTuple):
    """What a picture says above its bars."""

    title: str
    subtitle: str


class Panel(NamedTuple):
    """What the picture shows of one currency."""

    currency: str
    total: AmountTotal
    movers: CurrencyMovers

    @property
    def rows(self) -> Sequence[Mover]:
        """From those that pay most in addition to those that save most."""
        return [*self.movers.rising, *reversed(self.movers.falling)]

    @property
    def height(self) -> int:
        """In pixels."""
        return _PANEL_HEAD + (len(self.rows) * _ROW or _EMPTY) + _MARGIN


def draw_movers(
    text: PictureText, totals: Mapping[str, AmountTotal], movers: Mapping[str, CurrencyMovers]
) -> str:
    """Draw who pays more and who pays less, currency by currency.

    Args:
        text: What stands above it.
        totals: What all accounts come to, by currency.
        movers: The accounts, by currency.
    """
    panels = [Panel(code, totals[code], movers[code]) for code in movers if code in totals]
    height = _HEAD + sum(each.height for each in panels) + (0 if panels else _EMPTY)
    return "\n".join([*_open(text, height), *_panels(panels), "</svg>", ""])


def _open(text: PictureText, height: int) -> Iterator[str]:
    label = escape(f"{text.title}. {text.subtitle}", {'"': "&quot;"})
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
        f' width="{_WIDTH}" height="{height}" role="img" aria-label="{label}">'
    )
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="ground" width="{_WIDTH}" height="{height}"/>'
    yield _text(_MARGIN, 46, text.title, _Font(24, 650))
    yield _text(_MARGIN, 74, text.subtitle, _SOFT)


def _panels(panels: Sequence[Panel]) -> Iterator[str]:
    if not panels:
        yield _text(_MARGIN, _HEAD + 16, "No bill of these months comes to anything.", _SOFT)
    top = _HEAD
    for each in panels:
        yield from _panel(each, top)
        top += each.height


def _panel(panel: Panel, top: int) -> Iterator[str]:
    total, movers = panel.total, panel.movers
    right = _WIDTH - _MARGIN
    yield f'<line class="line" x1="{_MARGIN}" x2="{right}" y1="{top}" y2="{top}"/>'
    change = f"{_amount(total.before)} → {_amount(total.after)} {panel.currency}"
    yield _text(_MARGIN, top + 32, change, _Font(17, 650))
    signed = _format_change(total.difference, panel.currency)
    tone = "soft" if not total.difference else "more" if total.difference > 0 else "less"
    yield _text(right, top + 32, signed, _Font(17, 650, tone), "end")
    counts = f"{movers.more:,} pay more · {movers.less:,} pay less · {movers.same:,} pay the same"
    shown = len(panel.rows)
    rest = movers.more + movers.less - shown
    more = f" · the {shown:,} largest changes are shown" if rest else ""
    yield _text(_MARGIN, top + 54, counts + more, _SOFT)
    if not panel.rows:
        yield _text(_MARGIN, top + _PANEL_HEAD + 20, "Nobody pays more or less.", _SOFT)
        return
    most = max(each.difference.copy_abs() for each in panel.rows)
    for number, each in enumerate(panel.rows):
        yield from _bar(each, top + _PANEL_HEAD + number * _ROW, most)
    first, last = top + _PANEL_HEAD - 2, top + _PANEL_HEAD + len(panel.rows) * _ROW - 6
    yield f'<line class="line" x1="{_MIDDLE}" x2="{_MIDDLE}" y1="{first}" y2="{last}"/>'


def _bar(mover: Mover, top: int, most: Decimal) -> Iterator[str]:
    difference = mover.difference
    length = max(int(difference.copy_abs() * _REACH // most), 1)
    is_more = difference > 0
    start = _MIDDLE if is_more else _MIDDLE - length
    base = top + _BAR - 3
    yield _text(_NAMES, base, shorten(_replace_invisible(mover.account), _NAME_MAX), _PLAIN, "end")
    tone = "more" if is_more else "less"
    sums = f"{_amount(mover.total.before)} → {_amount(mover.total.after)}"
    yield (
        f'<rect class="{tone}" x="{start}" y="{top}" width="{length}" height="{_BAR}" rx="3">'
        f"<title>{escape(_replace_invisible(mover.account))}: {sums}</title></rect>"
    )
    beside = (_MIDDLE + length + 8, "start") if is_more else (_MIDDLE - length - 8, "end")
    yield _text(beside[0], base, _format_change(difference), _SMALL, beside[1])
    yield _text(_WIDTH - _MARGIN, base, sums, _SMALL_SOFT, "end")


class _Font(NamedTuple):
    """How a text is written."""

    size: int = 14
    weight: int = 400
    tone: str = "ink"


_PLAIN: Final = _Font()
_SOFT: Final = _Font(tone="soft")
_SMALL: Final = _Font(13)
_SMALL_SOFT: Final = _Font(13, tone="soft")


def _text(x: int, y: int, text: str, font: _Font = _PLAIN, anchor: str = "start") -> str:
    return (
        f'<text class="{font.tone} amount" x="{x}" y="{y}" font-size="{font.size}"'
        f' font-weight="{font.weight}" text-anchor="{anchor}">{escape(text)}</text>'
    )


def _replace_invisible(text: str) -> str:
    """A text without what XML does not allow, and without what changes the direction of others."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)


def _amount(number: Decimal) -> str:
    return f"{number:,f}"


def _format_change(number: Decimal, currency: str = "") -> str:
    sign = "\N{MINUS SIGN}" if number < 0 else "+" if number else "±"
    return f"{sign}{number.copy_abs():,f}{f' {currency}' if currency else ''}"
