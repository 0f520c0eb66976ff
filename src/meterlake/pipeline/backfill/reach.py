"""The months and accounts whose quantities a change of stored measurements may alter."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final, NamedTuple

import duckdb

from meterlake.model.catalog import Aggregation, Reduce
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Month, local_date, naive, zone
from meterlake.pipeline.backfill.priced import World

_A_MONTH: Final = timedelta(days=31)
_MONTHS: Final = "SELECT DISTINCT date_trunc('month', ts)::TIMESTAMP FROM ({rows}) ORDER BY 1"
_ACCOUNTS: Final = """
    SELECT DISTINCT account_id FROM ({rows}) WHERE ts >= $start AND ts < $end ORDER BY 1"""
_FIRST: Final = "SELECT account_id, min(ts) FROM ({rows}) GROUP BY 1 ORDER BY 1"

Accounts = Mapping[Month, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Change:
    """What changes of one meter.

    Attributes:
        gone: SQL of the keys of the rows that go.
        came: SQL of the rows that come, in columns of the meter's table.
        columns: Their columns.
    """

    meter_id: str
    gone: str | None = None
    came: str | None = None
    columns: Sequence[str] = ()


class Reach(NamedTuple):
    """The months that changes touch, and the accounts in each.

    Attributes:
        months: Those with measurements that go or come.
        carried: Later ones, into which a value may be held; without the accounts of `months`.
        held: The meters of such values.
    """

    months: Accounts
    carried: Accounts
    held: frozenset[str]


def reach(world: World, changes: Sequence[Change]) -> Reach:
    """Find out what changes touch."""
    timezone = zone(world.configuration.single(OrganizationConfig).entity.timezone)
    held = _held(world)
    with world.lake.reader() as connection:
        months = _months(connection, _rows(changes), timezone)
        later = _rows([each for each in changes if each.meter_id in held])
        carried = _carried(connection, later, timezone, world.stores.now())
    rest = {month: sorted(ids.difference(months.get(month, ()))) for month, ids in carried.items()}
    return Reach(months, {month: ids for month, ids in rest.items() if ids}, held)


def _held(world: World) -> frozenset[str]:
    """The meters with a time-weighted average: what is measured there holds until the next value."""
    return frozenset(
        each.entity.meter_id
        for each in world.configuration.all(Aggregation)
        if each.entity.aggregation is Reduce.TIME_WEIGHTED_AVERAGE
    )


def _rows(changes: Sequence[Change]) -> str | None:
    touched = [
        f"SELECT account_id, ts FROM {sql}{where}"
        for each in changes
        for sql, where in (
            (each.gone, f" WHERE meter_id = '{each.meter_id}'"),
            (each.came, ""),
        )
        if sql
    ]
    return " UNION ALL ".join(touched) or None


def _months(
    connection: duckdb.DuckDBPyConnection, rows: str | None, timezone: tzinfo
) -> dict[Month, list[str]]:
    if rows is None:
        return {}
    found = {}
    starts = [row[0] for row in connection.execute(_MONTHS.replace("{rows}", rows)).fetchall()]
    for month in sorted({month for start in starts for month in _local(start, timezone)}):
        period = month.period(timezone)
        bounds = {"start": naive(period.start), "end": naive(period.end)}
        accounts = connection.execute(_ACCOUNTS.replace("{rows}", rows), bounds).fetchall()
        if accounts:
            found[month] = [row[0] for row in accounts]
    return found


def _local(start: datetime, timezone: tzinfo) -> Iterator[Month]:
    """The months of a time zone that share instants with a month of UTC."""
    first = start.replace(tzinfo=UTC)
    # West of Greenwich it begins in the month before, east of it ends in the next one.
    yield Month(start.year, start.month)
    for instant in (first, first + _A_MONTH):
        day = local_date(instant, timezone)
        yield Month(day.year, day.month)


def _carried(
    connection: duckdb.DuckDBPyConnection, rows: str | None, timezone: tzinfo, now: datetime
) -> dict[Month, set[str]]:
    found: dict[Month, set[str]] = defaultdict(set)
    if rows is None:
        return found
    today = local_date(now, timezone)
    first = connection.execute(_FIRST.replace("{rows}", rows)).fetchall()
    for account_id, instant in first:
        day = local_date(instant.replace(tzinfo=UTC), timezone)
        while (day.year, day.month) <= (today.year, today.month):
            month = Month(day.year, day.month)
            found[month].add(account_id)
            day = month.after
    return found
