"""A power cut in the middle of a write tears the tail of a write-ahead log: only that write is lost.

SQLite checks every frame of its log. Of State and of a lake's catalog, bytes at the end of the log
are cut off or overwritten; what was committed before stands, and ingest goes on as if the last
commit had not been.
"""

import shutil

import pytest

from meterlake.stores import open_stores
from tests.homes import HEADER, Home, configure, csv_row, new_home, settings
from tests.organizations import Clock

FRAME = 4096 + 24


@pytest.fixture(scope="module")
def cut_home(tmp_path_factory):
    """A home copied while it is open, so that both logs are as large as they get."""
    folder = tmp_path_factory.mktemp("torn")
    org_id = new_home(folder / "home")
    with open_stores(settings(folder / "home")) as stores:
        organization = stores.organization(org_id)
        home = Home(stores, org_id, Clock())
        reader = organization.lake.connect()
        for name in ("first", "second"):
            account = {"code": name, "name": name, "emailAddress": f"{name}@x.example"}
            configure(organization, accounts=[account])
            home.ingest(
                f"{name}.csv", HEADER + "".join(csv_row(f"{name}-{n}", n) for n in range(5))
            )
            # Who reads an old snapshot keeps SQLite from emptying the log of the catalog.
            if name == "first":
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM lake.source").fetchall()
        shutil.copytree(folder / "home", folder / "cut")
        reader.close()
    return folder / "cut", org_id


def log_of(home, org_id, name):
    return {
        "state.sqlite-wal": home / "state.sqlite-wal",
        "catalog.sqlite-wal": home / "lakes" / org_id / "catalog.sqlite-wal",
    }[name]


def torn(path, how):
    data = path.read_bytes()
    assert len(data) > FRAME, "there is nothing to tear"
    broken = {
        "cut in a frame": data[: -FRAME // 2],
        "cut by one byte": data[:-1],
        "last frame is zeros": data[:-FRAME] + bytes(FRAME),
        "last frame is old bytes": data[:-FRAME] + data[32 : 32 + FRAME],
        "garbage behind": data + b"\xff" * 777,
        "all but the head": data[:32],
    }[how]
    path.write_bytes(broken)


@pytest.mark.long
@pytest.mark.parametrize("name", ["state.sqlite-wal", "catalog.sqlite-wal"])
@pytest.mark.parametrize(
    "how",
    [
        *("cut in a frame", "last frame is old bytes", "all but the head"),
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("cut by one byte", "last frame is zeros", "garbage behind")
        ),
    ],
)
def test_what_was_committed_before_a_torn_write_stands(cut_home, tmp_path, name, how):
    source, org_id = cut_home
    folder = tmp_path / "home"
    shutil.copytree(source, folder)
    torn(log_of(folder, org_id, name), how)

    with open_stores(settings(folder)) as stores:
        home = Home(stores, org_id, Clock())
        uids = {dict(fields)["uid"] for _, fields in home.measurements()}
        ledger = {row for (row,) in home.query("SELECT name FROM lake.source")}
        # Measurements and ledger are of one commit: both are there, or neither.
        for each in ("first", "second"):
            there = {uid for uid in uids if uid.startswith(each)}
            assert len(there) == (5 if f"{each}.csv" in ledger else 0)
        for each in ("first", "second"):
            rows = "".join(csv_row(f"{each}-{n}", n) for n in range(5))
            receipt = home.ingest(f"{each}.csv", HEADER + rows)
            assert receipt.accepted + receipt.repeats == 5
        after = home.ingest("after.csv", HEADER + csv_row("after", 1))

        assert len(home.measurements()) == 11
    assert after.accepted == 1
    if how == "garbage behind":
        assert ledger >= {"first.csv", "second.csv"}
