"""Two API servers and four workers on three machines over one State and one lake in a bucket.

A machine is a home of its own: only PostgreSQL and the bucket are shared.
"""

import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import httpx
import pytest
from sqlalchemy import update

from meterlake.cli import run
from meterlake.model.values import wire
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.pipeline.ingest.uploads import announce, get_job, ingest_uploads
from meterlake.pipeline.jobs.file_jobs import key
from meterlake.settings import as_environment
from meterlake.stores.state.ingest import uploads as jobs
from meterlake.stores.state.jobs import JOB
from tests.commands import api_server, drain, wait_until, worker
from tests.e2e.remote_homes import Client, installation, stored_uids
from tests.homes import HEADER, csv_row, open_home

# A worker that is killed while it reads an upload.
KILLED = """
import sys
from meterlake.model.values import failpoint
from meterlake.pipeline.ingest.uploads import ingest_uploads
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.killing import die_at

with open_stores(Settings()) as stores:
    failpoint.hook = die_at("ingest.staged")
    list(ingest_uploads(stores.organization(sys.argv[1])))
"""
BATCHES = 15
WAIT_S = 240


@pytest.fixture
def several(tmp_path, postgresql, s3_lakes):
    with installation(tmp_path, postgresql, s3_lakes) as made:
        yield made


@pytest.mark.slow
def test_what_two_servers_acknowledge_is_stored_once_by_whichever_worker(several, monkeypatch):
    made = several.initialize()
    machines = [several.machine(name) for name in ("first", "second", "third")]
    with ExitStack() as opened:
        servers = [opened.enter_context(api_server(each)) for each in machines[:2]]
        # One beside each server, another one on a machine without a server, and one more.
        homes = [*machines, machines[0]]
        workers = [opened.enter_context(worker(each)) for each in homes]
        clients = [
            opened.enter_context(Client(url, made, f"client{number}"))
            for number, (url, _) in enumerate(servers)
        ]
        # A worker that goes in the middle is missed by nobody: its machine has another one.
        wait_until(lambda: all(len(each.acknowledged) >= BATCHES for each in clients), WAIT_S)
        drain(workers.pop()[1])
        wait_until(lambda: all(len(each.acknowledged) >= BATCHES * 20 for each in clients), WAIT_S)
        for each in clients:
            each.__exit__()
        acknowledged = sorted(uid for each in clients for uid in each.acknowledged)
        with open_home(machines[2].home, made.org_id, **several.options) as home:
            wait_until(lambda: len(home.uids()) >= len(acknowledged), WAIT_S)
            assert stored_uids(home.uids) == acknowledged
        for url, process in servers:
            assert httpx.get(f"{url}/readyz").is_success
            assert process.poll() is None
        drain(*(process for _, process in [*servers, *workers]))

    assert [each.refused for each in clients] == [[], []]
    with open_home(machines[0].home, made.org_id, **several.options) as home:
        home.check_rows()
        assert stored_uids(home.uids) == acknowledged
    for name, value in as_environment(machines[1]).items():
        monkeypatch.setenv(name, value)
    assert run(["check", "reconciliation"]) == 0


@pytest.mark.slow
def test_a_worker_of_a_lake_in_a_bucket_says_only_what_it_ingested(several):
    made = several.initialize()
    machine = several.machine("first")
    with open_home(machine.home, made.org_id, **several.options) as home:
        folder = drop_folder(home.stores, home.stores.state.organization().code)
        folder.create()
        (folder.inbox / "a.csv").write_text(HEADER + csv_row("a"))
        with worker(machine) as (_, process):
            wait_until(lambda: stored_uids(home.uids) == ["a"], WAIT_S)
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=WAIT_S)

    [line] = said.splitlines()
    said = line.partition(" INFO meterlake.worker: ")[2]
    assert (process.returncode, wire.loads(said.encode())["accepted"]) == (0, 1)


@pytest.mark.slow
def test_an_upload_that_kills_a_worker_on_each_machine_fails_by_name(several):
    made = several.initialize()
    first, second = (several.machine(name) for name in ("first", "second"))
    data = (HEADER + csv_row("a")).encode()
    with open_home(first.home, made.org_id, **several.options) as home:
        organization = home.stores.organization(made.org_id)
        body = {"fileName": "a.csv", "contentType": "text/csv", "contentLength": len(data)}
        job_id = announce(organization, "test", body, "")["jobId"]
        with home.stores.state.reading_home() as connection:
            upload = jobs.find(connection, made.org_id, job_id)
        home.stores.objects.put_bytes(key(upload), data)
        for machine in (first, second):
            command = [sys.executable, "-c", KILLED, made.org_id]
            environment = {**os.environ, **as_environment(machine)}
            died = subprocess.run(command, check=False, env=environment)
            assert died.returncode == -signal.SIGKILL
            with home.stores.state.writing_home() as connection:
                # Its lease runs out.
                now = home.stores.state.now()
                connection.execute(update(JOB).where(JOB.c.id == job_id).values(lease_until=now))
        [receipt] = ingest_uploads(organization)
        found = get_job(organization, job_id)

    assert (receipt.status, found["status"]) == ("failed", "failed")
    assert "the process that read it died 2 times" in found["failureReason"]
