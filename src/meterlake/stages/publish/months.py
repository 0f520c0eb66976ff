"""Which months of a published file have to be made anew.

A month of a meter is known by what the lake has of it: its files, what was deleted from them, and
the rows that live in the catalog. As long as that is the same, so is the month.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

_FOLDERS: Final = re.compile(r"(?:^|/)year=(\d+)/month=(\d+)/")


class Made(NamedTuple):
    """One month of one meter in a published file.

    Attributes:
        meter_id: The meter.
        month: Its name, such as 2026-10, in UTC.
        fingerprint: What it was made from.
        publication: The name of the publication that made it.
        rows: How many rows it has.
    """

    meter_id: str
    month: str
    fingerprint: str
    publication: str
    rows: int

    @property
    def table(self) -> str:
        """The name of its table."""
        return month_table(self.meter_id, self.month)


def month_table(meter_id: str, month: str) -> str:
    """The name of the table of a month of a meter."""
    return f"{meter_id} {month}"


def month_of_path(path: str) -> str | None:
    """The month of a file of the lake by its folders, or None if they do not tell.

    >>> month_of_path("year=2026/month=9/a.parquet")
    '2026-09'
    """
    found = _FOLDERS.search(path)
    return f"{int(found[1]):04d}-{int(found[2]):02d}" if found else None


def bounds(month: str) -> tuple[str, str]:
    """The first moment of a month and that of the next one, as naive UTC.

    >>> bounds("2026-12")
    ('2026-12-01', '2027-01-01')
    """
    year, number = map(int, month.split("-"))
    after_year, after = year + number // 12, number % 12 + 1
    return f"{month}-01", f"{after_year:04d}-{after:02d}-01"


def fingerprint(shape: str, parts: Iterable[str]) -> str:
    """What identifies the content of a month: how it is read, and what it is read from."""
    text = "\n".join([shape, *sorted(parts)])
    return sha256(text.encode()).hexdigest()


class MonthPlan(NamedTuple):
    """What becomes of the months of the last file.

    Attributes:
        kept: Those that are still true.
        dropped: Those that are not, or are no more.
        make: The fingerprints of those to make, by meter id and month.
    """

    kept: tuple[Made, ...]
    dropped: tuple[Made, ...]
    make: Mapping[tuple[str, str], str]


def plan(
    last: Collection[Made],
    fingerprints: Mapping[tuple[str, str], str],
    affected: Collection[tuple[str, str]] = (),
) -> MonthPlan:
    """Compare the months of the last file with what they would be made from now.

    Args:
        last: The months of the last file.
        fingerprints: The fingerprints of now, by meter id and month.
        affected: Months that are made anew in any case, by meter id and month.
    """
    kept = tuple(
        each
        for each in last
        if fingerprints.get((each.meter_id, each.month)) == each.fingerprint
        and (each.meter_id, each.month) not in affected
    )
    same = {(each.meter_id, each.month) for each in kept}
    return MonthPlan(
        kept,
        tuple(each for each in last if (each.meter_id, each.month) not in same),
        {key: value for key, value in fingerprints.items() if key not in same},
    )
