"""The charts of the report, as figures of Plotly, and the tables that say the same."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from meterlake.model.values.money import plain
from meterlake.model.values.plurals import counted
from meterlake.model.values.units import unit_name
from meterlake.stages.report.content import Report, Usage

# Colours are numbers here; the page knows them, light and dark.
_ACCEPTED, _REPEATS, _REJECTED = 0, 5, 3
_NAME_MAX: Final = 60
_DAY_MS: Final = 86_400_000
# How broad bars are, in milliseconds: Plotly would fill the time to the next one.
_WIDTHS: Final = {"day": 0.85 * _DAY_MS, "week": 6 * _DAY_MS, "month": 26 * _DAY_MS}
_DAYS_NAMED_MAX: Final = 7


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart and the table behind it.

    Attributes:
        id: Its name on the page.
        title: What people read above it.
        note: What people should know about it.
        traces: What is drawn.
        heads: The heads of the table.
        rows: The rows of the table.
        stacked: Whether bars stand on each other.
        height: In pixels.
    """

    id: str
    title: str
    note: str
    traces: Sequence[dict[str, Any]]
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    stacked: bool = False
    height: int = 280
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def figure(self) -> dict[str, Any]:
        """What the page's script draws."""
        layout: dict[str, Any] = {"height": self.height, **self.more}
        if self.stacked:
            layout["barmode"] = "stack"
        return {"id": self.id, "data": list(self.traces), "layout": layout}


def usage_charts(report: Report) -> Iterator[tuple[Usage, Chart, Chart]]:
    """For every meter its usage over time, and its largest accounts."""
    for number, usage in enumerate(report.usage):
        names = [account for account, _ in usage.accounts]
        trace = {
            "type": "bar",
            "orientation": "h",
            # Two long names may be cut to the same text; places are not.
            "y": list(range(len(names))),
            "x": [amount for _, amount in usage.accounts],
            "color": 0,
            "hovertext": [shorten(name, _NAME_MAX) for name in names],
            "hoverinfo": "x+text",
        }
        axis = {
            "autorange": "reversed",
            "tickvals": list(range(len(names))),
            "ticktext": [shorten(name) for name in names],
        }
        rows = [[account, number_text(amount)] for account, amount in usage.accounts]
        height = max(140, 60 + 24 * len(names))
        note = f"By {usage.ranked_by}."
        heads = ["Account", usage.ranked_by]
        more = {"yaxis": axis, "showlegend": False}
        accounts = Chart(
            f"accounts-{number}",
            "Largest accounts",
            note,
            [trace],
            heads,
            rows,
            False,
            height,
            more,
        )
        yield usage, _over_time(number, usage, report.step), accounts


def _over_time(number: int, usage: Usage, step: str) -> Chart:
    traces = [
        {
            # A line would show usage between two days that nothing was used between.
            "type": "bar",
            "name": shorten(with_unit(series.name, series.unit), _NAME_MAX),
            "x": list(usage.steps),
            "y": list(series.values),
            "width": _WIDTHS[step],
            "offset": 0,
            "color": index,
            # Numbers of different size are looked at one by one.
            "visible": True if index == 0 else "legendonly",
        }
        for index, series in enumerate(_fields_first(usage))
    ]
    heads = [step.title(), *(with_unit(each.name, each.unit) for each in usage.series)]
    rows = [
        [day, *(number_text(series.values[index]) for series in usage.series)]
        for index, day in enumerate(usage.steps)
    ]
    note = f"Per {step}. Click a name in the legend to show or hide it."
    axis: dict[str, Any] = {"type": "date"}
    first, last = (date.fromisoformat(usage.steps[place]) for place in (0, -1))
    if step == "day" and (last - first).days <= _DAYS_NAMED_MAX:
        axis["dtick"] = _DAY_MS  # Else hours stand below them.
    more = {"xaxis": axis}
    return Chart(f"usage-{number}", "Usage over time", note, traces, heads, rows, more=more)


def _fields_first(usage: Usage) -> Sequence[Any]:
    measurements, *fields = usage.series
    return [*fields, measurements]


def ingest_chart(report: Report) -> Chart:
    """What arrived per day, and what became of it."""
    days = [each.day for each in report.days]
    parts = (
        ("accepted", _ACCEPTED, [each.accepted for each in report.days]),
        ("repeats", _REPEATS, [each.repeats for each in report.days]),
        ("rejected", _REJECTED, [each.rejected for each in report.days]),
    )
    traces = [
        {"type": "bar", "name": name, "x": days, "y": values, "color": color}
        for name, color, values in parts
    ]
    rows = [
        [each.day, *map(number_text, (each.accepted, each.repeats, each.rejected))]
        for each in report.days
    ]
    note = "Rows by the day (UTC) on which they were ingested. Repeats were stored before."
    heads = ["Day", "Accepted", "Repeats", "Rejected"]
    return Chart("ingest", "Ingest health", note, traces, heads, rows, stacked=True)


def rejected_chart(report: Report) -> Chart:
    """Rows that are rejected now, by reason."""
    reasons = [reason for reason, _ in report.rejected]
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": reasons,
        "x": [rows for _, rows in report.rejected],
        "color": _REJECTED,
    }
    rows = [[reason, number_text(count)] for reason, count in report.rejected]
    more = {"yaxis": {"autorange": "reversed"}, "showlegend": False}
    height = max(140, 60 + 26 * len(rows))
    which = "whenever they came"
    if report.month is not None:
        which = f"whose text names a day of {report.month}, or none and came since it began"
    note = f"Rows that wait to be mended, {which}; meterlake rejected list shows them."
    heads = ["Reason", "Rows"]
    return Chart("rejected", "Rejected", note, [trace], heads, rows, False, height, more)


def shorten(text: str, most: int = 24) -> str:
    """A text that fits beside a chart, with nothing that Plotly would take for markup."""
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    return short.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def with_unit(name: str, unit: str | None) -> str:
    """A name with its unit, without the braces that UCUM puts around what it does not know.

    >>> with_unit("Calls", "{call}")
    'Calls (call)'
    """
    return f"{name} ({unit_name(unit)})" if unit else name


def number_text(value: Decimal | int | None) -> str:
    """A number as people read it: thousands apart, no zeros behind.

    >>> number_text(Decimal("1234567.500000000000"))
    '1,234,567.5'
    """
    if value is None:
        return "-"
    sign, _, digits = plain(Decimal(value)).rpartition("-")
    whole, point, rest = digits.partition(".")
    return f"{'-' if sign or value < 0 else ''}{int(whole):,}{point}{rest}"


def amount_text(amount: Decimal, places: int) -> str:
    """Money as people read it: thousands apart, and at least the decimals of its currency.

    >>> amount_text(Decimal("1234.5"), 2)
    '1,234.50'
    """
    exponent = amount.normalize().as_tuple().exponent
    own = -exponent if isinstance(exponent, int) else 0
    return f"{amount:,.{max(places, own)}f}"


def age_text(then: datetime | None, now: datetime) -> str:
    """How long ago something was.

    >>> age_text(datetime(2026, 10, 1), datetime(2026, 10, 3))
    '2 days ago'
    """
    if then is None:
        return "never"
    seconds = max(0, int((now - then).total_seconds()))
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{counted(count, name)} ago"
    return "just now"
