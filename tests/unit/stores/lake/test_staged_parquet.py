"""Measurements on their way into the lake: one file per partition, in bounded memory."""

from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.errors import Unavailable
from meterlake.stores.lake import staged_parquet
from meterlake.stores.lake.staged_parquet import StagedFiles


def frame(*instants: datetime) -> pl.DataFrame:
    return pl.DataFrame(
        {"ts": instants, "n": range(len(instants))}, schema={"ts": pl.Datetime("us"), "n": pl.Int64}
    )


def test_rows_go_to_the_file_of_their_month(tmp_path):
    files = StagedFiles(tmp_path)
    edge = datetime(2026, 9, 30, 23, 59, 59, 999999)
    files.write_by_month("m", frame(edge, datetime(2026, 10, 1), datetime(2026, 10, 31)))
    files.write_by_month("m", frame(datetime(2026, 10, 2), datetime(1, 1, 1)))

    found = {file.partition: file for file in files.close()}

    assert {partition: file.rows for partition, file in found.items()} == {
        "year=2026/month=9": 1,
        "year=2026/month=10": 3,
        "year=1/month=1": 1,
    }
    for file in found.values():
        assert pq.read_metadata(file.path).num_rows == file.rows
    assert pl.read_parquet(found["year=2026/month=9"].path, hive_partitioning=False)[
        "ts"
    ].to_list() == [edge]


def test_nothing_written_is_no_file(tmp_path):
    files = StagedFiles(tmp_path)
    files.write("t", frame())

    assert [file.rows for file in files.close() if file.rows] == []


@pytest.mark.long
def test_many_months_keep_few_files_open(tmp_path):
    files = StagedFiles(tmp_path)
    months = [(1900 + n // 12, n % 12 + 1) for n in range(240)]
    for _ in range(2):
        for year, month in months:
            at = pl.Series("ts", [datetime(year, month, 1)]).cast(pl.Datetime("us"))
            files.write_by_month("m", at.new_from_index(0, 3000).to_frame())

    open_files = len(list((tmp_path / "/proc/self/fd").iterdir()))
    found = files.close()

    assert open_files < 200
    assert sum(file.rows for file in found) == 2 * 240 * 3000
    assert len({file.partition for file in found}) == 240
    assert len({file.path for file in found}) == len(found)
    assert all(pq.read_metadata(file.path).num_rows == file.rows for file in found)


@pytest.mark.long
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40)), max_size=12))
def test_every_file_that_is_not_set_aside_is_sent_once_when_it_is_finished(written):
    sent, sizes = [], []

    def send(file):
        sizes.append(pq.read_metadata(file.path).num_rows)
        sent.append(file)

    with (
        TemporaryDirectory() as folder,
        patch.object(staged_parquet, "ROW_GROUP_ROWS", 10),
        patch.object(staged_parquet, "SENT_ROWS", 30),
    ):
        files = StagedFiles(Path(folder), send=send)
        number = 0
        for aside, rows in written:
            numbers = pl.Series("n", range(number, number + rows), pl.Int64)
            files.write("t", numbers.to_frame(), aside=aside)
            number += rows
        found = files.close()
        first = [pl.read_parquet(each.path)["n"].to_list() for each in found]

    assert sizes == [each.rows for each in sent]
    assert sorted(sent) == sorted(each for each in found if "aside" not in each.path.name)
    assert sorted(n for each in first for n in each) == list(range(number))
    assert all(each == sorted(each) for each in first)
    # All but the last one of a kind are long, and none waits for much more.
    long = [each.rows for each in sent][:-1]
    assert all(30 <= rows <= 30 + 10 + 40 for rows in long)


def test_a_folder_that_is_gone_is_unavailable(tmp_path):
    (tmp_path / "file").write_text("")
    files = StagedFiles(tmp_path / "file")
    files.write("t", frame(datetime(2026, 1, 1)))

    with pytest.raises(Unavailable):
        files.close()
