"""`serve --api-only`, `worker` and `health`: a server and a worker apart, each ended by SIGTERM."""

import json
import signal
import socket
import struct
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import httpx
import pytest

from meterlake.cli import run
from meterlake.model.errors import Unavailable
from meterlake.pipeline.export.run import run_export, submit_export
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.jobs.attempt import leave_all, running
from meterlake.stores.processes import free_port
from meterlake.stores.readiness import check_ready
from meterlake.stores.state import JobStatus
from meterlake.worker.health import WorkerHealth, metrics_text, serve_health
from tests.commands import (
    WAIT_S,
    api_server,
    command,
    command_environment,
    drain,
    wait_until,
    worker,
)
from tests.doubles.destinations import usage
from tests.homes import ACCOUNTS, EGRESS, a_home, configure, new_home, open_home, settings, wire_row
from tests.served import Served

# A worker that hangs at a step, whatever it is asked.
HANGING = """
import sys, time
from meterlake.model.values import failpoint
from meterlake.worker.__main__ import main

def hook(name):
    if name == sys.argv[1]:
        print("at it", flush=True)
        time.sleep(600)

failpoint.hook = hook
main(grace=0.2)
"""

# One round that fails, and one that hangs.
FAILING = """
import time
from concurrent.futures import ThreadPoolExecutor
from meterlake.worker.__main__ import _drain

pool = ThreadPoolExecutor(2)
first = pool.submit(int, "x")
_drain([first, pool.submit(time.sleep, 600)], 0.1)
"""


@pytest.fixture
def exporting(tmp_path):
    """A home, and the job of an export that waits."""
    path, out = tmp_path / "home", tmp_path / "out"
    out.mkdir()
    with open_home(path, new_home(path), export_folder=out) as home:
        configure(home.organization, features={"preview": True})
        yield home, submit_export(home.organization, usage())


def test_health_of_nothing_is_one_line(capsys):
    assert run(["health", "--url", f"http://127.0.0.1:{free_port()}"]) == 1
    assert "refused" in capsys.readouterr().err


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8000", "http://127.0.0.1:port", ""])
def test_health_wants_a_url(url, capsys):
    assert run(["health", "--url", url]) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_worker_without_a_home_is_one_clear_line(tmp_path, capsys):
    assert run(["worker", "--home", str(tmp_path / "none")]) == 1
    assert "meterlake init" in capsys.readouterr().err


@pytest.mark.slow
def test_a_worker_whose_port_is_taken_does_not_start(tmp_path):
    path = tmp_path / "home"
    new_home(path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        with command(settings(path), "worker", "--port", port) as process:
            _, errors = process.communicate(timeout=WAIT_S)

    assert process.returncode == 1
    assert errors.strip().splitlines()[-1].startswith("meterlake worker: ")
    assert port in errors


def test_a_worker_says_how_it_is(tmp_path):
    ends = []
    with a_home(tmp_path) as home:
        health = WorkerHealth(home.stores, lambda: bool(ends))
        with serve_health(health, "127.0.0.1", 0) as port:
            url = f"http://127.0.0.1:{port}"
            assert httpx.get(f"{url}/healthz").json() == {"status": "alive"}
            check_ready(url, WAIT_S)
            assert "process_cpu_seconds_total" in httpx.get(f"{url}/metrics").text
            assert httpx.get(f"{url}/other").status_code == 404
            assert httpx.post(f"{url}/readyz").status_code == 501
            ends.append(0)
            with pytest.raises(Unavailable, match="it stops"):
                check_ready(url, WAIT_S)
            assert httpx.get(f"{url}/healthz").is_success


def test_who_asks_a_worker_and_goes_before_it_answers_leaves_no_traceback(tmp_path, capfd):
    with a_home(tmp_path) as home:
        health = WorkerHealth(home.stores, lambda: False)
        with serve_health(health, "127.0.0.1", 0) as port:
            for _ in range(20):
                with socket.create_connection(("127.0.0.1", port)) as asked:
                    asked.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    asked.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert httpx.get(f"http://127.0.0.1:{port}/healthz").is_success

    assert "Traceback" not in capfd.readouterr().err


def test_who_waits_for_a_turn_when_a_worker_ends_is_told_that_it_is_not_ready(tmp_path):
    with a_home(tmp_path) as home:
        health = WorkerHealth(home.stores, lambda: False)
        ended = threading.Event()
        health._pool.submit(ended.wait, WAIT_S)
        with ThreadPoolExecutor(1) as probe:
            answer = probe.submit(health.answer, "/readyz")
            while not health._pool._work_queue.qsize():
                assert not answer.done()
            health.close()
            answers = [answer.result(WAIT_S), health.answer("/readyz")]
        ended.set()

    for status, _, body in answers:
        assert (status, json.loads(body)) == (503, {"message": "not ready: it stops"})


def test_a_worker_counts_what_waits(exporting):
    home, _ = exporting
    segments = home.organization.segment_folder
    segments.closed.mkdir(parents=True, exist_ok=True)
    (segments.closed / "20261001T000000.000000Z-1.ndjson").write_bytes(b"{}\n\n")
    text = metrics_text(home.stores).decode()

    assert 'meterlake_jobs{kind="export",status="PENDING"} 1.0' in text
    assert "meterlake_segment_bytes 4.0" in text
    home.stores.state.close()
    (home.stores.home / "state.sqlite").write_bytes(b"no database" * 1000)
    text = metrics_text(home.stores).decode()
    assert "process_cpu_seconds_total" in text
    assert "meterlake_jobs" not in text


def test_a_worker_without_its_database_is_not_ready(tmp_path):
    with a_home(tmp_path) as home:
        health = WorkerHealth(home.stores, lambda: False)
        home.stores.state.close()
        (home.stores.home / "state.sqlite").write_bytes(b"no database" * 1000)
        with serve_health(health, "127.0.0.1", 0) as port:
            answer = httpx.get(f"http://127.0.0.1:{port}/readyz")

    assert answer.status_code == 503
    assert answer.json()["message"].startswith("not ready: ")


@pytest.mark.slow
def test_a_server_and_a_worker_apart(tmp_path, capsys):
    """A batch that the one acknowledges is stored by the other; both end in order."""
    options = settings(tmp_path / "home")
    made = initialize(options, "Acme")
    known = (made.org_id, made.access_key_id, made.api_secret)
    with open_home(options.home, made.org_id) as home, api_server(options) as (url, server):
        configure(home.stores.organization(made.org_id), meters=[EGRESS], accounts=ACCOUNTS)
        with Served(url, *known, options, home.stores).http() as http:
            rows = {"measurements": [wire_row("posted")]}
            assert http.post("/measurements", json=rows).is_success
        assert home.uids() == []
        with worker(options) as (at, process):
            assert run(["health", "--url", at, "--json"]) == 0
            assert '"ready"' in capsys.readouterr().out
            wait_until(home.uids)
            drain(process)
        assert [row[0] for row in home.uids()] == ["posted"]
        drain(server)
        home.check()


@pytest.mark.long
def test_what_a_process_has_at_hand_can_be_taken_at_once_when_it_gives_it_back(exporting):
    home, id_ = exporting
    jobs = home.stores.state.jobs
    taken = jobs.take(id_, 1)
    with running(jobs, taken):
        assert leave_all() == 1

    run_export(home.stores, id_)
    assert jobs.get(id_).status is JobStatus.COMPLETE
    assert leave_all() == 0


@pytest.mark.slow
def test_a_worker_gives_back_what_takes_too_long_and_ends_with_0(exporting):
    home, id_ = exporting
    with subprocess.Popen(
        [sys.executable, "-c", HANGING, "export.staged"],
        env=command_environment(home.stores.settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at it\n"
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=WAIT_S)

    assert process.returncode == 0, errors
    assert "1 jobs at hand are given back" in errors
    home.clock.time = datetime.now(UTC)
    run_export(home.stores, id_)
    assert home.stores.state.jobs.get(id_).status is JobStatus.COMPLETE


@pytest.mark.slow
def test_a_round_that_failed_is_not_hidden_by_one_that_hangs():
    command = [sys.executable, "-c", FAILING]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)

    assert done.returncode == 1
    assert "ValueError" in done.stderr
