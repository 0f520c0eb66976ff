"""Nobody but its owner reads what a home holds, whatever wrote it; by a setting its group reads some."""

import os
import stat
import time
from pathlib import Path

import pytest

import sample_data
from meterlake.cli import run
from meterlake.model.measurements.receipt import UploadStatus
from meterlake.stores import open_stores
from meterlake.stores.files.durable import write_durably
from meterlake.worker.rounds import SEGMENTS, UPLOADS
from tests.homes import settings
from tests.rounds import go_round
from tests.served import served

OWNER = stat.S_IRWXG | stat.S_IRWXO
# What a home's group never reads: secrets, raw files of others, Prefect's pages.
NEVER = ("state.sqlite", "secret.key", "outbox", "objects", "uploads", "prefect", "settings.json")


@pytest.fixture(autouse=True)
def open_umask():
    """What most machines have: files that everybody reads."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(home: Path) -> dict[str, int]:
    """What each file and folder of a home permits to others than its owner."""
    found = {".": home.stat().st_mode}
    for path in home.rglob("*"):
        found[str(path.relative_to(home))] = path.lstat().st_mode
    return {name: stat.S_IMODE(mode) & OWNER for name, mode in found.items()}


def commands(home: Path, out: Path) -> None:
    """What people do with a home on the command line."""
    files = [sample_data.MEASUREMENTS / name for name in ("03-storage-days-01-10.json",)]
    month = sample_data.MONTH
    for line in (
        ["init", "--name", "Sample"],
        ["config", "apply", str(sample_data.CONFIGURATION)],
        ["ingest", *map(str, files), str(sample_data.MEASUREMENTS / "11-llm-bad-rows.csv")],
        ["aggregate", month],
        ["bill", "--month", month],
        ["export", "usage", "--to", str(out)],
        ["export", "operational", "--to", str(out / "operational")],
        ["rejected", "export", str(out / "mend.csv")],
        ["rejected", "requeue"],
        ["publish"],
        ["report"],
        ["maintain"],
    ):
        assert run([*line, "--home", str(home), "--json"]) == 0, line


def serve(home: Path) -> None:
    """What a server and a worker leave: segments, uploads, letters, links."""
    with served(home / "other", organizations_at_once=1) as server, server.sdk() as client:
        client.users.invitations.create(
            email="a@b.example", first_name="A", last_name="B", m3ter_user=False
        )
        measurement = {"meter": "m", "account": "a", "ts": "2026-10-01T00:00:00Z", "uid": "1"}
        client.usage.submit(measurements=[measurement])
        data = b"meter,account,uid,ts\nm,a,2,2026-10-01T00:00:00Z\n"
        job = client.usage.file_uploads.generate_upload_url(
            content_length=len(data), content_type="text/csv", file_name="a.csv"
        )
        with server.http() as http:
            http.put(job.url, content=data, headers=job.headers).raise_for_status()
        stores, give_up = server.stores, time.monotonic() + 60

        def done() -> bool:
            status = client.usage.file_uploads.jobs.retrieve(job.job_id).status
            return str(status) != UploadStatus.RUNNING.value or time.monotonic() > give_up

        go_round(UPLOADS, stores, done, 0)
        kept = stores.lake_folder(server.org_id) / "sources"
        server.stores.segments.close()
        go_round(SEGMENTS, stores, lambda: any(kept.rglob("*.ndjson*")), 0.05)


@pytest.mark.slow
def test_nobody_else_reads_anything_after_everything_ran(tmp_path):
    home = tmp_path / "home"
    commands(home, tmp_path / "out")

    found = modes(home)
    assert len(found) > 60
    assert {name: oct(mode) for name, mode in found.items() if mode} == {}
    assert {name: oct(mode) for name, mode in modes(tmp_path / "out").items() if mode} == {}


def test_an_open_database_has_no_more_readers_than_a_closed_one(tmp_path):
    home = tmp_path / "home"
    assert run(["init", "--name", "Sample", "--home", str(home), "--json"]) == 0
    with open_stores(settings(home)) as stores:
        stores.state.organization()
        names = {path.name for path in home.rglob("*.sqlite-*")}
        found = modes(home)

    assert any(name.endswith("-wal") for name in names)
    assert {name: oct(mode) for name, mode in found.items() if mode} == {}


@pytest.mark.slow
def test_the_group_reads_lakes_and_published_files_by_a_setting(tmp_path, monkeypatch):
    home = tmp_path / "home"
    monkeypatch.setenv("METERLAKE_GROUP_READ", "true")
    at = ["--home", str(home), "--json"]
    assert run(["init", "--name", "Sample", *at]) == 0
    monkeypatch.delenv("METERLAKE_GROUP_READ")  # The home knows it.
    os.umask(0o022)
    file = sample_data.MEASUREMENTS / "03-storage-days-01-10.json"
    for line in (["config", "apply", str(sample_data.CONFIGURATION)], ["ingest", str(file)]):
        assert run([*line, *at]) == 0
    assert run(["publish", *at]) == 0
    assert run(["report", *at]) == 0

    found = modes(home)
    others = {name: oct(mode) for name, mode in found.items() if mode & stat.S_IRWXO}
    assert others == {}
    assert not any(mode & stat.S_IWGRP for mode in found.values())
    for name, mode in found.items():
        if name.startswith(NEVER):
            # Of a folder whatever lies in it is out of reach.
            assert mode == 0 or "/" in name, name
    for name in ("lakes", "published"):
        below = [each for each in found if each.startswith(name) and ".lock" not in each]
        files = [each for each in below if (home / each).is_file()]
        assert len(files) > 1
        assert all(found[each] & stat.S_IRGRP for each in below), name


def test_a_home_of_before_is_closed_when_its_server_starts(tmp_path):
    home = tmp_path / "home"
    assert run(["init", "--name", "Sample", "--home", str(home), "--json"]) == 0
    home.chmod(0o755)
    with open_stores(settings(home)):
        assert modes(home)["."] == 0o055
    with open_stores(settings(home), lasting=True):
        assert modes(home)["."] == 0
    home.chmod(0o755)
    with open_stores(settings(home, group_read=True), lasting=True):
        assert modes(home)["."] == 0o050


def test_a_file_that_is_written_whole_has_the_rights_of_its_process(tmp_path):
    for mask, mode in ((0o077, 0o600), (0o027, 0o640), (0o022, 0o644)):
        os.umask(mask)
        with write_durably(tmp_path / "file") as temporary:
            temporary.write_text("x")
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


@pytest.mark.slow
def test_a_server_and_a_worker_leave_nothing_that_others_read(tmp_path):
    serve(tmp_path)

    found = modes(tmp_path / "other")
    assert any(name.startswith("outbox/") for name in found)
    assert any("/sources/" in name for name in found)
    assert {name: oct(mode) for name, mode in found.items() if mode} == {}
