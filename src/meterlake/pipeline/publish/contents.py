"""A published file is filled: everything anew, or what has changed since it was published.

Beside the months of meters, the schema `months` knows what each table was made from: rows of State by
their digest, tables of the lake by their parts. What is still the same is left as it is. Measurements
are one table per meter and month, kept while it is true.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import tzinfo
from hashlib import sha256
from typing import Final, NamedTuple

import duckdb
import pyarrow as pa

from meterlake.model.measurements.measurement import LAKE_TABLES as DECLARED
from meterlake.model.values.sql import identifier
from meterlake.model.values.version import code_version
from meterlake.pipeline.publish import tables as published_schema
from meterlake.stages.publish import statements
from meterlake.stages.publish.meters import PublishedMeter
from meterlake.stages.publish.months import (
    COUNT_RENAMED,
    CREATE_MADE,
    FIND_RENAMED,
    KNOWN,
    MADE,
    MADE_MONTHS,
    REMEMBER_ACCOUNTS,
    SCHEMA,
    Made,
    any_renamed,
    bounds,
    fingerprint,
    month_table,
    months_in_lake,
    place_of,
    plan,
)
from meterlake.stages.publish.tables import DICTIONARY, LAKE_TABLES, Table
from meterlake.stages.publish.views import LIVE
from meterlake.stores.lake.measurements.rows import month_of_path
from meterlake.stores.lake.month_parts import month_parts

_CONTENTS: Final = f"{SCHEMA}.contents"
_BEGIN: Final = (
    f"CREATE SCHEMA {SCHEMA}",
    CREATE_MADE,
    f"CREATE TABLE {_CONTENTS} (name VARCHAR, digest VARCHAR)",
    f"CREATE SCHEMA {LIVE}",
)
# What the file consists of, in `contents`.
_SHAPE: Final = "(shape)"


class PublishedContent(NamedTuple):
    """What a file is to hold.

    Attributes:
        snapshot: The snapshot of the lake.
        publication: The name of the publication.
        meters: The meters.
        timezone: The organization's time zone.
        state: The rows of every table that is filled from State.
        schema: Where the lake's catalog has DuckLake's own tables.
    """

    snapshot: int
    publication: str
    meters: tuple[PublishedMeter, ...]
    timezone: tzinfo
    state: Mapping[Table, pa.Table]
    schema: str


def fill_file(
    connection: duckdb.DuckDBPyConnection, content: PublishedContent, *, again: bool
) -> list[Made]:
    """Fill a file within a transaction in which the lake is attached, too.

    Args:
        connection: Where the file is the current database.
        content: What it is to hold.
        again: It is a copy of the last file; otherwise it is empty.

    Returns:
        The months of measurements that it has now.

    Raises:
        duckdb.Error: Among others, the last file is damaged.
    """
    present = published_schema.lake_columns(connection)
    views = statements.views_of(content.meters, content.timezone)
    # Every statement that the file is made by, but for those that only fill it.
    shape = _digest(
        [
            code_version(),
            *statements.state_statements(),
            *(f"{each.name} {each.query}" for each in views),
            *statements.comments(content.meters, content.timezone, "TABLE"),
            *_live(content, present),
        ]
    )
    if again:
        connection.execute(REMEMBER_ACCOUNTS)
        before = dict(connection.execute(f"FROM {_CONTENTS}").fetchall())
    else:
        connection.execute(f"CREATE TEMP TABLE {KNOWN} (id VARCHAR, code VARCHAR)")
        before = {}
    created = before.get(_SHAPE) != shape
    if created:
        # Make a file empty but for the months of meters.
        if again:
            for kind, schema, name in connection.execute(statements.LEFT_OVER).fetchall():
                connection.execute(f"DROP {kind} {schema}.{identifier(name)}")
        else:
            published_schema.run(connection, _BEGIN)
        published_schema.run(connection, statements.state_statements())
        before = {}
    now = _fill_state(connection, content.state, before)
    months = months_to_publish(
        connection, content.snapshot, content.meters, present, content.schema
    )
    made = make_months(connection, content.meters, months, present, content.publication)
    now |= _fill_of_lake(connection, content, now, before, created=created)
    now |= _create_meters(connection, content.meters, made, before)
    if created:
        made_views = [statements.view_statement(each.name, each.query) for each in views]
        comments = statements.comments(content.meters, content.timezone, "TABLE")
        published_schema.run(connection, [*made_views, *comments])
        published_schema.fill_dictionary(connection)
        published_schema.run(connection, _live(content, present))
    now |= {_SHAPE: shape, DICTIONARY.name: shape[:32]}
    connection.execute(f"DELETE FROM {_CONTENTS}")
    connection.executemany(f"INSERT INTO {_CONTENTS} VALUES (?, ?)", list(now.items()))
    return made


def _fill_state(
    connection: duckdb.DuckDBPyConnection,
    state: Mapping[Table, pa.Table],
    before: Mapping[str, str],
) -> dict[str, str]:
    now = {}
    for table, rows in state.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        now[table.name] = digest = sha256(sink.getvalue()).hexdigest()[:32]
        if before.get(table.name) == digest:
            continue
        if before:
            connection.execute(f"DELETE FROM {identifier(table.name)}")
        published_schema.fill(connection, table, rows)
    return now


def _fill_of_lake(
    connection: duckdb.DuckDBPyConnection,
    content: PublishedContent,
    state: Mapping[str, str],
    before: Mapping[str, str],
    *,
    created: bool,
) -> dict[str, str]:
    snapshot = content.snapshot
    parts = month_parts(connection, snapshot, DECLARED, None, content.schema)
    listed = [f"{table} {part}" for (table, _), found in parts.items() for part in found]
    # One digest for all: they read each other's tables, and the codes of configuration.
    codes = [state[name] for name in sorted(statements.NEEDED)]
    digest = fingerprint(code_version(), [*listed, *codes])[:32]
    for name, query in published_schema.lake_views():
        if created:
            connection.execute(f"CREATE TABLE {identifier(name)} AS {query}")
        elif before.get(name) != digest:
            connection.execute(f"DELETE FROM {identifier(name)}")
            connection.execute(f"INSERT INTO {identifier(name)} {query}")
    return {each.name: digest for each in LAKE_TABLES}


def _create_meters(
    connection: duckdb.DuckDBPyConnection,
    meters: Collection[PublishedMeter],
    made: list[Made],
    before: Mapping[str, str],
) -> dict[str, str]:
    now = {}
    for each, query in meter_queries(list(meters), made):
        name = f"meter {each.name}"
        now[name] = digest = _digest([query, each.doc, *each.docs.values()])
        if before.get(name) != digest:
            published_schema.run(
                connection,
                [
                    statements.view_statement(each.name, query),
                    *statements.meter_comments(each),
                ],
            )
    return now


def _live(content: PublishedContent, present: Mapping[str, Collection[str]]) -> Iterator[str]:
    """The same names in a schema of their own, as views on a lake that the reader attaches."""
    for name, query in published_schema.lake_views():
        yield statements.view_statement(name, query, LIVE)
    for each in content.meters:
        query = each.query(present.get(each.stored, ()))
        yield statements.view_statement(each.name, query, LIVE)
    # A view reads for ever what its names meant when it was created.
    yield f"SET search_path = 'published.{LIVE},published.main'"
    for view in statements.views_of(content.meters, content.timezone):
        yield statements.view_statement(view.name, view.query, LIVE)
    yield "USE published"
    yield from statements.live_comments(content.meters, content.timezone)


def _digest(texts: Collection[str] | Iterator[str]) -> str:
    return sha256("\n".join(texts).encode()).hexdigest()


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
        meter = known[meter_id]
        start, end = bounds(month)
        condition = f"m.ts >= TIMESTAMP '{start}' AND m.ts < TIMESTAMP '{end}'"
        query = meter.query(present[meter.stored], condition)
        target = place_of(month_table(meter.meter.id, month))
        row = connection.execute(f"CREATE TABLE {target} AS {query}").fetchone()
        assert row is not None
        made.append(Made(meter_id, month, value, publication, int(row[0])))
    connection.execute(f"DELETE FROM {MADE}")
    if made:
        connection.executemany(f"INSERT INTO {MADE} VALUES (?, ?, ?, ?, ?)", made)
    return sorted(made)


def meter_queries(
    meters: Sequence[PublishedMeter], made: Sequence[Made]
) -> list[tuple[PublishedMeter, str]]:
    """The query of every meter over its months."""
    return [
        (each, each.union([place_of(one.table) for one in made if one.meter_id == each.meter.id]))
        for each in meters
    ]
