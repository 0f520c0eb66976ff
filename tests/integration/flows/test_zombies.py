"""Automations over a real server: killed runs are marked, late files and failed bills told; slow."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from meterlake.cli import run
from meterlake.stores.processes import free_port
from tests.prefect_access import SignedIn

ROOT = Path(__file__).parents[3]
WAIT_S = 300

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.slow]


@pytest.fixture
def alerts() -> Iterator[tuple[str, list[Any]]]:
    """Where a webhook posts to, and what it posted."""
    found: list[Any] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            found.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", found
        server.shutdown()


def until(found: Callable[[], Any], what: str) -> Any:
    give_up = time.monotonic() + WAIT_S
    while time.monotonic() < give_up:
        if answer := found():
            return answer
        time.sleep(0.5)
    raise AssertionError(what)


def test_a_run_that_was_killed_is_crashed_and_told(
    home: Path, alerts: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.server import server_environment, serving, wait_until_it_answers

    port = free_port()
    url, told = alerts
    with serving(home, port) as server:
        wait_until_it_answers(server, home, port)
        api = f"http://127.0.0.1:{port}/api"
        monkeypatch.setenv("METERLAKE_PREFECT_URL", api)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
        assert run(["deploy", "--home", str(home), "--webhook", url]) == 0
        client = httpx.Client(base_url=api, timeout=60, trust_env=False, auth=SignedIn(home))
        deployment = client.get("/deployments/name/close-month/close-month").json()["id"]
        given = {"org": "acme", "month": "2026-10", "file": ["never-*"]}
        made = client.post(
            f"/deployments/{deployment}/create_flow_run",
            json={"parameters": given, "state": {"type": "SCHEDULED"}},
        ).json()
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "meterlake"]
        environment = server_environment(home, port, os.environ) | {"METERLAKE_HOME": str(home)}
        with subprocess.Popen(
            command, env=environment, cwd=home, start_new_session=True, stdout=subprocess.DEVNULL
        ) as worker:
            state = lambda: client.get(f"/flow_runs/{made['id']}").json()["state"]  # noqa: E731
            until(lambda: state()["type"] == "RUNNING", "it never ran")
            time.sleep(5)  # Its first heartbeat.
            os.killpg(worker.pid, signal.SIGKILL)
        for pid in processes_of(made["id"]):
            os.kill(pid, signal.SIGKILL)

        crashed = until(lambda: state()["type"] == "CRASHED" and state(), "it is running for ever")
        until(lambda: told, "nobody was told")

    assert crashed["message"] == "no heartbeat"
    texts = {json.loads(each)["text"] for each in told}
    assert texts & {"The process of a run is gone", "A bill run failed"}


def test_a_closing_whose_file_is_late_fails_and_both_are_told(
    home: Path, alerts: tuple[str, list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.server import server_environment, serving, wait_until_it_answers

    port = free_port()
    url, told = alerts
    with serving(home, port) as server:
        wait_until_it_answers(server, home, port)
        api = f"http://127.0.0.1:{port}/api"
        monkeypatch.setenv("METERLAKE_PREFECT_URL", api)
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT)]))
        assert run(["deploy", "--home", str(home), "--webhook", url]) == 0
        client = httpx.Client(base_url=api, timeout=60, trust_env=False, auth=SignedIn(home))
        deployment = client.get("/deployments/name/close-month/close-month").json()["id"]
        given = {"org": "acme", "month": "2026-10", "file": ["never-*"], "hours": 0, "look": 1}
        made = client.post(
            f"/deployments/{deployment}/create_flow_run",
            json={"parameters": given, "state": {"type": "SCHEDULED"}},
        ).json()
        command = [sys.executable, "-m", "prefect", "worker", "start", "--pool", "meterlake"]
        environment = server_environment(home, port, os.environ) | {"METERLAKE_HOME": str(home)}
        with subprocess.Popen(
            command, env=environment, cwd=home, start_new_session=True, stdout=subprocess.DEVNULL
        ) as worker:
            try:
                state = lambda: client.get(f"/flow_runs/{made['id']}").json()["state"]  # noqa: E731
                failed = until(lambda: state()["type"] == "FAILED" and state(), "it does not end")
                until(lambda: len(told) > 1, f"told: {told}")
            finally:
                os.killpg(worker.pid, signal.SIGKILL)
                client.close()

    assert "no file never-* came in time" in failed["message"]
    found = {each["text"]: each["resource"] for each in map(json.loads, told)}
    assert found == {
        "An expected file is late": "meterlake.organization.acme.2026-10",
        "A bill run failed": f"prefect.flow-run.{made['id']}",
    }


def processes_of(run_id: str) -> list[int]:
    """The processes that work on a run."""
    listed = subprocess.run(["ps", "axeww"], capture_output=True, text=True, check=True).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if run_id in line]
