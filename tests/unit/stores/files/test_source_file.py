"""Files as bytes: their hash, their format by name, and decompression that checks to the end."""

import contextlib
import gzip
import hashlib
import io
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.errors import Unavailable, UnreadableSource
from meterlake.model.measurements.columns import COLUMNS_MAX
from meterlake.settings import Settings
from meterlake.stores.files.folders import file_name
from meterlake.stores.files.source_file import (
    Budget,
    Position,
    batches,
    chunks,
    digest,
    parquet_types,
    recognize_format,
)

# For files of which nothing is refused.
ANY = Budget(8 << 20, 1 << 30, 1 << 30, 1)
DATA = b"".join(b"%d,line\n" % n for n in range(3000))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("source") / "file"


def read(path: Path, data: bytes, compression=None, chunk=1000, limit=1 << 30) -> bytes:
    path.write_bytes(data)
    return b"".join(chunks(path, "f", compression, chunk, replace(ANY, limit_bytes=limit)))


def test_the_digest_is_that_of_the_bytes(path):
    path.write_bytes(DATA)

    assert digest(path) == (hashlib.sha256(DATA).hexdigest(), len(DATA))


def zipped(data: bytes) -> bytes:
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.csv", data)
    return found.getvalue()


@pytest.mark.parametrize(
    ("compression", "pack"),
    [
        (None, bytes),
        ("gzip", gzip.compress),
        ("zstd", zstandard.compress),
        ("zip", zipped),
    ],
)
def test_it_is_known_how_far_a_file_is_read_in_its_own_bytes(path, compression, pack):
    path.write_bytes(pack(os.urandom(1 << 20)))
    position = Position()

    pieces = chunks(path, "f", compression, 1 << 17, ANY, position)
    seen = [position.bytes / path.stat().st_size for _ in pieces]

    assert seen == sorted(seen)
    assert 0 < seen[0] < 0.4 < seen[4] < 0.95 < seen[-1] <= 1


def test_parquet_is_read_as_far_as_its_rows(path):
    pq.write_table(pa.table({"a": list(range(100_000))}), path)
    position = Position()
    budget = Budget(batch_bytes=8 << 20, limit_bytes=1 << 30, limit_rows=100_000, size_bytes=1000)

    seen = [position.bytes for _ in batches(path, "f", ["a"], position, budget)]

    assert seen == [655, 1000]


def test_a_file_may_be_as_much_work_as_its_size_allows():
    """As the page on formats says."""
    found = Budget.of(1_000, Settings(_env_file=None))

    assert found.limit_rows == 100_000 + 2 * 1_000
    assert found.limit_bytes == (64 << 20) + 500 * 1_000
    assert Budget.of(1 << 40, Settings(_env_file=None)).limit_bytes == 64 << 30


def test_a_file_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(Unavailable):
        digest(tmp_path / "nothing")
    with pytest.raises(Unavailable):
        list(chunks(tmp_path / "nothing", "f", None, 10, ANY))


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a.csv", "csv"),
        ("a.b.CSV.GZ", "csv.gzip"),
        ("a.jsonl.zst", "ndjson.zstd"),
        ("a.ndjson.gzip", "ndjson.gzip"),
        ("a.json.zstd", "json.zstd"),
        ("a.parquet", "parquet"),
        (".csv", None),
        ("csv", None),
        ("a.txt", None),
        ("a.csv.gz.gz", None),
        ("a.gz", None),
        ("", None),
    ],
)
def test_the_name_tells_the_format(path, name, shown):
    path.write_bytes(gzip.compress(b"nothing known"))
    if shown is None:
        with pytest.raises(UnreadableSource) as caught:
            recognize_format(path, name, None)
        assert caught.value.reason == "UnknownFormat"
    else:
        assert str(recognize_format(path, name, None)) == shown


def test_a_name_that_is_no_text_becomes_one():
    assert file_name(Path(os.fsdecode(b"a\xff\xfe\xc3.csv"))) == "a???.csv"
    assert file_name(Path("grün.csv")) == "grün.csv"


def test_chunks_hold_no_more_than_they_may(path):
    path.write_bytes(gzip.compress(DATA))

    assert max(map(len, chunks(path, "f", "gzip", 777, ANY))) <= 777


COMPRESS = {
    "gzip": lambda data: gzip.compress(data, mtime=0),
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
}


@pytest.mark.parametrize("kind", COMPRESS)
def test_several_members_are_one_file(path, kind):
    data = b"".join(COMPRESS[kind](part) for part in (DATA[:5], b"", DATA[5:9000], DATA[9000:]))

    assert read(path, data, kind) == DATA


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(sorted(COMPRESS)), cut=st.integers(0, 10**6))
def test_a_file_that_was_cut_anywhere_is_damaged(path, kind, cut):
    whole = COMPRESS[kind](DATA)

    with pytest.raises(UnreadableSource) as caught:
        read(path, whole[: cut % len(whole)], kind)

    assert caught.value.reason == "DamagedCompression"


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(sorted(COMPRESS)), cut=st.integers(1, 10**6))
def test_a_second_member_that_was_cut_anywhere_is_damaged(path, kind, cut):
    whole = COMPRESS[kind](DATA)

    with pytest.raises(UnreadableSource):
        read(path, whole + whole[: 1 + cut % (len(whole) - 1)], kind)


@settings(max_examples=120, deadline=None)
@given(kind=st.sampled_from(sorted(COMPRESS)), place=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_a_flipped_bit_is_noticed_or_changes_nothing(path, kind, place, bit):
    broken = bytearray(COMPRESS[kind](DATA))
    broken[place % len(broken)] ^= 1 << bit

    outcome = DATA
    with contextlib.suppress(UnreadableSource):
        outcome = read(path, bytes(broken), kind)
    # Refused, or a bit of the header that means nothing.
    assert outcome == DATA


@pytest.mark.parametrize("kind", COMPRESS)
@pytest.mark.parametrize(
    "junk", [b"x", b"\n", b"\x00", b"junk that is longer than any header may be"]
)
def test_what_follows_the_last_member_is_damage(path, kind, junk):
    with pytest.raises(UnreadableSource) as caught:
        read(path, COMPRESS[kind](DATA) + junk, kind)

    assert caught.value.reason == "DamagedCompression"


@pytest.mark.parametrize("kind", [None, *COMPRESS])
def test_a_file_that_holds_too_much_is_stopped(path, kind):
    data = COMPRESS[kind](DATA) if kind else DATA

    assert len(read(path, data, kind, limit=len(DATA))) == len(DATA)
    with pytest.raises(UnreadableSource) as caught:
        read(path, data, kind, limit=len(DATA) - 1)
    assert caught.value.reason == "TooLarge"


def test_a_parquet_file_has_a_limited_number_of_columns_and_each_name_once(path):
    def refused(fields) -> str:
        pq.write_table(pa.schema(fields).empty_table(), path)
        with pytest.raises(UnreadableSource) as caught:
            parquet_types(path, "f")
        return caught.value.reason

    inner = [(f"c{each}", pa.int8()) for each in range(COLUMNS_MAX)]

    assert refused([("measure", pa.struct(inner)), ("ts", pa.string())]) == "TooManyColumns"
    assert (
        refused([("a.b", pa.string()), ("a", pa.struct([("b", pa.int8())]))]) == "DuplicateColumn"
    )
    pq.write_table(pa.schema(inner).empty_table(), path)
    assert len(parquet_types(path, "f")) == COLUMNS_MAX
