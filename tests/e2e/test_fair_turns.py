"""One organization that brings much, another one that brings little: the little is done soon.

All waits are compared with what the greedy organization takes, so that a slow machine changes
nothing: organization after organization, the small one would wait for all of it.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import pytest

from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.run import submit_export
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.inbox import add_inbox
from meterlake.pipeline.ingest.receiving import receiving
from meterlake.pipeline.ingest.uploads import announce, get_job
from meterlake.pipeline.jobs import fair_turns
from meterlake.pipeline.jobs.fair_turns import give_turns
from meterlake.stores import open_stores
from meterlake.stores.state.ingest.inboxes import Afterwards
from tests.homes import EGRESS, HEADER, configure, csv_row, gz, settings

WAIT_S = 300
Ended = Callable[[], datetime | None]


class Organization:
    """One of the two: what it gives in, and when each thing was done."""

    def __init__(self, stores, made, content):
        self.stores = stores
        self.org_id = made.org_id
        organization = self.organization
        self.folder = drop_folder(stores, made.org_code)
        self.bucket = stores.home / "buckets" / made.org_code
        self.content = content
        (self.bucket / "inbox").mkdir(parents=True)
        add_inbox(organization, str(self.bucket / "inbox"), Afterwards.MOVE)
        preview = {"beta": True, "preview": True}
        configure(organization, meters=[EGRESS], features=preview)

    @property
    def organization(self):
        return self.stores.organization(self.org_id)

    def drop(self, name) -> Ended:
        (self.folder.inbox / name).write_bytes(self.content)
        return lambda: self._moved(self.folder.done, name)

    def put(self, name) -> Ended:
        (self.bucket / "inbox" / name).write_bytes(self.content)
        return lambda: self._moved(self.bucket / "done", name)

    def upload(self, name) -> Ended:
        body = {"fileName": name, "contentType": "text/csv", "contentLength": len(self.content)}
        made = announce(self.organization, "test", body, "")
        headers = {"content-type": "text/csv", "content-length": str(len(self.content))}
        with receiving(self.stores, made["url"].rpartition("/")[2], headers) as file:
            file.write(self.content)
            file.finish()
        return lambda: get_job(self.organization, made["jobId"]).get("dtFinished")

    def export(self, _) -> Ended:
        request = ExportRequest(source=Source.OPERATIONAL, format=Format.CSV)
        id_ = submit_export(self.organization, request)
        return lambda: self.stores.state.jobs.get(id_).finished

    def _moved(self, archive, name):
        found = next(archive.glob(f"*/{name}.report.json"), None)
        return None if found is None else datetime.fromtimestamp(found.stat().st_mtime).astimezone()


KINDS = ("drop", "put", "upload", "export")


@contextmanager
def working(home, **changes) -> Iterator[None]:
    """The worker of a home, as a process."""
    set_ = {f"METERLAKE_{name.upper()}": str(each) for name, each in changes.items()}
    environment = {
        **os.environ,
        "METERLAKE_HOME": str(home),
        "METERLAKE_SETTLE_SECONDS": "0",
        "METERLAKE_INBOX_SECONDS": "1",
        "METERLAKE_PREFECT_URL": "",
        **set_,
    }
    command = [sys.executable, "-m", "meterlake.worker"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.terminate()
            assert process.wait(60) == 0


def ended(waiting: list[Ended]) -> list[datetime]:
    """When each of these was done."""
    give_up = time.monotonic() + WAIT_S
    while True:
        found = [each() for each in waiting]
        if all(each is not None for each in found):
            return found
        assert time.monotonic() < give_up, f"{found.count(None)} of {len(found)} are not done"
        time.sleep(0.1)


@contextmanager
def two(path, greedy, small):
    """A home with the greedy organization, which is the older one, and the small one."""
    options = settings(path / "home")
    made = [initialize(options, name) for name in ("Greedy", "Small")]
    with open_stores(options) as stores:
        yield [
            Organization(stores, each, content)
            for each, content in zip(made, (greedy, small), strict=True)
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kinds", "many"),
    [
        (("upload",), 6),
        pytest.param(KINDS, 24, marks=pytest.mark.slow),
    ],
)
def test_a_small_organization_waits_for_a_part_of_what_a_greedy_one_takes(tmp_path, kinds, many):
    rows = "".join(csv_row(f"u{each}") for each in range(500))
    content = (HEADER + rows + "ragged\n" * 500).encode()
    with two(tmp_path, content, HEADER.encode()) as (greedy, small):
        much = {
            kind: [getattr(greedy, kind)(f"{number:02}.csv") for number in range(many)]
            for kind in kinds
        }
        little = {kind: getattr(small, kind)("few.csv") for kind in kinds}
        with working(greedy.stores.home):
            finished = {kind: ended(each) for kind, each in much.items()}
            soon = {kind: ended([each])[0] for kind, each in little.items()}

    for kind in kinds:
        before = [each for each in finished[kind] if each < soon[kind]]
        assert len(before) <= many // 2, (kind, len(before))


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(gz((HEADER + "\n" * (60 << 20)).encode()), id="blank lines"),
        pytest.param(gz((HEADER + "x\n" * (2 << 20)).encode()), id="ragged lines"),
    ],
)
def test_one_large_file_of_another_organization_is_not_waited_for(tmp_path, content):
    small_rows = (HEADER + csv_row("u1")).encode()
    with two(tmp_path, content, small_rows) as (greedy, small), working(tmp_path / "home"):
        begun = time.monotonic()
        ended([small.upload("alone.csv")])
        alone_s = time.monotonic() - begun
        big = greedy.upload("x.csv.gz")
        time.sleep(2)
        begun = time.monotonic()
        ended([small.upload("beside.csv")])
        beside_s = time.monotonic() - begun
        ended([big])

    assert beside_s < 10 * alone_s + 5


@pytest.mark.long
def test_with_one_thread_a_turn_ends_between_two_files(tmp_path, monkeypatch):
    """No more files of a greedy organization come before a small one's than its turn holds."""
    monkeypatch.setattr(fair_turns, "TURN_S", 0.05)
    options = settings(tmp_path / "home", organizations_at_once=1)
    greedy, small = (initialize(options, name).org_id for name in ("Greedy", "Small"))
    worked: list[str] = []

    def verb(organization, stop):
        org_id = organization.id
        while org_id == greedy and not stop():
            time.sleep(0.02)
            worked.append(org_id)
        if org_id == small:
            worked.append(org_id)
        return ()

    with open_stores(options) as stores:
        give_turns(stores, verb, lambda: worked.count(small) > 3, 0.01)

    assert len(worked) < 4 * 8
    assert worked.count(greedy) > worked.count(small)


@pytest.mark.long
def test_a_turn_that_breaks_costs_nobody_else_a_turn(tmp_path, caplog):
    options = settings(tmp_path / "home", organizations_at_once=1)
    broken, good = (initialize(options, name).org_id for name in ("Broken", "Good"))
    turns_of: list[str] = []

    def verb(organization, stop):
        org_id = organization.id
        turns_of.append(org_id)
        assert not stop()
        if org_id == broken:
            raise ZeroDivisionError("nobody foresaw it")
        return ()

    with open_stores(options) as stores:
        give_turns(stores, verb, lambda: turns_of.count(good) > 2, 0)

    assert turns_of.count(broken) == 1  # It has its next turn after a pause.
    assert "nobody foresaw it" in caplog.text
