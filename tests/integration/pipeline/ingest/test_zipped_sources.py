"""Zip files that hold what they should not, through every door that files come in by.

Each is refused whole and with its reason, what stands beside it comes in, the file itself is kept,
and nothing is ever written where a name in it says.
"""

import io
import struct
import zipfile
from pathlib import Path

import pytest

from meterlake.pipeline.ingest import uploads
from meterlake.pipeline.ingest.files import ingest_files
from meterlake.pipeline.ingest.receiving import receiving
from tests.homes import HEADER, a_home, csv_row

SOURCE_BYTES = 1 << 20
DOORS = ("named", "dropped", "sent")
EVIL = "outside"
ROWS = (HEADER + csv_row("evil")).encode()


def zipped(*files):
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files:
            archive.writestr(name, data)
    return target.getvalue()


def link(target):
    """A link as `zip --symlinks` packs it: its content is where it leads."""
    entry = zipfile.ZipInfo(f"{EVIL}.csv")
    entry.create_system, entry.external_attr = 3, 0o120777 << 16
    return zipped((entry, target))


def encrypted():
    data = bytearray(zipped((f"{EVIL}.csv", ROWS)))
    for signature, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + place] |= 1
    return bytes(data)


def of_100_000():
    """Its directory says 100,000 times that it holds the same file, without being written by hand."""
    one = zipped((f"{EVIL}.csv", ROWS))
    at, end = one.index(b"PK\x01\x02"), one.index(b"PK\x05\x06")
    directory = one[at:end] * 100_000
    record = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, len(directory), at, 0)
    return one[:at] + directory + record


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("zipped")


def bad_files(folder):
    """Files and what their refusal says, by door; `unit/stores/files/test_zip_file.py` has more of them."""
    inner = zipped((f"{EVIL}.csv", ROWS))
    behind = zipped(("a.csv", ROWS)) + zipped(("b.csv", ROWS))
    return {
        "named": {
            "absolute": (zipped((f"{folder}/{EVIL}.csv", ROWS)), "leads out of it"),
            "nested": (zipped(("a.zip", inner)), "compressed itself"),
            "twice": (zipped(("a", ROWS), ("./a", ROWS)), "2 files, not one: 'a', './a'"),
            "two_in_one": (behind, "in front of the zip file or behind it"),
        },
        "dropped": {
            "above": (zipped((f"../../../{EVIL}.csv", ROWS)), f"'../../../{EVIL}.csv'"),
            "many": (of_100_000(), "its directory is for many files"),
            "large": (zipped(("a.csv", ROWS + b"\n" * SOURCE_BYTES)), f"than {SOURCE_BYTES}"),
            "nested": (zipped(("a", inner)), "compressed itself"),
        },
        "sent": {
            "above": (zipped((f"../{EVIL}.csv", ROWS)), f"'../{EVIL}.csv'"),
            "link": (link("/etc/passwd"), "is a link or the like"),
            "encrypted": (encrypted(), "is encrypted"),
            "rows_behind": (zipped(("a.csv", ROWS)) + ROWS, "in front of the zip file or behind"),
        },
    }


def sent_up(home, name, data):
    announced = {"fileName": name, "contentType": "application/zip", "contentLength": len(data)}
    made = uploads.announce(home.organization, "somebody", announced, "http://here")
    headers = {key.lower(): value for key, value in made["headers"].items()}
    with receiving(home.stores, made["url"].rpartition("/")[2], headers) as file:
        file.write(data)
        file.finish()


def by_door(home, door, files, folder):
    """The receipts of some files."""
    match door:
        case "named":
            for name, data in files.items():
                (folder / name).write_bytes(data)
            organization = home.stores.find_organization(home.org_id)
            paths = [folder / name for name in files]
            return list(ingest_files(organization, paths))
        case "dropped":
            for name, data in files.items():
                home.drop(name, data)
            return home.work()
        case _:
            for name, data in files.items():
                sent_up(home, name, data)
            return list(uploads.ingest_uploads(home.organization))


@pytest.fixture(scope="module")
def home(folder, every_lake):  # noqa: ARG001
    with a_home(folder, source_bytes=SOURCE_BYTES) as home:
        yield home


@pytest.mark.parametrize("door", DOORS)
def test_a_zip_file_of_anything_but_one_plain_file_is_refused_and_kept(home, folder, door):
    bad = {f"{name}.zip": each for name, each in bad_files(folder)[door].items()}
    good = zipped((f"{door}/a.csv", (HEADER + csv_row(door)).encode()))
    files = {name: data for name, (data, _) in bad.items()} | {f"{door}.zip": good}
    lying = set(lying_files(home))

    found = {receipt.delivery.name: receipt for receipt in by_door(home, door, files, folder)}

    assert found.keys() == files.keys()
    kept = found.pop(f"{door}.zip")
    assert (kept.status, kept.accepted) == ("done", 1), kept.detail
    for name, receipt in found.items():
        reason = "TooLarge" if name == "large.zip" else "DamagedCompression"
        assert (receipt.status, receipt.reason) == ("failed", reason)
        assert bad[name][1] in receipt.detail
    assert "evil" not in {uid for uid, *_ in home.uids()}
    home.check()
    if door != "named":
        assert len(set(lying_files(home)) - lying) == len(files), "each is kept where it came in"
    assert not list(folder.rglob(f"*{EVIL}*"))
    assert not list(Path.cwd().parent.glob(f"*{EVIL}*")) + list(Path.cwd().glob(f"*{EVIL}*"))


def lying_files(home):
    """What came in by the drop folder or as an upload, wherever it lies now."""
    return [*home.folder.root.glob("*/*/*.zip"), *home.stores.home.glob("objects/uploads/*/*")]
