"""The measurements of a published file: one table per meter and month, kept while it is true."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import duckdb

from meterlake.model.values.sql import identifier
from meterlake.model.values.version import code_version
from meterlake.stages.publish.meters import PublishedMeter
from meterlake.stages.publish.months import (
    Made,
    bounds,
    fingerprint,
    month_of_path,
    month_table,
    plan,
)
from meterlake.stores.lake.parts import month_parts

SCHEMA: Final = "months"
_MADE: Final = f"{SCHEMA}.made"
CREATE: Final = (
    f"CREATE TABLE {_MADE} (meter_id VARCHAR, month VARCHAR, fingerprint VARCHAR,"
    " publication VARCHAR, rows BIGINT)"
)
_MONTHS: Final = "SELECT DISTINCT strftime(ts, '%Y-%m') FROM lake.{table}"
# Accounts of the last file, and those of them that have another code now. Names of temporary tables
# come before all others: no meter's code ends with a space.
KNOWN: Final = '"known "'
_CHANGED: Final = '"renamed "'
# Months with measurements of accounts whose code is another one than it was.
_RENAMED: Final = f"SELECT 1 FROM {{table}} SEMI JOIN {_CHANGED} ON id = account_id LIMIT 1"


def made_before(connection: duckdb.DuckDBPyConnection) -> list[Made]:
    """The months of the last file, if it has any."""
    rows = connection.execute(f"SELECT * FROM {_MADE} ORDER BY meter_id, month").fetchall()
    return [Made(*row) for row in rows]


def months_to_publish(
    connection: duckdb.DuckDBPyConnection,
    snapshot: int,
    meters: Sequence[PublishedMeter],
    present: Mapping[str, Collection[str]],
    schema: str,
) -> dict[tuple[str, str], str]:
    """The fingerprints of all months that the lake has, by meter id and month."""
    stored = {each.stored: each for each in meters if each.stored in present}
    parts = month_parts(connection, snapshot, stored, month_of_path, schema)
    found = {}
    for table, each in stored.items():
        shape = f"{code_version()} {each.shape(present[table])}"
        months = {month: made for (name, month), made in parts.items() if name == table}
        # Files that do not tell their months count for all of them.
        anywhere = months.pop(None, [])
        if anywhere:
            query = _MONTHS.format(table=identifier(table))
            for (month,) in connection.execute(query).fetchall():
                months.setdefault(month, [])
        for month, made in months.items():
            assert month is not None
            found[each.meter.id, month] = fingerprint(shape, [*made, *anywhere])
    return found


def renamed_months(
    connection: duckdb.DuckDBPyConnection, last: Collection[Made]
) -> list[tuple[str, str]]:
    """The months of the last file that name accounts by codes that they no longer have.

    The last accounts are the table `KNOWN`, those of now `account`.
    """
    connection.execute(
        f"CREATE OR REPLACE TEMP TABLE {_CHANGED} AS SELECT id FROM {KNOWN} k"
        " WHERE NOT EXISTS (SELECT 1 FROM account a WHERE a.id = k.id AND a.code = k.code)"
    )
    row = connection.execute(f"SELECT count(*) FROM {_CHANGED}").fetchone()
    if row == (0,):
        return []
    return [
        (each.meter_id, each.month)
        for each in last
        if connection.execute(_RENAMED.format(table=_place(each.table))).fetchone()
    ]


def make_months(
    connection: duckdb.DuckDBPyConnection,
    meters: Sequence[PublishedMeter],
    fingerprints: Mapping[tuple[str, str], str],
    present: Mapping[str, Collection[str]],
    publication: str,
) -> list[Made]:
    """Make the months that are missing or no longer true, and drop those that are no more.

    Returns:
        All months that the file has now.
    """
    last = made_before(connection)
    known = {each.meter.id: each for each in meters}
    now = plan(last, fingerprints, renamed_months(connection, last))
    for gone in now.dropped:
        connection.execute(f"DROP TABLE {_place(gone.table)}")
    made = [*now.kept]
    for (meter_id, month), value in now.make.items():
        rows = _make(connection, known[meter_id], month, present)
        made.append(Made(meter_id, month, value, publication, rows))
    connection.execute(f"DELETE FROM {_MADE}")
    if made:
        connection.executemany(f"INSERT INTO {_MADE} VALUES (?, ?, ?, ?, ?)", made)
    return sorted(made)


def _make(
    connection: duckdb.DuckDBPyConnection,
    meter: PublishedMeter,
    month: str,
    present: Mapping[str, Collection[str]],
) -> int:
    start, end = bounds(month)
    condition = f"m.ts >= TIMESTAMP '{start}' AND m.ts < TIMESTAMP '{end}'"
    query = meter.query(present[meter.stored], condition)
    target = _place(month_table(meter.meter.id, month))
    row = connection.execute(f"CREATE TABLE {target} AS {query}").fetchone()
    assert row is not None
    return int(row[0])


def meter_queries(
    meters: Sequence[PublishedMeter], made: Sequence[Made]
) -> list[tuple[PublishedMeter, str]]:
    """The query of every meter over its months."""
    return [
        (each, each.union([_place(one.table) for one in made if one.meter_id == each.meter.id]))
        for each in meters
    ]


def _place(table: str) -> str:
    return f"{SCHEMA}.{identifier(table)}"
