"""Two API servers and four workers on three machines over one State and one lake in a bucket.

A machine is a home of its own: only PostgreSQL and the bucket are shared.
"""

import signal
from contextlib import ExitStack

import httpx
import pytest

from meterlake.cli import run
from meterlake.model import wire
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.settings import as_environment
from tests.commands import api_server, drain, wait_until, worker
from tests.e2e.remote_homes import Client, installation, stored_uids
from tests.homes import HEADER, csv_row, open_home

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
    assert (process.returncode, wire.loads(line.encode())["accepted"]) == (0, 1)
