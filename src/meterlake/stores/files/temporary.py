"""Rows of Python as a table of DuckDB, for as long as a few queries need them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb

from meterlake.model.values.sql import identifier


@contextmanager
def temporary_table(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Mapping[str, str],
    rows: Sequence[Sequence[Any]],
) -> Iterator[None]:
    """Create a table while the body runs; for thousands of rows, not for millions.

    Commands that only look at the lake need neither Polars nor Arrow for it, whose imports take
    longer than most queries.

    Args:
        connection: Where it is created; others do not see it.
        name: The name of the table.
        columns: The SQL type of every column.
        rows: The values, in the order of the columns.
    """
    lists = ", ".join(
        f"unnest($c{number}::{kind}[]) AS {identifier(column)}"
        for number, (column, kind) in enumerate(columns.items())
    )
    values = {f"c{number}": [row[number] for row in rows] for number in range(len(columns))}
    connection.execute(f"CREATE TEMP TABLE {identifier(name)} AS SELECT {lists}", values)
    try:
        yield
    finally:
        connection.execute(f"DROP TABLE temp.{identifier(name)}")
