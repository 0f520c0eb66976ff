"""Months as people ask for them: by number, or by where they stand from now."""

from datetime import timedelta
from typing import Final

from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Invalid
from meterlake.model.values.period import Month, format_instant, local_date, zone
from meterlake.stores import Organization
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

_SPOKEN: Final = {"last": "last month", "current": "the current month"}


def month_text(name: str) -> str:
    """What people call the month that they named.

    >>> month_text("2026-10"), month_text("last")
    ('2026-10', 'last month')
    """
    return _SPOKEN.get(name, name)


def days_text(days: Month | DayRange) -> str:
    """The month in which days are; all of them if they are in several months.

    >>> from datetime import date
    >>> days_text(DayRange(date(2026, 10, 31), date(2026, 11, 1)))
    '2026-10'
    """
    if isinstance(days, Month):
        return str(days)
    first, last = (f"{day:%Y-%m}" for day in (days.first, days.after - timedelta(days=1)))
    return first if first == last else str(days)


def month_named(organization: Organization, name: str) -> Month:
    """A month such as `2026-10`; `current` and `last` as the organization's calendar has it now.

    Raises:
        Invalid: It is no month.
    """
    if name not in {"current", "last"}:
        return Month.parse(name)
    with organization.reading() as reader:
        timezone = zone(StoredConfiguration(reader).single(OrganizationConfig).entity.timezone)
    day = local_date(organization.now(), timezone)
    if name == "last":
        day = day.replace(day=1) - timedelta(days=1)
    return Month(day.year, day.month)


def refuse_future_month(organization: Organization, month: Month | DayRange | None) -> None:
    """Refuse to bill a month of which nothing is known yet; days are what their caller says.

    Raises:
        Invalid: Its first day has not begun in the organization's time zone.
    """
    if not isinstance(month, Month):
        return
    with organization.reading() as reader:
        name = StoredConfiguration(reader).single(OrganizationConfig).entity.timezone
    start = month.period(zone(name)).start
    if organization.now() < start:
        begins = format_instant(start)
        rule = (
            f"it has not begun: it begins at {begins}. Bill a month that has begun, or make the"
            f" bills of one bill date to come with `meterlake bill --date {month.after}`"
        )
        raise Invalid("month", str(month), rule)
