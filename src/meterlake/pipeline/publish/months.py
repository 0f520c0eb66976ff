"""The measurements of a published file: one table per meter and month, kept while it is true."""

from collections.abc import Collection, Mapping, Sequence

import duckdb

from meterlake.model.values.version import code_version
from meterlake.stages.publish.meters import PublishedMeter
from meterlake.stages.publish.months import (
    COUNT_RENAMED,
    FIND_RENAMED,
    MADE,
    MADE_MONTHS,
    Made,
    any_renamed,
    bounds,
    fingerprint,
    month_of_path,
    month_table,
    months_in_lake,
    place_of,
    plan,
)
from meterlake.stores.lake.parts import month_parts


def made_before(connection: duckdb.DuckDBPyConnection) -> list[Made]:
    """The months of the last file, if it has any."""
    rows = connection.execute(MADE_MONTHS).fetchall()
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
            for (month,) in connection.execute(months_in_lake(table)).fetchall():
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
    connection.execute(FIND_RENAMED)
    row = connection.execute(COUNT_RENAMED).fetchone()
    if row == (0,):
        return []
    return [
        (each.meter_id, each.month)
        for each in last
        if connection.execute(any_renamed(place_of(each.table))).fetchone()
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
        connection.execute(f"DROP TABLE {place_of(gone.table)}")
    made = [*now.kept]
    for (meter_id, month), value in now.make.items():
        rows = _make(connection, known[meter_id], month, present)
        made.append(Made(meter_id, month, value, publication, rows))
    connection.execute(f"DELETE FROM {MADE}")
    if made:
        connection.executemany(f"INSERT INTO {MADE} VALUES (?, ?, ?, ?, ?)", made)
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
    target = place_of(month_table(meter.meter.id, month))
    row = connection.execute(f"CREATE TABLE {target} AS {query}").fetchone()
    assert row is not None
    return int(row[0])


def meter_queries(
    meters: Sequence[PublishedMeter], made: Sequence[Made]
) -> list[tuple[PublishedMeter, str]]:
    """The query of every meter over its months."""
    return [
        (each, each.union([place_of(one.table) for one in made if one.meter_id == each.meter.id]))
        for each in meters
    ]
