"""The measurements behind a quantity, each with its file and its row in it, and the files of them."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb

from meterlake.model.values.sql import identifier
from meterlake.stores.lake.connection import translate_errors

# Rows are chosen before their files are looked up: of very many measurements few are shown.
_ROWS: Final = """
    SELECT m.*, s.name AS file
    FROM (
        SELECT m.uid, m.ts, m.received_at, m.source, m.row, m.part, {value} AS value{more}
        FROM (FROM {source}) AS m
        WHERE {where} AND ({begun}) AND m.ts < $end{only}
        {ordered}
    ) AS m LEFT JOIN (
        SELECT identity, arg_min(name, attempt) AS name FROM lake.source GROUP BY identity
    ) AS s ON s.identity = m.source
    ORDER BY {order}"""
IN_TIME: Final = "m.ts >= $start"
# Of an average also what holds when the time begins.
HOLDS_IN_TIME: Final = f"{IN_TIME} OR m.until1 > $start"
OLDEST_FIRST: Final = "m.ts, m.uid"
NEWEST_FIRST: Final = "m.ts DESC, m.uid DESC"
FIRST_ROWS_FIRST: Final = "m.row, m.part, m.source"
_AT_ONCE: Final = 1000
_FOLDERS: Final = re.compile(r"(?:^|/)year=(\d+)/month=(\d+)/")
# Up to which row files are read.
_FIRST_ROWS: Final = (1_000, 100_000)
# Sorting so many takes longer than reading the time of some of them first.
_MANY: Final = 100_000
# Measurements are not spread evenly over time: so many times as much of it is read.
_SPARE: Final = 50
_DATABASE: Final = "__ducklake_metadata_lake"
_SEEN: Final = "begin_snapshot <= $snapshot AND (end_snapshot IS NULL OR end_snapshot > $snapshot)"
_FILES: Final = f"""
    SELECT DISTINCT CASE WHEN f.path_is_relative THEN s.path || t.path || f.path ELSE f.path END
    FROM (
        SELECT table_id, path, path_is_relative FROM {{catalog}}.ducklake_data_file WHERE {_SEEN}
        UNION ALL
        SELECT table_id, path, path_is_relative FROM {{catalog}}.ducklake_delete_file WHERE {_SEEN}
    ) f
    JOIN (SELECT DISTINCT table_id, schema_id, path, table_name FROM {{catalog}}.ducklake_table) t
        USING (table_id)
    JOIN (SELECT DISTINCT schema_id, path FROM {{catalog}}.ducklake_schema) s USING (schema_id)
    WHERE starts_with(t.table_name, 'm_')"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementQuery:
    """Which measurements are read, and in which order.

    Attributes:
        source: What is read, as SQL.
        where: Which of them `m` are meant, whenever they are.
        parameters: The values of both, with `start` and `end`.
        value: SQL of the value that is shown.
        begun: Which of those before the end count.
        only: A further condition.
        more: Further columns.
        order: By what they are sorted.
    """

    source: str
    where: str
    parameters: Mapping[str, Any]
    value: str = "NULL"
    begun: str = IN_TIME
    only: str = ""
    more: str = ""
    order: str = OLDEST_FIRST

    def restrict(self, only: str, order: str = OLDEST_FIRST, **values: Any) -> "MeasurementQuery":
        """The same with one more condition."""
        parameters = {**self.parameters, **values}
        return replace(self, only=f" AND {only}", order=order, parameters=parameters)

    def narrow(self, share: float) -> "MeasurementQuery":
        """The same for a share of the time, at its end."""
        start, end = self.parameters["start"], self.parameters["end"]
        part = (end - start) * min(share, 1)
        return replace(self, parameters={**self.parameters, "start": end - part})


def read_measurements(
    connection: duckdb.DuckDBPyConnection, query: MeasurementQuery, limit: int
) -> list[dict[str, Any]]:
    """The first measurements of a query."""
    return list(_read(connection, query, f"ORDER BY {query.order} LIMIT {int(limit)}"))


def read_first(
    connection: duckdb.DuckDBPyConnection, query: MeasurementQuery, limit: int, count: int
) -> list[dict[str, Any]]:
    """The same of a known number: of very many, those that stand first in their files.

    Files have their rows in order, so that little of them is read. The newest ones are looked for
    in a part of the time.

    Args:
        connection: Reads the lake.
        query: Which measurements.
        limit: How many.
        count: How many there are about.
    """
    for each in _parts(query, limit, count):
        found = read_measurements(connection, each, limit)
        if len(found) == limit:
            return found
    return read_measurements(connection, query, limit)


def _parts(query: MeasurementQuery, limit: int, count: int) -> Iterator[MeasurementQuery]:
    """What is read first of very many measurements, since it may have enough."""
    if count > _MANY and query.order == NEWEST_FIRST:
        yield query.narrow(_SPARE * limit / count)
    elif count > _MANY and query.begun == IN_TIME:
        for row in _FIRST_ROWS:
            yield query.restrict(f"m.row <= {row}", FIRST_ROWS_FIRST)


def stream_measurements(
    connection: duckdb.DuckDBPyConnection, query: MeasurementQuery
) -> Iterator[dict[str, Any]]:
    """All measurements of a query, one after the other."""
    return _read(connection, query, "")


def _read(
    connection: duckdb.DuckDBPyConnection, query: MeasurementQuery, ordered: str
) -> Iterator[dict[str, Any]]:
    parts = {
        name: getattr(query, name)
        for name in ("source", "where", "value", "begun", "only", "more", "order")
    }
    with translate_errors():
        answer = connection.execute(_ROWS.format(ordered=ordered, **parts), dict(query.parameters))
        names = [each[0] for each in answer.description or ()]
        while rows := answer.fetchmany(_AT_ONCE):
            for row in rows:
                yield dict(zip(names, row, strict=True))


def measurement_files(
    connection: duckdb.DuckDBPyConnection, snapshot: int, schema: str, root: str
) -> Iterator[str]:
    """The paths of the files of a snapshot, below the root of the lake's files.

    Args:
        connection: Where the lake is attached as `lake`, within the reader's gate.
        snapshot: The snapshot.
        schema: Where the catalog has DuckLake's own tables.
        root: Of the lake's files, with a slash at its end.
    """
    catalog = f"{_DATABASE}.{identifier(schema)}"
    rows = connection.execute(_FILES.format(catalog=catalog), {"snapshot": snapshot}).fetchall()
    for (path,) in sorted(rows):
        yield str(path).removeprefix(root)


def month_of_path(path: str) -> str | None:
    """The month of a file of the lake by its folders, or None if they do not tell.

    >>> month_of_path("year=2026/month=9/a.parquet")
    '2026-09'
    """
    found = _FOLDERS.search(path)
    return f"{int(found[1]):04d}-{int(found[2]):02d}" if found else None
