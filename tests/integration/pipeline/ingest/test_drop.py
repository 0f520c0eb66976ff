"""The drop folder: what is taken, what is left alone, where it ends up."""

import json
import os
import time
from datetime import timedelta

import pytest

from meterlake.model.errors import Busy, UnreadableMapping
from meterlake.pipeline.ingest.drop import ingest_inbox, watch
from meterlake.pipeline.ingest.drop_folder import left_alone, resting_files
from meterlake.worker.rounds import DROPS
from tests.homes import HEADER, a_home, csv_row, gz
from tests.rounds import go_round

GOOD = HEADER + csv_row("u1") + csv_row("u2", "x")


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as home:
        yield home


def archived(folder):
    return sorted(path.name for claim in folder.iterdir() for path in claim.iterdir())


def reports(folder):
    found = [json.loads(path.read_bytes()) for path in folder.glob("*/*.report.json")]
    return sorted(found, key=lambda report: report["receivedAt"])


def test_a_file_goes_to_done_with_its_report_beside_it(home):
    home.drop("a.csv", GOOD)

    (receipt,) = home.work()

    assert archived(home.folder.done) == ["a.csv", "a.csv.report.json"]
    assert list(home.folder.inbox.iterdir()) == list(home.folder.claimed.iterdir()) == []
    (report,) = reports(home.folder.done)
    assert (report["received"], report["accepted"], report["repeats"], report["rejected"]) == (
        2,
        1,
        0,
        1,
    )
    assert report["reasons"] == {"InvalidNumber": 1}
    assert report["rejectedSample"] == [
        {
            "row": 3,
            "reason": "InvalidNumber",
            "field": "measure.gb",
            "meter": "egress",
            "uid": "u2",
            "detail": "'x' is no number such as 12.5, with at most 26 digits before the point",
            "original": csv_row("u2", "x").rstrip(),
        }
    ]
    assert report["snapshot"] == receipt.snapshot == home.organization.lake.snapshot()


def test_a_file_that_cannot_be_read_goes_to_failed_with_the_reason(home):
    home.drop("a.csv.gz", gz(GOOD.encode())[:-3])

    home.work()

    assert archived(home.folder.failed) == ["a.csv.gz", "a.csv.gz.report.json"]
    assert reports(home.folder.failed)[0]["reason"] == "DamagedCompression"
    assert list(home.folder.done.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [".a.csv", "a.csv.part", "a.csv.tmp", "a.csv.filepart", "a.csv.crdownload", "a.csv.partial"],
)
def test_an_unfinished_file_is_left_alone(home, name):
    path = home.drop(name, GOOD)

    assert home.work() == []
    assert path.exists()


def test_folders_and_pipes_in_the_inbox_are_left_alone(home):
    (home.folder.inbox / "folder.csv").mkdir()
    os.mkfifo(home.folder.inbox / "pipe.csv")

    home.drop(".hidden", GOOD)
    home.drop("a.csv.part", GOOD)
    (home.folder.inbox / "nowhere").symlink_to("nothing")

    assert home.work() == []
    assert left_alone(home.folder.inbox) == ["folder.csv", "nowhere", "pipe.csv"]


def test_what_is_left_alone_is_logged_once_by_the_worker(home, caplog):
    (home.folder.inbox / "folder.csv").mkdir()
    rounds = iter([False, False, True, True])

    with caplog.at_level("WARNING", "meterlake.worker"):
        go_round(DROPS, home.stores, lambda: next(rounds, True), 0)

    [message] = [record.message for record in caplog.records]
    assert "folder.csv is left alone" in message


def test_a_file_that_still_grows_is_taken_when_it_has_rested(home):
    path = home.drop("a.csv", GOOD)
    now = time.time()

    for age, taken in ((0, []), (1, []), (3, [path])):
        os.utime(path, (now - age, now - age))
        assert resting_files(home.folder.inbox, 2) == taken


def test_a_file_from_the_future_does_not_wait_for_it(home):
    path = home.drop("a.csv", GOOD)
    os.utime(path, (time.time() + 3600,) * 2)

    assert resting_files(home.folder.inbox, 2) == [path]


@pytest.mark.long
def test_files_are_taken_oldest_first(home):
    for place, name in enumerate(["c.csv", "a.csv", "b.csv"]):
        os.utime(home.drop(name, HEADER + csv_row(name)), (1e9 + place,) * 2)

    assert [receipt.delivery.name for receipt in home.work()] == ["c.csv", "a.csv", "b.csv"]


@pytest.mark.long
def test_the_same_bytes_under_two_names_add_nothing(home):
    home.drop("a.csv", GOOD)
    home.work()
    home.drop("b.csv", GOOD)

    (receipt,) = home.work()

    assert (receipt.accepted, receipt.repeats, receipt.rejected) == (0, 1, 1)
    home.check()


@pytest.mark.long
def test_the_same_name_twice_harms_nothing(home):
    for uid in ("u1", "u2"):
        home.drop("a.csv", HEADER + csv_row(uid))
        home.work()

    assert archived(home.folder.done) == [
        "a.csv",
        "a.csv",
        "a.csv.report.json",
        "a.csv.report.json",
    ]
    assert len(home.measurements()) == 2


@pytest.mark.long
def test_a_file_dropped_again_later_is_judged_by_its_new_receipt(home):
    early = HEADER + csv_row("u1", ts="2026-10-01T01:00:00Z")
    home.drop("a.csv", early)
    assert home.work()[0].reasons == {"FutureTimestamp": 1}

    home.clock.advance(hours=1)
    home.drop("a.csv", early)

    assert home.work()[0].accepted == 1


def test_what_a_dead_process_left_claimed_is_finished_first(home):
    claim = home.folder.claimed / "20260930T000000.000000Z-0123456789ab"
    claim.mkdir()
    (claim / "old.csv").write_text(HEADER + csv_row("u0"))
    (home.folder.claimed / "20260930T000001.000000Z-0123456789ab").mkdir()
    home.drop("new.csv", HEADER + csv_row("u1"))

    old, new = home.work()

    assert (old.delivery.name, new.delivery.name) == ("old.csv", "new.csv")
    assert old.delivery.received_at == home.clock() - timedelta(days=1)
    assert list(home.folder.claimed.iterdir()) == []


@pytest.mark.long
def test_what_a_dead_process_left_of_its_report_is_swept_up(home):
    claim = home.folder.claimed / "20260930T000000.000000Z-0123456789ab"
    claim.mkdir()
    (claim / "a.csv").write_text(GOOD)
    (claim / "a.csv.report.json").write_text("{")
    (claim / ".a.csv.report.json.xyz.part").write_text("{")

    home.work()

    assert archived(home.folder.done) == ["a.csv", "a.csv.report.json"]
    assert reports(home.folder.done)[0]["accepted"] == 1


def test_what_nobody_claimed_is_left_where_it_lies(home):
    (home.folder.claimed / "notes").mkdir()
    (home.folder.claimed / "readme.txt").write_text("hello")

    assert home.work() == []
    assert sorted(path.name for path in home.folder.claimed.iterdir()) == ["notes", "readme.txt"]


@pytest.mark.parametrize(
    "name",
    [
        "a b.csv",
        "grün-ü.csv",
        "a'\"; DROP TABLE source; --.csv",
        "a\nb.csv",
        "n" * 251 + ".csv",
        "ü" * 125 + ".csv",
        "x.csv.report.json.csv",
        "%s{0}.csv",
    ],
)
def test_any_file_name_works(home, name):
    home.drop(name, GOOD)

    (receipt,) = home.work()

    assert (receipt.delivery.name, receipt.accepted) == (name, 1)
    assert [
        path.name for path in home.folder.done.glob("*/*") if not path.name.endswith(".report.json")
    ] == [name]
    assert reports(home.folder.done)[0]["name"] == name


@pytest.mark.long
def test_a_file_name_that_is_no_text_works(home):
    (home.folder.inbox / os.fsdecode(b"a\xff.csv")).write_text(GOOD)

    (receipt,) = home.work()

    assert (receipt.delivery.name, receipt.accepted) == ("a?.csv", 1)
    assert home.ledger()[0][0] == "a?.csv"


def test_a_report_that_was_dropped_is_a_file_like_any_other(home):
    home.drop("x.report.json", "[]")

    assert home.work()[0].received == 0
    assert archived(home.folder.done) == ["x.report.json", "x.report.json.report.json"]


@pytest.mark.long
def test_a_broken_mapping_stops_the_work_before_a_file_is_claimed(home):
    (home.folder.mappings / "m.yaml").write_text("nonsense: 1")
    path = home.drop("a.csv", GOOD)

    with pytest.raises(UnreadableMapping):
        home.work()

    assert path.exists()
    (home.folder.mappings / "m.yaml").unlink()
    assert home.work()[0].accepted == 1


@pytest.mark.long
def test_a_second_worker_is_told_that_the_folder_is_busy(home):
    for name in ("a.csv", "b.csv"):
        home.drop(name, HEADER + csv_row(name))
    first = ingest_inbox(home.organization, home.folder, 0)
    next(first)

    with pytest.raises(Busy):
        home.work()

    assert len(list(first)) == 1
    assert home.work() == []


@pytest.mark.long
def test_watching_goes_on_until_it_is_stopped(home):
    home.drop("a.csv", GOOD)
    receipts = []

    for receipt in watch(home.organization, home.folder, lambda: len(receipts) == 2, 0.01):
        receipts.append(receipt)
        if len(receipts) == 1:
            home.drop("b.csv", HEADER + csv_row("b"))  # Of a later look.

    assert [receipt.accepted for receipt in receipts] == [1, 1]


def test_watching_stops_between_two_files(home):
    for name in ("a.csv", "b.csv", "c.csv"):
        home.drop(name, HEADER + csv_row(name))
    done = []

    watching = watch(home.organization, home.folder, lambda: bool(done), 0.01)
    done.extend(receipt.delivery.name for receipt in watching)

    assert done == ["a.csv"]
    assert sorted(path.name for path in home.folder.inbox.iterdir()) == ["b.csv", "c.csv"]
    assert list(home.folder.claimed.iterdir()) == []


@pytest.mark.long
def test_progress_counts_every_measurement(home):
    home.drop("a.csv", GOOD)
    told = []

    list(ingest_inbox(home.organization, home.folder, 0, lambda *each: told.append(each)))

    assert told == [(2, len(GOOD), len(GOOD))]


def test_a_link_leads_nowhere(home, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text(GOOD)
    (home.folder.inbox / "link.csv").symlink_to(secret)
    claim = home.folder.claimed / "20261001T000000.000000Z-0123456789ab"
    claim.mkdir()
    (claim / "swapped.csv").symlink_to(secret)  # Behind the back of whoever claimed it.

    assert home.work() == []

    assert home.uids() == []
    assert secret.read_text() == GOOD
    assert [path.name for path in home.folder.inbox.iterdir()] == ["link.csv"]
    assert list(home.folder.claimed.iterdir()) == []
