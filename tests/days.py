"""The calendar days of a period, one by one."""

from datetime import timedelta, tzinfo

from meterlake.model.values.period import Period, local_date, midnight


def by_day(period: Period, tz: tzinfo) -> list[Period]:
    """The calendar days of a zone that lie in a period that begins and ends with one."""
    found, start = [], period.start
    while start < period.end:
        end = midnight(local_date(start, tz) + timedelta(days=1), tz)
        found.append(Period(start, end))
        start = end
    return found
