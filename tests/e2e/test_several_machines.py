"""Two API servers and four workers on three machines over one State and one lake in a bucket.

A machine is a home of its own: only PostgreSQL and the bucket are shared.
"""

from contextlib import ExitStack

import httpx
import pytest

from meterlake.cli import run
from meterlake.settings import as_environment
from tests.commands import api_server, drain, wait_until, worker
from tests.e2e.remote_homes import Client, installation, stored_uids
from tests.homes import open_home

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
