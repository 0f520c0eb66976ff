"""What came in, hour by hour (files one by one, submitted batches in one sum) and month by month."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import duckdb

from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values import wire
from meterlake.model.values.period import Period, aware, format_instant, local_date, naive, zone
from meterlake.model.values.sql import identifier
from meterlake.stores import Organization
from meterlake.stores.lake.tables import table_names

# So many hours are told one by one, so that a summary that was missed is no loss.
HOURS_SHOWN: Final = 24
FILES_MAX: Final = 1_000
_HOUR: Final = timedelta(hours=1)
# The name of a segment of submitted batches follows from its delivery; no other source's does.
_BATCHES: Final = "name = delivery || '.ndjson'"
_COUNTS: Final = f"""
    count(*) FILTER (NOT ({_BATCHES})) AS files,
    count(*) FILTER ({_BATCHES}) AS segments,
    coalesce(sum(received), 0)::BIGINT AS received,
    coalesce(sum(accepted), 0)::BIGINT AS accepted,
    coalesce(sum(repeats), 0)::BIGINT AS repeats,
    coalesce(sum(rejected), 0)::BIGINT AS rejected,
    count(*) FILTER (status = 'failed') AS failed"""
_TOTALS: Final = f"""
    SELECT {_COUNTS} FROM lake.source WHERE finished_at >= $start AND finished_at < $end"""
_BY_HOUR: Final = f"""
    SELECT date_trunc('hour', finished_at) AS hour, {_COUNTS}
    FROM lake.source WHERE finished_at >= $start GROUP BY hour ORDER BY hour DESC"""
_FILES: Final = f"""
    SELECT name, status, received, accepted, repeats, rejected, reasons,
        reason || coalesce(': ' || detail, '') AS reason, finished_at AS finished
    FROM lake.source WHERE finished_at >= $start AND NOT ({_BATCHES})
    ORDER BY finished_at DESC, name LIMIT {FILES_MAX}"""
# No time zone is off by less; so a bucket lies in one month.
_BY_TIME: Final = """
    SELECT time_bucket(INTERVAL '15 minutes', ts) AS bucket, count(*) FROM lake.{table}
    WHERE source IN (SELECT unnest(?::VARCHAR[])) GROUP BY bucket"""

# Runs that older versions made are of months.
_MONTHS: Final = """
    SELECT DISTINCT coalesce(period, month) FROM lake.quantity
    WHERE coalesce(frequency, 'MONTHLY') = 'MONTHLY'"""


@dataclass(frozen=True, slots=True)
class CameIn:
    """What came in.

    Attributes:
        totals: Of some whole hours: counts of files, of segments of submitted batches, of rows, and
            of files that failed whole.
        hours: The same of each of the last hours in which something came, the newest first.
        files: The files since the first of the whole hours, the newest first.
    """

    totals: dict[str, int]
    hours: list[dict[str, Any]]
    files: list[dict[str, Any]]


def last_hours(now: datetime, hours: int) -> Period:
    """The last whole hours, in UTC.

    >>> from datetime import UTC
    >>> period = last_hours(datetime(2026, 10, 1, 13, 2, tzinfo=UTC), 1)
    >>> (period.start.hour, period.end.hour)
    (12, 13)
    """
    end = now.replace(minute=0, second=0, microsecond=0)
    return Period(end - hours * _HOUR, end)


def came_in(organization: Organization, period: Period) -> CameIn:
    """Count what came in.

    Args:
        organization: The organization.
        period: Some whole hours.

    Raises:
        Unavailable: The lake failed.
    """
    start, end = naive(period.start), naive(period.end)
    shown = min(start, end - (HOURS_SHOWN - 1) * _HOUR)
    with organization.lake.reader() as connection:
        [totals] = _rows(connection, _TOTALS, start=start, end=end)
        hours = _rows(connection, _BY_HOUR, start=shown)
        files = _rows(connection, _FILES, start=start)
    shown_files: list[dict[str, Any]] = []
    for each in files:
        reasons = sorted(wire.loads(each["reasons"]).items())
        shown_files.append(
            {
                **each,
                "reasons": ", ".join(f"{reason} {rows}" for reason, rows in reasons),
                "finished": format_instant(aware(each["finished"])),
            }
        )
    return CameIn(
        totals,
        [{**each, "hour": format_instant(aware(each["hour"]))} for each in hours],
        shown_files,
    )


def _rows(
    connection: duckdb.DuckDBPyConnection, query: str, **parameters: datetime
) -> list[dict[str, Any]]:
    found = connection.execute(query, parameters)
    names = [column[0] for column in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def count_by_month(organization: Organization, identities: Collection[str]) -> dict[str, int]:
    """Count the stored measurements of some sources by the organization's months.

    Args:
        organization: The organization.
        identities: Those of the sources.

    Raises:
        Unavailable: The lake failed.
    """
    if not identities:
        return {}
    with organization.reading() as reader:
        configuration = reader.configuration()
    timezone = zone(configuration.single(OrganizationConfig).entity.timezone)
    counts: Counter[str] = Counter()
    with organization.lake.reader() as connection:
        for name in table_names(connection):
            if not name.startswith(meter_table("")):
                continue
            query = _BY_TIME.format(table=identifier(name))
            for bucket, rows in connection.execute(query, [list(identities)]).fetchall():
                counts[f"{local_date(aware(bucket), timezone):%Y-%m}"] += rows
    return dict(sorted(counts.items()))


def list_months(organization: Organization) -> list[str]:
    """The months that have quantities, the oldest first.

    Raises:
        Unavailable: The lake failed.
    """
    with organization.lake.reader() as connection:
        rows = connection.execute(_MONTHS).fetchall()
    return sorted(str(month) for (month,) in rows if month)
