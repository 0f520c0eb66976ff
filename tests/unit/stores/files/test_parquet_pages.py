"""Sizes of pages: no batch is larger than it may be, and every writer's rows are all there."""

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.errors import UnreadableSource
from meterlake.stores.files.parquet_pages import DAMAGED, PageSizes, ThriftReader
from meterlake.stores.files.source_file import Budget, Position, batches, parquet_types

ROWS = 4_000
BUDGET = Budget(batch_bytes=64 << 10, limit_bytes=1 << 30, limit_rows=10_000, size_bytes=1)


def table(seed: int = 0) -> pa.Table:
    """Short texts, and among them some long ones; some are missing."""
    random.seed(seed)
    texts = [
        None if number % 7 == 0 else "x" * (5_000 if number % 997 == 0 else number % 30)
        for number in range(ROWS)
    ]
    repeated = pa.array([f"name {number % 5}" for number in range(ROWS)])
    return pa.table({"n": pa.array(range(ROWS)), "text": pa.array(texts), "name": repeated})


def written(**options: Any) -> Callable[[Path], None]:
    return lambda path: pq.write_table(table(), path, row_group_size=1_500, **options)


def by_polars(path: Path) -> None:
    found = pl.from_arrow(table())
    assert isinstance(found, pl.DataFrame)
    found.write_parquet(path, row_group_size=1_500)


def by_duckdb(path: Path) -> None:
    rows = table()  # noqa: F841 - read by its name
    with duckdb.connect() as connection:
        connection.execute(f"COPY (FROM rows ORDER BY n) TO '{path}' (FORMAT parquet)")


def by_duckdb_2(path: Path) -> None:
    rows = table()  # noqa: F841 - read by its name
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (FROM rows ORDER BY n) TO '{path}' (FORMAT parquet, PARQUET_VERSION V2)"
        )


DELTA = {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
WRITERS = {
    **{codec: written(compression=codec) for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4")},
    "second version": written(data_page_version="2.0"),
    "plain": written(use_dictionary=False),
    "small pages": written(data_page_size=1_000, dictionary_pagesize_limit=1_000),
    "prefixes": written(**DELTA),
    "prefixes, second version": written(**DELTA, data_page_version="2.0"),
    "lengths": written(use_dictionary=False, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"}),
    "polars": by_polars,
    "duckdb": by_duckdb,
    "duckdb, second version": by_duckdb_2,
}  # fmt: skip


def read(path: Path, columns: list[str], budget: Budget = BUDGET) -> list[pa.RecordBatch]:
    return list(batches(path, path.name, columns, Position(), budget))


@pytest.mark.parametrize("writer", WRITERS)
def test_every_writers_rows_are_read_in_small_batches(tmp_path: Path, writer: str) -> None:
    path = tmp_path / "rows.parquet"
    WRITERS[writer](path)

    found = read(path, ["n", "text", "name"])

    together = pa.Table.from_batches(found)
    assert together.column("n").to_pylist() == list(range(ROWS))
    assert together.column("text").to_pylist() == table().column("text").to_pylist()
    # Offsets, and what marks missing values, come besides.
    assert max(batch.nbytes for batch in found) <= 2 * BUDGET.batch_bytes


def test_rows_that_are_small_are_not_cut(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(table().select(["n", "name"]), path, row_group_size=1_000)

    [only] = read(path, ["n", "name"], Budget(8 << 20, 1 << 30, ROWS, 1))

    assert len(only) == ROWS


@pytest.mark.long
def test_what_is_not_read_is_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    large = pa.array(["x" * (20 << 20)])
    pq.write_table(pa.table({"n": [1], "large": large}), path)

    assert [batch.to_pylist() for batch in read(path, ["n"])] == [[{"n": 1}]]
    with pytest.raises(UnreadableSource, match="row group 1") as raised:
        read(path, ["n", "large"])
    assert raised.value.reason == "TooLarge"


def test_rows_that_take_more_than_a_source_may_hold_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    one = pa.DictionaryArray.from_arrays(
        pa.array([0] * 10_000, pa.int32()), pa.array(["x" * 1_000])
    )
    pq.write_table(pa.table({"text": one.cast(pa.string())}), path)

    with pytest.raises(UnreadableSource, match="holds more than 5000000 bytes"):
        read(path, ["text"], Budget(1 << 20, 5_000_000, 10_000, 1))


def test_rows_are_counted_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(table(), path)

    with pytest.raises(UnreadableSource, match=f"holds more than {ROWS - 1} rows in 7 bytes"):
        read(path, ["n"], Budget(1 << 20, 1 << 30, ROWS - 1, 7))


def test_pages_that_many_row_groups_have_are_counted_each_time(tmp_path: Path) -> None:
    """The footer may name the same large page again and again: a look at it costs as much."""
    path = tmp_path / "rows.parquet"
    pq.write_table(table(), path)
    budget = Budget(1 << 20, 1_000_000, ROWS, 7)
    with path.open("rb") as raw, pq.ParquetFile(path) as file:
        sizes = PageSizes(raw, file, ["text"], "f", partial(budget.check_bytes, name="f"))
        looks = (sizes.rows_at_once(0, 1 << 20) for _ in range(1_000))
        assert next(looks) > 0
        with pytest.raises(UnreadableSource, match="holds more than 1000000 bytes, unpacked"):
            sum(looks)


@given(st.binary(max_size=200))
def test_damaged_headers_end_in_an_error_that_is_known(data: bytes) -> None:
    for read_one in (
        lambda: ThriftReader(data).struct(),
        lambda: ThriftReader(data).length_of_list(2),
        lambda: ThriftReader(data).deltas(1_000),
    ):
        try:
            read_one()
        except DAMAGED:
            continue


@pytest.mark.parametrize("place", [5, 20, 60, -30, -60, -200, -9])
def test_a_damaged_file_is_refused_by_name_or_read(tmp_path: Path, place: int) -> None:
    path = tmp_path / "rows.parquet"
    WRITERS["snappy"](path)
    content = bytearray(path.read_bytes())
    content[place] ^= 0xFF
    path.write_bytes(content)

    assert outcome(path) in {None, "DamagedFile", "TooLarge", "InvalidEncoding"}


def outcome(path: Path) -> str | None:
    """Why a file is refused; None if it is read."""
    try:
        parquet_types(path, path.name)
        read(path, ["n", "text", "name"])
    except UnreadableSource as error:
        return str(error.reason)
    return None
