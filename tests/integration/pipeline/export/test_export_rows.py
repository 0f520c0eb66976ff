"""Files of a bounded size: where they end follows from the rows, not from how these come."""

import gzip
from decimal import Decimal
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.values.money import exact
from meterlake.pipeline.export.rows import (
    GROUP_ROWS,
    RowBlock,
    RowOutput,
    Sums,
    write_parquet,
    write_text,
)

NUMBER = pa.decimal128(38, 12)
HEADER = b"line,n\n"
HUGE = 10**38 - 1
# st.decimals draws one with a digit too many now and then.
numbers = st.none() | st.integers(-HUGE, HUGE).map(lambda n: Decimal(f"{n}E-12"))
rows = st.lists(st.tuples(st.text("aé\n", max_size=9), numbers), max_size=8)
cuts = st.lists(st.integers(0, 8), max_size=3)


def blocks(rows, cuts):
    """The rows in pieces of any size, some of which do not begin where their memory does."""
    texts = pa.array([f"{text}\n" for text, _ in rows], pa.string())
    table = pa.record_batch([pa.array([n for _, n in rows], NUMBER)], ["n"])
    whole = RowBlock(table, texts)
    places = sorted({0, len(rows), *(cut for cut in cuts if cut < len(rows))})
    for start, stop in pairwise(places):
        yield whole.cut(start, stop)


def output(folder, most, threads=1):
    folder.mkdir(exist_ok=True)
    return RowOutput(lambda number: folder / f"{number:04}", ["n"], most, threads)


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(rows=rows, first=cuts, second=cuts, most=st.integers(1, 120))
def test_files_do_not_depend_on_how_the_rows_come(tmp_path_factory, rows, first, second, most):
    folder = tmp_path_factory.mktemp("rows")
    found = write_text(blocks(rows, first), HEADER, output(folder / "1", most))
    again = write_text(blocks(rows, second), HEADER, output(folder / "2", most, threads=2))
    texts = [gzip.decompress(piece.path.read_bytes()) for piece in found]

    assert [each.path.read_bytes() for each in again] == [each.path.read_bytes() for each in found]
    assert [each.rows for each in again] == [each.rows for each in found]
    assert all(text.startswith(HEADER) for text in texts)
    content = b"".join(text.removeprefix(HEADER) for text in texts)
    assert content == "".join(f"{text}\n" for text, _ in rows).encode()
    assert all(len(text) <= most or each.rows <= 1 for text, each in zip(texts, found, strict=True))
    assert all(each.rows for each in found[1:])
    sums = [each.sums.totals["n"] for each in found if each.sums.totals["n"] is not None]
    wanted = [number for _, number in rows if number is not None]
    with exact():
        assert sum(sums) == sum(wanted)
    assert bool(sums) is bool(wanted)


def test_no_file_has_room_for_one_more_row(tmp_path):
    given = [("x" * 9, None)] * 10
    found = write_text(blocks(given, [3]), HEADER, output(tmp_path / "f", len(HEADER) + 30))

    assert [each.rows for each in found] == [3, 3, 3, 1]


def test_rows_that_end_with_a_file_make_no_empty_one(tmp_path):
    found = write_text(blocks([("x" * 9, None)] * 6, []), b"", output(tmp_path / "f", 30))

    assert [each.rows for each in found] == [3, 3]


@pytest.mark.parametrize("write", ["text", "parquet"])
def test_no_rows_are_one_file(tmp_path, write):
    schema = pa.schema([("n", NUMBER)])
    where = output(tmp_path / "f", 1)
    [piece] = write_text([], HEADER, where) if write == "text" else write_parquet([], schema, where)

    assert piece.rows == 0
    assert piece.sums.totals == {"n": None}
    if write == "parquet":
        assert pq.read_table(piece.path).schema == schema


def test_parquet_ends_behind_a_group_of_rows(tmp_path):
    count = 2 * GROUP_ROWS + 5
    schema = pa.schema([("n", pa.int64())])
    batch = pa.record_batch([pa.array(range(count))], schema=schema)

    def written(name, cuts):
        parts = zip([0, *cuts], [*cuts, count], strict=True)
        given = (RowBlock(batch.slice(start, stop - start)) for start, stop in parts)
        where = RowOutput(lambda n: tmp_path / f"{name}{n}", [], 1, 1)
        return write_parquet(given, schema, where)

    found, again = written("a", []), written("b", [7, GROUP_ROWS, GROUP_ROWS + 1])

    assert [each.rows for each in found] == [GROUP_ROWS, GROUP_ROWS, 5]
    assert [each.path.read_bytes() for each in again] == [each.path.read_bytes() for each in found]
    read = pa.concat_tables(pq.read_table(each.path) for each in found)
    assert read.column("n").to_pylist() == list(range(count))


def test_sums_of_text_have_all_digits():
    sums = Sums(["n", "none"])
    digits = "0." + "3" * 40
    table = pa.table({"n": [digits, None, "1"], "none": pa.array([None] * 3, pa.string())})
    for batch in table.to_batches():
        sums.add(batch)

    assert sums.totals == {"n": Decimal("1." + "3" * 40), "none": None}
