"""Times that entities hold for: inclusive start, exclusive end, none for an open end."""

from datetime import date, datetime
from typing import Any, Protocol, TypeVar

from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed
from meterlake.model.values.period import format_instant

T = TypeVar("T", date, datetime)


class Spanning(Protocol):
    """Whatever has a start and, perhaps, an end."""

    @property
    def start_date(self) -> Any:
        """The inclusive start."""

    @property
    def end_date(self) -> Any:
        """The exclusive end, or None."""


def ends_after_start(new: Proposed[Any]) -> None:
    """An end comes after its start."""
    start, end = new.entity.start_date, new.entity.end_date
    if end is not None and end <= start:
        raise Invalid("endDate", wire_text(end), f"it must be after startDate {wire_text(start)}")


def overlap(one: Spanning, other: Spanning) -> bool:
    """Whether two entities ever hold at the same time."""
    return _before(one.start_date, other.end_date) and _before(other.start_date, one.end_date)


def _before(start: T, end: T | None) -> bool:
    return end is None or start < end


def span(entity: Spanning) -> str:
    """`from 2026-10-01T00:00:00Z on`, or `from 2026-10-01T00:00:00Z until 2027-10-01T00:00:00Z`."""
    end = f"until {wire_text(entity.end_date)}" if entity.end_date else "on"
    return f"from {wire_text(entity.start_date)} {end}"


def wire_text(moment: date) -> str:
    """An instant or a date as the wire writes it."""
    return format_instant(moment) if isinstance(moment, datetime) else moment.isoformat()
