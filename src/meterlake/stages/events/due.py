"""When a scheduled event happens: so many days after a date of an entity, or before it."""

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any, Final

from meterlake.model.values.period import midnight, parse_instant

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")


def due_moment(value: Any, offset: int, tz: tzinfo) -> datetime | None:
    """The instant at which a date falls due, in UTC.

    A date alone is its local midnight. An instant keeps its local time of the day, whatever the
    clocks do between: where they skip it, it falls due by as much later; of two it is the first.

    Args:
        value: A date or an instant as events show it.
        offset: How many calendar days later; earlier if negative.
        tz: The organization's zone.

    Returns:
        None if the value is no date, or no year has the moment.
    """
    if not isinstance(value, str):
        return None
    try:
        if _DATE.fullmatch(value):
            return midnight(date.fromisoformat(value) + timedelta(days=offset), tz)
        instant = parse_instant(value)
        if instant is None or not offset:
            return instant
        local = instant.astimezone(tz).replace(tzinfo=None) + timedelta(days=offset)
        return local.replace(tzinfo=tz).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
