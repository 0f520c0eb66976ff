"""Which months of a published file have to be made anew.

A month of a meter is known by what the lake has of it: its files, what was deleted from them, and
the rows that live in the catalog. As long as that is the same, so is the month.
"""

from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from meterlake.model.values.sql import identifier

SCHEMA: Final = "months"
# The months that a file has, as rows of `Made`.
MADE: Final = f"{SCHEMA}.made"
CREATE_MADE: Final = (
    f"CREATE TABLE {MADE} (meter_id VARCHAR, month VARCHAR, fingerprint VARCHAR,"
    " publication VARCHAR, rows BIGINT)"
)
MADE_MONTHS: Final = f"SELECT * FROM {MADE} ORDER BY meter_id, month"
# Accounts of the last file, and those of them that have another code now. Names of temporary tables
# come before all others: no meter's code ends with a space.
KNOWN: Final = '"known "'
REMEMBER_ACCOUNTS: Final = f"CREATE TEMP TABLE {KNOWN} AS SELECT id, code FROM account"
_RENAMED: Final = '"renamed "'
FIND_RENAMED: Final = (
    f"CREATE OR REPLACE TEMP TABLE {_RENAMED} AS SELECT id FROM {KNOWN} k"
    " WHERE NOT EXISTS (SELECT 1 FROM account a WHERE a.id = k.id AND a.code = k.code)"
)
COUNT_RENAMED: Final = f"SELECT count(*) FROM {_RENAMED}"


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


def place_of(table: str) -> str:
    """Where a file has the table of a month."""
    return f"{SCHEMA}.{identifier(table)}"


def months_in_lake(table: str) -> str:
    """The query of the months, in UTC, that a meter's table in the lake has."""
    return f"SELECT DISTINCT strftime(ts, '%Y-%m') FROM lake.{identifier(table)}"


def any_renamed(place: str) -> str:
    """The query that finds a row of an account whose code is another one than it was."""
    return f"SELECT 1 FROM {place} SEMI JOIN {_RENAMED} ON id = account_id LIMIT 1"


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
