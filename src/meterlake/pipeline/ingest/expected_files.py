"""Files that an organization expects for each day or month, and which of them are overdue."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, tzinfo
from fnmatch import fnmatchcase
from typing import Any, Final

from meterlake.model.configuration.organization import (
    ExpectedFile,
    FileRhythm,
    OrganizationConfig,
)
from meterlake.model.values.period import Month, format_instant, zone
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.uploads import waiting
from meterlake.stores import Organization
from meterlake.stores.files.folders import file_name
from meterlake.stores.lake.receipts import ingested_names

# Older ones are settled, one way or the other.
_DAYS_BACK: Final = 62
_ONE_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class OverdueFile:
    """A file that should have come and has not.

    Attributes:
        name: What people call it.
        pattern: What it would be called.
        period: The day or the month that it is of.
        due: When it should have been there.
    """

    name: str
    pattern: str
    period: str
    due: datetime

    def to_wire(self) -> dict[str, Any]:
        """As the API shows it."""
        return {
            "name": self.name,
            "pattern": self.pattern,
            "period": self.period,
            "due": format_instant(self.due),
        }


def overdue_files(organization: Organization, month: Month | None = None) -> list[OverdueFile]:
    """The files that are overdue now, the oldest first.

    Args:
        organization: The organization.
        month: Only those of its days, or of it; by default of the last two months.

    Raises:
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        [settings] = [each.entity for each in reader.all(OrganizationConfig)]
    if not settings.expected_files:
        return []
    now, tz = organization.now(), zone(settings.timezone)
    today = now.astimezone(tz).date()
    first = today - timedelta(days=_DAYS_BACK) if month is None else month.first
    after = today if month is None else min(today, month.after)
    due = [
        each
        for expected in settings.expected_files
        for each in _periods(expected, first, after, tz)
        if each.due <= now
    ]
    missing = set(missing_files(organization, [each.pattern for each in due]))
    found = [each for each in due if each.pattern in missing]
    return sorted(found, key=lambda each: (each.due, each.name))


def next_due(organization: Organization) -> datetime | None:
    """When the next file is overdue unless it comes; None if the organization expects none."""
    with organization.reading() as reader:
        [settings] = [each.entity for each in reader.all(OrganizationConfig)]
    now, tz = organization.now(), zone(settings.timezone)
    today = now.astimezone(tz).date()
    first, after = today - timedelta(days=_DAYS_BACK), today + timedelta(days=_DAYS_BACK)
    coming = (
        each.due
        for expected in settings.expected_files
        for each in _periods(expected, first, after, tz)
        if each.due > now
    )
    return min(coming, default=None)


def _periods(expected: ExpectedFile, first: date, after: date, tz: tzinfo) -> Iterator[OverdueFile]:
    """The files of the days, or months, that are over, as if none of them had come."""
    if expected.every is FileRhythm.DAY:
        day = max(first, expected.since)
        while day < after:
            yield _file(expected, day, day + _ONE_DAY, day.isoformat(), tz)
            day += _ONE_DAY
        return
    begins = max(first, expected.since)
    month = Month(begins.year, begins.month)
    while month.after <= after:
        yield _file(expected, month.first, month.after, str(month), tz)
        month = month.moved(1)


def _file(expected: ExpectedFile, first: date, after: date, period: str, tz: tzinfo) -> OverdueFile:
    end = datetime.combine(after, time.min, tz)
    due = end + timedelta(hours=expected.hours)
    return OverdueFile(expected.name, expected.name_of(first), period, due)


def missing_files(organization: Organization, patterns: Sequence[str]) -> list[str]:
    """The patterns that no file has: none that is ingested, uploaded, or lies in the drop folder.

    Args:
        organization: The organization.
        patterns: Of names, such as `usage-*.csv`; a case matters.
    """
    if not patterns:
        return []
    with organization.lake.reader() as connection:
        names = ingested_names(connection)
    folder = drop_folder(organization.stores, organization.code)
    if folder.inbox.is_dir():
        names.update(map(file_name, folder.inbox.iterdir()))
    names.update(each.name for each in waiting(organization))
    return [each for each in patterns if not any(fnmatchcase(name, each) for name in names)]
