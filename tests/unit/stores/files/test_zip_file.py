"""Zip files of one file, and formats that the first bytes tell."""

import contextlib
import gzip
import io
import stat
import struct
import zipfile

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.errors import Unavailable, UnreadableSource
from meterlake.stores.files.source_file import Budget, chunks, recognize_format

CSV = b"meter,account,ts\n" + b"a,b,2026-10-01T00:00:00Z\n" * 500
LIMIT = 1 << 20


def zipped(*files, method=zipfile.ZIP_DEFLATED):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", method) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return target.getvalue()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("zip") / "file"


def read(path, data, limit=LIMIT):
    path.write_bytes(data)
    return b"".join(chunks(path, "f.zip", "zip", 1000, Budget(1000, limit, 1 << 30, 1)))


def refused(path, data, **more):
    with pytest.raises(UnreadableSource) as caught:
        read(path, data, **more)
    return caught.value.reason, caught.value.detail


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_the_one_file_is_read(path, method):
    assert read(path, zipped(("a.csv", CSV), method=method)) == CSV
    assert read(path, zipped(("folder/", b""), ("folder/a.csv", CSV), method=method)) == CSV


def test_what_finder_adds_is_no_second_file(path):
    assert read(path, zipped(("a.csv", CSV), ("__MACOSX/._a.csv", b"x"))) == CSV


def test_a_zip_file_holds_exactly_one_file(path):
    assert refused(path, zipped())[1] == "the zip file holds 0 files, not one; zip each alone"
    assert (
        refused(path, zipped(("a/", b"")))[1]
        == "the zip file holds 0 files, not one; zip each alone"
    )
    two = zipped(("a.csv", CSV), ("b.csv", CSV))
    says = "the zip file holds 2 files, not one: 'a.csv', 'b.csv'; zip each alone"
    assert refused(path, two) == ("DamagedCompression", says)


def entry(name, mode):
    """As Unix packs it: with the kind of file that it is."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


@pytest.mark.parametrize(
    "name", ["../a.csv", "b/../../a.csv", "/a.csv", "..\\a.csv", "\\a.csv", "C:\\a.csv", "C:a.csv"]
)
def test_a_path_that_leads_out_of_the_zip_file_is_refused(path, name):
    reason, detail = refused(path, zipped((name, CSV)))

    assert reason == "DamagedCompression"
    assert (
        detail
        == f"the path {name!r} in the zip file leads out of it; zip the file by its name alone"
    )


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_only_a_plain_file_is_read(path, mode):
    assert (
        "'a.csv' in the zip file is a link" in refused(path, zipped((entry("a.csv", mode), CSV)))[1]
    )
    assert read(path, zipped((entry("a.csv", stat.S_IFREG | 0o644), CSV))) == CSV
    assert read(path, zipped((entry("./b..c/a.csv", 0), CSV))) == CSV


@pytest.mark.parametrize(
    "other", ["a.csv", "b/", "__MACOSX/b.csv", "._b.csv"], ids=["same", "folder", "beside", "name"]
)
@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_rows_in_a_second_file_are_never_passed_over(path, other):
    assert "2 files" in refused(path, zipped(("a.csv", CSV), (other, CSV)))[1]


def test_rows_in_front_of_a_zip_file_or_behind_it_are_never_passed_over(path):
    one, other = zipped(("a.csv", CSV)), zipped(("b.csv", CSV))
    for data in (one + other, CSV + one, one + CSV, one + b"\0", zipped() + one):
        assert "in front of the zip file or behind it" in refused(path, data)[1]


def test_a_comment_is_nothing_behind_a_zip_file(path):
    target = io.BytesIO(zipped(("a.csv", CSV)))
    with zipfile.ZipFile(target, "a") as archive:
        archive.comment = b"made by hand"

    assert read(path, target.getvalue()) == CSV


def test_a_directory_of_very_many_files_is_not_read(path):
    many = zipped(*((f"{number:0200}", b"") for number in range(5000)))

    assert "directory" in refused(path, many)[1]


def test_an_encrypted_file_is_refused(path):
    data = bytearray(zipped(("a.csv", CSV)))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(signature) + place
        (flags,) = struct.unpack_from("<H", data, at)
        struct.pack_into("<H", data, at, flags | 1)

    assert refused(path, bytes(data))[1] == "the zip file is encrypted; send it without a password"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_only_deflate_is_unpacked(path, method):
    assert "deflate" in refused(path, zipped(("a.csv", CSV), method=method))[1]


def test_a_bomb_stops_at_the_limit(path):
    bomb = zipped(("a.csv", bytes(50 << 20)))

    assert len(bomb) < 100_000
    assert refused(path, bomb)[0] == "TooLarge"


@given(data=st.data())
@settings(max_examples=200)
def test_no_damage_goes_unnoticed_or_is_our_fault(path, data):
    whole = zipped(("a.csv", CSV))
    at = data.draw(st.integers(0, len(whole) - 1))
    broken = bytearray(whole)
    broken[at] ^= data.draw(st.integers(1, 255))
    for each in (bytes(broken), whole[:at]):
        with contextlib.suppress(UnreadableSource):
            assert read(path, each) == CSV  # Names, times and comments matter to nobody.


def test_a_zip_file_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(Unavailable):
        list(chunks(tmp_path / "none", "f.zip", "zip", 10, Budget(10, 10, 10, 10)))


JSON, LINES = b' [ {"meter": "a"} ]', b'\n{"meter": "a"}\n'
FORMATS = [
    ("x.csv", JSON, "csv"),
    ("x", CSV, "csv"),
    ("x.txt", b"\xef\xbb\xbf" + CSV, "csv"),
    ("x", JSON, "json"),
    ("x.dat", LINES, "ndjson"),
    ("x", b"PAR1....", "parquet"),
    ("x.gz", gzip.compress(JSON), "json.gzip"),
    ("x", gzip.compress(CSV), "csv.gzip"),
    ("x", zstandard.compress(LINES), "ndjson.zstd"),
    ("x.zip", zipped(("a.csv", CSV)), "csv.zip"),
    ("x", zipped(("a.ndjson", LINES)), "ndjson.zip"),
    ("x.csv.zip", zipped(("a", CSV)), "csv.zip"),
    ("x.csv.zip", zipped(("a.json", JSON)), "json.zip"),
    ("x.zip", zipped(("a", JSON)), "json.zip"),
]


@pytest.mark.parametrize(("name", "data", "found"), FORMATS)
def test_what_the_name_leaves_open_the_first_bytes_say(path, name, data, found):
    path.write_bytes(data)

    assert str(recognize_format(path, name, None)) == found


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("x", b"", "UnknownFormat"),
        ("x.bin", b"just words", "UnknownFormat"),
        ("x", b"a,b\x00\n", "UnknownFormat"),
        ("x", b"\xff\xfea\x00,\x00", "UnknownFormat"),
        ("x.zip", CSV, "DamagedCompression"),
        ("x.zip", zipped(("a.csv", CSV), ("b.csv", CSV)), "DamagedCompression"),
        ("x.zip", zipped(("a.csv.gz", gzip.compress(CSV))), "DamagedCompression"),
        ("x.zip", zipped(("a.zip", zipped(("b.csv", CSV)))), "DamagedCompression"),
        ("x.zip", zipped(("a", zipped(("b.csv", CSV)))), "DamagedCompression"),
        ("x.gz", gzip.compress(gzip.compress(CSV)), "DamagedCompression"),
        ("x", gzip.compress(b"just words"), "UnknownFormat"),
        ("x", gzip.compress(CSV)[:30], "DamagedCompression"),
    ],
)
def test_what_nothing_tells_is_refused(path, name, data, reason):
    path.write_bytes(data)
    with pytest.raises(UnreadableSource) as caught:
        recognize_format(path, name, None)

    assert caught.value.reason == reason
