"""Cron expressions: minute, hour, day of the month, month, day of the week; in UTC.

cronsim reads them and finds their times, as crontab(5) of Debian has them.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise, takewhile
from typing import Final

from cronsim import CronSim, CronSimError

from meterlake.model.errors import Invalid

# cronsim also takes six, the first of which is the second.
_FIELDS: Final = 5
_HOUR: Final = 60
_DAY: Final = 24 * _HOUR
# From here, cronsim looks ahead fifty years, in which every day of a calendar comes.
_START: Final = datetime(2000, 1, 1, tzinfo=UTC)
_RULE: Final = "it must have five fields: minute, hour, day of the month, month, day of the week, such as 0 6 * * MON"


def parse_cron(place: str, text: str) -> CronSim:
    """Read an expression.

    Raises:
        Invalid: It is none, or no day ever meets it.
    """
    try:
        cron = _parse(text, _START)
    # A number of thousands of digits is no CronSimError.
    except (CronSimError, ValueError) as error:
        is_known = isinstance(error, CronSimError)
        fault = str(error).lower() if is_known else "number that is too long"
        raise Invalid(place, text, f"{_RULE}; this has a {fault}") from None
    if next(cron, None) is None:
        raise Invalid(place, text, "it must name a day that exists")
    return cron


def shortest_gap(cron: CronSim) -> int:
    """The least minutes between two times at which it is due; a day at most.

    Hours that follow each other over midnight count, whatever the days are.

    >>> shortest_gap(parse_cron("cron", "0,50 9,10 * * *"))
    10
    """
    times = sorted(hour * _HOUR + minute for hour in cron.hours for minute in cron.minutes)
    return min(later - sooner for sooner, later in pairwise([*times, times[0] + _DAY]))


def cron_times(text: str, after: datetime, until: datetime) -> Iterator[datetime]:
    """When an expression is due, later than `after` and not later than `until`, the soonest first.

    Args:
        text: What `parse_cron` took.
        after: In any zone; the fields are those of UTC.
        until: In any zone.
    """
    return takewhile(lambda due: due <= until, _parse(text, after.astimezone(UTC)))


def _parse(text: str, after: datetime) -> CronSim:
    if len(text.split()) != _FIELDS:
        raise CronSimError("wrong number of fields")
    # Quartz writes ? for any day.
    return CronSim(text.replace("?", "*"), after)
