"""Rows of the lake in groups, one after the other, without holding more than one of them."""

from collections.abc import Iterator, Mapping
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from meterlake.stores.lake.connection import translate_errors


def groups(
    connection: duckdb.DuckDBPyConnection, sql: str, parameters: Mapping[str, Any], keys: int
) -> Iterator[tuple[tuple[Any, ...], pa.Table]]:
    """Run a query and give its rows by the values of its first columns, which it is sorted by.

    Args:
        connection: A reader of the lake.
        sql: The query.
        parameters: Its parameters.
        keys: How many columns tell the groups apart; they are not among the columns of a group.

    Raises:
        Unavailable: The disk or the lake failed.
    """
    current: tuple[Any, ...] | None = None
    pieces: list[pa.RecordBatch] = []
    with translate_errors():
        for batch in connection.execute(sql, dict(parameters)).to_arrow_reader():
            for key, piece in _runs(batch, keys):
                if key != current and pieces:
                    assert current is not None
                    yield current, pa.Table.from_batches(pieces)
                    pieces = []
                current = key
                pieces.append(piece)
        if current is not None:
            yield current, pa.Table.from_batches(pieces)


def _runs(batch: pa.RecordBatch, keys: int) -> Iterator[tuple[tuple[Any, ...], pa.RecordBatch]]:
    names = batch.schema.names
    frame = pl.from_arrow(batch.select(names[:keys]))
    assert isinstance(frame, pl.DataFrame)
    rest = batch.select(names[keys:])
    start = 0
    for run in frame.select(pl.struct(names[:keys]).rle().alias("run"))["run"]:
        yield tuple(run["value"].values()), rest.slice(start, run["len"])
        start += run["len"]
