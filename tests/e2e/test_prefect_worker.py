"""`prefect worker` on a machine of its own runs flows against the State and the lake of the others."""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from meterlake.pipeline.ingest.inbox import add_inbox
from meterlake.stores.processes import free_port
from meterlake.stores.state.ingest.inboxes import Afterwards
from tests.commands import WAIT_S, command_environment, drain, wait_until
from tests.e2e.remote_homes import installation, stored_uids
from tests.homes import HEADER, csv_row, open_home

ROOT = Path(__file__).parents[2]
PATIENCE_S = 240
# Prefect ends by SIGINT, which a shell in the background may have switched off for its children.
COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
from prefect.cli import app
sys.argv[0] = "prefect"
app()
"""


@pytest.fixture
def machines(tmp_path, postgresql, s3_lakes):
    with installation(tmp_path, postgresql, s3_lakes) as made:
        yield made


def environment(settings, folder, api):
    return command_environment(
        settings,
        PREFECT_HOME=str(folder),
        PREFECT_API_URL=api,
        PREFECT_SERVER_UI_STATIC_DIRECTORY=str(folder / "ui"),
        PREFECT_SERVER_ANALYTICS_ENABLED="false",
        DO_NOT_TRACK="1",
        NO_PROXY="127.0.0.1",
    )


def prefect(environment, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMMAND, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def running(environment, *arguments: str, ready: str):
    with (Path(environment["PREFECT_HOME"]) / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", COMMAND, *arguments],
            cwd=ROOT,
            env=environment,
            stdout=log,
            stderr=subprocess.PIPE,
            text=True,
        )
    with process:
        try:
            wait_until(lambda: answers(ready), PATIENCE_S)
            yield process
        finally:
            process.kill()


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=WAIT_S).is_success
    except httpx.HTTPError:
        return False


@pytest.mark.slow
def test_a_prefect_worker_with_a_home_of_its_own_ingests_and_ends_with_0(machines, tmp_path):
    made = machines.initialize()
    first, second = machines.machine("first"), machines.machine("second")
    bucket = f"{machines.prefix}/inbox"
    machines.store.objects(bucket).put_bytes(
        "a.csv", (HEADER + csv_row("a") + csv_row("b")).encode()
    )
    with open_home(first.home, made.org_id, **machines.options) as home:
        add_inbox(home.stores.organization(made.org_id), bucket, Afterwards.LEAVE)
    port, health = free_port(), str(free_port())
    api = f"http://127.0.0.1:{port}/api"
    server_folder, worker_folder = tmp_path / "server", tmp_path / "worker"
    server_folder.mkdir()
    worker_folder.mkdir()
    of_server = environment(first, server_folder, api)
    of_worker = environment(second, worker_folder, api) | {"PREFECT_WORKER_WEBSERVER_PORT": health}
    start = ("server", "start", "--host", "127.0.0.1", "--port", str(port))
    work = ("worker", "start", "--pool", "meterlake", "--with-healthcheck")
    with running(of_server, *start, ready=f"{api}/health"):
        prefect(of_server, "work-pool", "create", "meterlake", "--type", "process")
        prefect(of_server, "--no-prompt", "deploy", "--name", "inbox")
        with running(of_worker, *work, ready=f"http://127.0.0.1:{health}/health") as process:
            prefect(of_server, "deployment", "run", "inbox/inbox", "--watch")
            drain(process)

    with open_home(first.home, made.org_id, **machines.options) as home:
        assert stored_uids(home.uids) == ["a", "b"]
        home.check_rows()
    assert list(second.home.iterdir())
