"""Two API processes and the worker are killed under load: nothing acknowledged is lost or doubled."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from meterlake.pipeline.home.setup import initialize
from meterlake.stores import open_stores
from meterlake.stores.processes import free_port
from tests.homes import EGRESS, configure, settings, wire_row

ROOT = Path(__file__).parents[2]
START_S = QUERYABLE_S = 60
LOAD_S = 2
CLIENTS = 4


@contextmanager
def process(home, *arguments):
    env = {
        **os.environ,
        "METERLAKE_HOME": str(home),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [sys.executable, "-m", *arguments]
    with subprocess.Popen(
        command, env=env, cwd=home, stderr=subprocess.DEVNULL, start_new_session=True
    ) as found:
        try:
            yield found
        finally:
            if found.poll() is None:
                os.killpg(found.pid, signal.SIGKILL)


def ready(url):
    give_up = time.monotonic() + START_S
    while time.monotonic() < give_up:
        try:
            if httpx.get(f"{url}/readyz").status_code == httpx.codes.OK:
                return
        except httpx.HTTPError:
            time.sleep(0.1)
    pytest.fail("the server does not answer")


def sign_in(url, made):
    asked = {"grant_type": "client_credentials"}
    key = made.access_key_id, made.api_secret
    token = httpx.post(f"{url}/oauth/token", json=asked, auth=key).json()["access_token"]
    return {
        "base_url": f"{url}/organizations/{made.org_id}",
        "headers": {"Authorization": f"Bearer {token}"},
    }


def submit_until_it_dies(options, client):
    """Submit batch after batch; the uids of those that were acknowledged."""
    acknowledged = []
    with httpx.Client(**options, timeout=START_S) as http:
        for number in range(100_000):
            rows = [wire_row(f"{client}-{number}-{place}") for place in range(50)]
            body = json.dumps({"measurements": rows}).encode()
            try:
                answer = http.post("/measurements", content=body)
            except httpx.HTTPError:
                break
            assert answer.status_code == httpx.codes.OK, answer.text
            acknowledged += [row["uid"] for row in rows]
    return acknowledged


def stored(organization):
    with organization.lake.reader() as connection:
        rows = connection.execute("SELECT uid FROM lake.uid_index").fetchall()
    return [uid for (uid,) in rows]


@pytest.mark.slow
def test_processes_that_are_killed_lose_and_double_nothing(tmp_path):
    home = tmp_path / "home"
    made = initialize(settings(home), "Sample")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with open_stores(settings(home)) as stores:
        organization = stores.organization(made.org_id)
        configure(organization, meters=[EGRESS])
        api = ("meterlake.api", "--port", str(port), "--workers", "2")
        with process(home, *api) as server, process(home, "meterlake.worker") as worker:
            ready(url)
            options = sign_in(url, made)
            with ThreadPoolExecutor(CLIENTS) as pool:
                clients = [
                    pool.submit(submit_until_it_dies, options, name) for name in range(CLIENTS)
                ]
                time.sleep(LOAD_S)
                os.killpg(server.pid, signal.SIGKILL)
                worker.kill()
            acknowledged = [uid for each in clients for uid in each.result()]
        assert acknowledged
        with process(home, "meterlake.worker") as worker:
            give_up = time.monotonic() + QUERYABLE_S
            while set(acknowledged) - set(stored(organization)):
                assert worker.poll() is None
                assert time.monotonic() < give_up
                time.sleep(0.2)
            worker.terminate()
            assert worker.wait(START_S) == 0
        found = stored(organization)

    assert len(found) == len(set(found))
    # At most one batch of each client came in without its answer.
    assert len(found) - len(acknowledged) in range(0, CLIENTS * 50 + 1, 50)
