"""Bucket inboxes: every object once, whatever lists, fails, or is replaced on the way."""

import json
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import boto3
import pytest

from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.values import failpoint
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.ingest.inbox import Poll, add_inbox, inboxes_wait, poll_inboxes
from meterlake.stores.objects import open_objects
from meterlake.stores.state.ingest.inboxes import Afterwards, ClaimStatus, Inboxes
from meterlake.stores.state.jobs import LEASES
from tests.doubles.faults import FaultyNetwork
from tests.homes import HEADER, a_home, csv_row, open_home

pytest_plugins = ["tests.doubles.fixtures"]

SLOW = pytest.mark.slow
STEPS = (
    *(
        "inbox.copied",
        pytest.param("inbox.claimed", marks=SLOW),
        pytest.param("inbox.ingested", marks=SLOW),
    ),
    *(
        pytest.param(step, marks=SLOW)
        for step in (
            *("inbox.fetched", "lake.before_commit", "lake.after_commit", "inbox.noted"),
            *("inbox.reported", "inbox.archived", "inbox.finished"),
        )
    ),
)
MAPPING = {
    "files": ["usage-*.csv"],
    "account": {"column": "who"},
    "ts": "at",
    "uid": ["id"],
    "measurements": [
        {
            "meter": "egress",
            "fields": {"measure.gb": "n"},
            "constants": {"where.region": "eu"},
        }
    ],
}


class Bucket:
    """A home with an inbox of some kind, and the place where the inbox lies."""

    def __init__(self, home, place, afterwards=Afterwards.MOVE):
        self.home, self.place = home, place
        self.objects = open_objects(place.url, home.stores.settings)
        if "://" not in place.url:
            Path(place.url, "in").mkdir(parents=True)
        self.inbox = add_inbox(home.organization, f"{place.url}/in", afterwards)

    def put(self, name, *uids, **changes):
        text = HEADER + "".join(csv_row(uid, **changes) for uid in uids)
        self.objects.put_bytes(f"in/{name}", text.encode())

    def poll(self):
        return list(poll_inboxes(self.home.organization))

    def keys(self):
        """What lies where, without the folders that are named after claims."""
        parts = [info.key.split("/") for info in self.objects.list()]
        return sorted("/".join([first, *rest[first != "in" :]]) for first, *rest in parts)

    def claims(self):
        return Inboxes(self.home.stores.state).recent(self.inbox)

    def check(self, *uids):
        assert sorted(row[0] for row in self.home.uids()) == sorted(uids)
        self.home.check()


@pytest.fixture(
    params=["local", "moto", *(pytest.param(kind, marks=SLOW) for kind in ("gs", "radosgw"))]
)
def bucket(request, new_place, tmp_path):
    place = new_place(request.param)
    with a_home(tmp_path, **place.endpoints) as home:
        yield Bucket(home, place)


@pytest.fixture
def local(new_place, tmp_path):
    with a_home(tmp_path) as home:
        yield Bucket(home, new_place("local"))


@pytest.fixture
def moto_bucket(new_place, tmp_path):
    place = new_place("moto")
    with a_home(tmp_path, s3_endpoint=place.server) as home:
        yield Bucket(home, place)


@pytest.mark.long
def test_an_object_is_ingested_and_moved_beside_its_report(bucket):
    bucket.put("2026/a.csv", "u1", "u2")
    bucket.objects.put_bytes("in/b.parquet", b"PAR1 is not all of it")

    first, second = bucket.poll()

    assert (first.delivery.name, first.accepted) == ("a.csv", 2)
    assert (second.status, second.reason) == ("failed", "DamagedFile")
    archived = ["done/a.csv", "done/a.csv.report.json"]
    assert bucket.keys() == [*archived, "failed/b.parquet", "failed/b.parquet.report.json"]
    [report] = [each.key for each in bucket.objects.list("done/") if "report" in each.key]
    assert json.loads(bucket.objects.get(report))["accepted"] == 2
    assert bucket.poll() == []
    assert not inboxes_wait(bucket.home.organization)
    bucket.check("u1", "u2")


@pytest.mark.long
def test_an_object_that_was_replaced_is_a_new_arrival(bucket):
    bucket.put("a.csv", "u1")
    bucket.poll()
    bucket.put("a.csv", "u1", "u2")

    [receipt] = bucket.poll()

    assert (receipt.accepted, receipt.repeats) == (1, 1)
    assert len(bucket.claims()) == 2
    bucket.check("u1", "u2")


@pytest.mark.long
def test_what_is_left_or_tagged_is_ingested_once(bucket):
    organization = bucket.home.organization
    ways = [Afterwards.LEAVE]
    if bucket.place.kind == "local":
        with pytest.raises(Invalid, match="files have no tags"):
            add_inbox(organization, bucket.inbox.url, Afterwards.TAG)
    else:
        ways.append(Afterwards.TAG)
    for number, way in enumerate(ways):
        assert add_inbox(organization, bucket.inbox.url, way).id == bucket.inbox.id
        bucket.put(f"{number}.csv", f"u{number}")
        assert inboxes_wait(organization)
        assert [receipt.accepted for receipt in bucket.poll()] == [1]
        assert bucket.poll() == []
        assert not inboxes_wait(organization)

    add_inbox(organization, bucket.inbox.url, Afterwards.MOVE)

    assert bucket.poll() == []  # Moved now, not ingested once more.
    assert bucket.keys()[0].startswith("done/")
    assert list(bucket.objects.list("in/")) == []


@pytest.mark.long
def test_an_object_replaced_while_it_is_fetched_is_noticed(bucket, monkeypatch):
    bucket.put("a.csv", "old")
    replaced = []

    def hook(name):
        if name == "inbox.claimed" and not replaced:
            replaced.append(name)
            bucket.put("a.csv", "new")

    monkeypatch.setattr(failpoint, "hook", hook)
    receipts = bucket.poll() + bucket.poll()

    assert [receipt.accepted for receipt in receipts] == [1]
    assert {claim.status for claim in bucket.claims()} == {ClaimStatus.GONE, ClaimStatus.DONE}
    bucket.check("new")


@pytest.mark.long
def test_an_object_replaced_after_it_was_ingested_is_not_removed(bucket, monkeypatch):
    bucket.put("a.csv", "old")
    replaced = []

    def hook(name):
        if name == "inbox.copied" and not replaced:
            replaced.append(name)
            bucket.put("a.csv", "new")

    monkeypatch.setattr(failpoint, "hook", hook)
    bucket.poll()
    bucket.poll()

    bucket.check("old", "new")
    assert bucket.keys().count("done/a.csv") == 2


@pytest.mark.long
def test_markers_and_hidden_and_unfinished_objects_are_left_alone(moto_bucket):
    objects = moto_bucket.objects
    for name in (".a.csv", "_SUCCESS", "_temporary/a.csv", ".x/a.csv", "a.csv.part", "b.tmp"):
        objects.put_bytes(f"in/{name}", b"")
    objects.put_bytes("in/old_$folder$", b"")
    client = boto3.client("s3", endpoint_url=moto_bucket.place.server, region_name="us-east-1")
    name, _, prefix = moto_bucket.place.url.removeprefix("s3://").partition("/")
    for marker in ("in/", "in/sub/"):
        client.put_object(Bucket=name, Key=f"{prefix}/{marker}", Body=b"")
    # In parts, and not finished: nobody sees it.
    client.create_multipart_upload(Bucket=name, Key=f"{prefix}/in/parts.csv")
    # A name that we cannot hold is told, and stops nothing.
    client.put_object(Bucket=name, Key=f"{prefix}/in/a//b.csv", Body=b"")
    client.close()
    objects.put_bytes("inner/a.csv", b"")
    moto_bucket.put("good.csv", "u1")

    with pytest.raises(Unavailable, match=r"a//b\.csv"):
        moto_bucket.poll()

    assert [claim.key for claim in moto_bucket.claims()] == ["in/good.csv"]
    moto_bucket.check("u1")


@pytest.mark.long
def test_a_folder_that_is_gone_is_not_an_empty_inbox(local):
    folder = Path(local.inbox.url)
    local.put("a.csv", "u1")
    folder.rename(folder.with_name("unmounted"))

    for look in (local.poll, lambda: inboxes_wait(local.home.organization)):
        with pytest.raises(Unavailable, match=f"there is no folder {folder}"):
            look()
    with pytest.raises(Invalid, match="a folder that exists"):
        add_inbox(local.home.organization, f"{folder}2", Afterwards.LEAVE)

    folder.with_name("unmounted").rename(folder)
    local.poll()
    local.check("u1")


@pytest.mark.long
def test_links_and_pipes_in_a_folder_are_told_and_stop_nothing(local, tmp_path):
    secret = tmp_path / "secret.csv"
    secret.write_text(HEADER + csv_row("u9"))
    folder = Path(local.inbox.url)
    (folder / "sub").mkdir()
    (folder / "link.csv").symlink_to(secret)
    (folder / "sub" / "up").symlink_to(folder)
    os.mkfifo(folder / "pipe.csv")
    os.mkfifo(folder / ".hidden")
    local.put("sub/good.csv", "u1")

    with pytest.raises(Unavailable) as told:
        local.poll()

    for name in ("link.csv", "pipe.csv", "sub/up"):
        assert f"{name}: a link, or no file" in str(told.value)
    assert "hidden" not in str(told.value)
    assert [claim.key for claim in local.claims()] == ["in/sub/good.csv"]
    assert not inboxes_wait(local.home.organization)
    local.check("u1")


def test_a_mapping_of_the_drop_folder_claims_objects_by_name(local):
    local.home.folder.create()
    (local.home.folder.mappings / "usage.json").write_text(json.dumps(MAPPING))
    local.objects.put_bytes("in/usage-1.csv", b"who,at,id,n\nacme,2026-09-01T00:00:00Z,u1,2\n")

    [receipt] = local.poll()

    assert (receipt.accepted, receipt.reasons) == (1, {})


@pytest.mark.long
def test_four_pollers_take_every_object_once(local):
    names = [f"{number:02}" for number in range(12)]
    for name in names:
        local.put(f"{name}.csv", name)
    start = threading.Barrier(4)

    def work(_):
        with open_home(local.home.stores.home, local.home.org_id) as home:
            start.wait()
            return [each.delivery.name for each in poll_inboxes(home.organization)]

    with ThreadPoolExecutor(4) as pool:
        taken = [name for found in pool.map(work, range(4)) for name in found]

    assert sorted(taken) == [f"{name}.csv" for name in names]
    assert len(local.home.ledger()) == 12
    local.check(*names)


@SLOW
def test_more_than_a_page_is_listed(moto_bucket):
    # Left alone: only the listing is long.
    for number in range(1_005):
        moto_bucket.objects.put_bytes(f"in/{number:04}.tmp", b"")
    moto_bucket.put("z.csv", "u1")

    assert [receipt.accepted for receipt in moto_bucket.poll()] == [1]


@pytest.mark.long
def test_a_claim_is_left_alone_while_its_lease_lasts_and_taken_over_after_it(local):
    local.put("a.csv", "u1")
    poll = Poll(local.home.stores, local.inbox)
    [claim] = poll._claims()  # And its poller dies.

    assert local.poll() == []
    local.home.clock.time += LEASES[JobKind.INBOX_OBJECT] + timedelta(seconds=1)
    [receipt] = local.poll()

    assert receipt.delivery.id == claim.id
    assert receipt.delivery.received_at == claim.received
    assert local.claims()[0].job.attempt == 2
    local.check("u1")


def test_an_object_at_which_two_pollers_died_fails_by_name(local):
    local.put("a.csv", "u1")
    for _ in range(2):
        assert len(list(Poll(local.home.stores, local.inbox)._claims())) == 1
        local.home.clock.time += LEASES[JobKind.INBOX_OBJECT] + timedelta(seconds=1)
    [receipt] = local.poll()

    assert (receipt.status, receipt.reason) == ("failed", "TooLarge")
    assert "died 2 times" in receipt.detail
    assert local.claims()[0].status is ClaimStatus.FAILED


def test_a_poller_that_slept_too_long_is_refused(local):
    local.put("a.csv", "u1")
    inboxes = Inboxes(local.home.stores.state)
    [claim] = Poll(local.home.stores, local.inbox)._claims()
    local.home.clock.time += LEASES[JobKind.INBOX_OBJECT] + timedelta(seconds=1)
    local.poll()

    assert inboxes.take_over(claim) is None
    with pytest.raises(Exception, match="is at version"):
        inboxes.note_ingested(claim, {})
    with pytest.raises(Exception, match="is at version"):
        inboxes.finish(claim, ClaimStatus.GONE)
    assert local.claims()[0].status is ClaimStatus.DONE


@pytest.mark.long
@pytest.mark.parametrize(
    "number",
    [3, *(pytest.param(number, marks=SLOW) for number in (1, 2, *range(4, 16)))],
)
def test_a_store_whose_nth_answer_is_lost_loses_nothing_and_doubles_nothing(
    number, moto_bucket, monkeypatch
):
    monkeypatch.setattr("meterlake.stores.objects.s3.ATTEMPTS", 1)
    moto_bucket.put("a.csv", "u1")
    moto_bucket.put("b.csv", "u2")
    with FaultyNetwork(moto_bucket.place.server) as network:
        original, answers = network._take, []

        def nth(counter):
            if counter == "lose_answers":
                answers.append(counter)
                return len(answers) == number
            return original(counter)

        monkeypatch.setattr(network, "_take", nth)
        with open_home(
            moto_bucket.home.stores.home, moto_bucket.home.org_id, s3_endpoint=network.url
        ) as home:
            for _ in range(4):
                try:
                    list(poll_inboxes(home.organization))
                except Unavailable:
                    home.clock.advance(minutes=10)

    moto_bucket.check("u1", "u2")
    assert len(moto_bucket.home.ledger()) == 2
    archived = ["done/a.csv", "done/a.csv.report.json", "done/b.csv", "done/b.csv.report.json"]
    assert moto_bucket.keys() == archived


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_poller_killed_at_a_step_loses_nothing_and_doubles_nothing(step, local):
    local.put("a.csv", "u1", "u2")
    local.put("b.csv", "u3")
    home, org_id = local.home.stores.home, local.home.org_id
    died = _polled(home, org_id, step)

    assert died == signal.SIGKILL, step
    local.home.clock.time += LEASES[JobKind.INBOX_OBJECT] + timedelta(seconds=1)
    local.poll()

    local.check("u1", "u2", "u3")
    assert len(local.home.ledger()) == 2
    assert {claim.status for claim in local.claims()} == {ClaimStatus.DONE}
    archived = ["done/a.csv", "done/a.csv.report.json", "done/b.csv", "done/b.csv.report.json"]
    assert local.keys() == archived
    assert list((local.home.stores.lake_folder(org_id) / "inbox").iterdir()) == []


@SLOW
def test_who_takes_over_from_a_killed_poller_may_be_killed_too(local):
    local.put("a.csv", "u1", "u2")
    home, org_id = local.home.stores.home, local.home.org_id

    assert _polled(home, org_id, "inbox.ingested") == signal.SIGKILL
    assert _polled(home, org_id, "inbox.taken_over", hours=1) == signal.SIGKILL
    local.home.clock.advance(hours=2)
    local.poll()

    local.check("u1", "u2")
    assert len(local.home.ledger()) == 1
    assert {claim.status for claim in local.claims()} == {ClaimStatus.DONE}
    assert local.keys() == ["done/a.csv", "done/a.csv.report.json"]


def _polled(home, org_id, step, hours=0):
    """Poll in another process that is killed at a step; the signal that ended it."""
    import subprocess
    import sys

    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from meterlake.model.values import failpoint\n"
        "from meterlake.pipeline.ingest.inbox import poll_inboxes\n"
        "from tests.homes import open_home\n"
        "from tests.killing import die_at\n"
        "failpoint.hook = die_at(sys.argv[3])\n"
        "with open_home(Path(sys.argv[1]), sys.argv[2]) as home:\n"
        "    home.clock.advance(hours=int(sys.argv[4]))\n"
        "    list(poll_inboxes(home.organization))\n"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-W", "ignore", "-c", code, str(home), org_id, step, str(hours)]
    return -subprocess.run(command, env=env, check=False).returncode


def test_inboxes_may_not_overlap_and_need_a_place_for_what_is_done(local):
    organization = local.home.organization
    root = local.inbox.url.rpartition("/")[0]
    for url in ("in/sub", "done", "failed/x"):
        Path(root, url).mkdir(parents=True)
    for url in (root, f"{root}/in/sub", f"{root}/done", f"{root}/failed/x"):
        with pytest.raises(Invalid, match="no part of another inbox"):
            add_inbox(organization, url, Afterwards.LEAVE)
    with pytest.raises(Invalid, match="a prefix below the bucket"):
        add_inbox(organization, "s3://bucket", Afterwards.MOVE)

    Path(root, "inner").mkdir()
    assert add_inbox(organization, f"{root}/inner", Afterwards.LEAVE).url == f"{root}/inner"
