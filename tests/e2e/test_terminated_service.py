"""SIGTERM to the worker in the middle of a job, and to `serve` in the middle of what it receives.

Both end in their time; what was acknowledged is there, and what was not can be sent again.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx
import pytest

from meterlake.model.measurements.receipt import UploadStatus
from meterlake.pipeline.export.run import run_export, submit_export
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.uploads import announce, get_job, ingest_uploads
from meterlake.stores import open_stores
from meterlake.stores.processes import free_port
from meterlake.stores.state import JobStatus
from tests.doubles.destinations import usage
from tests.homes import ACCOUNTS, EGRESS, configure, new_home, open_home, settings, wire_row
from tests.served import Served

pytestmark = pytest.mark.slow

# What docs/operations.md says, and what a busy machine needs beside it.
BROKEN_OFF_S = 10
PATIENCE_S = 60
DATA = json.dumps([wire_row("a"), wire_row("b")]).encode()
COMMAND = "from meterlake.cli import main; main()"
# A worker that is terminated when it comes to a step.
WORKER = """
import os, signal, sys
from meterlake.model.values import failpoint
from meterlake.worker.__main__ import main

left = [sys.argv[1]]

def hook(name):
    if name in left:
        left.clear()
        os.kill(os.getpid(), signal.SIGTERM)

failpoint.hook = hook
main()
sys.exit(1 if left else 0)
"""


def announced(organization, base="https://here.example"):
    body = {"fileName": "f.json", "contentType": "text/json", "contentLength": len(DATA)}
    return announce(organization, "test", body, base)


@pytest.mark.parametrize(
    "step", ["uploads.taken", "ingest.staged", "lake.before_commit", "export.taken", "export.kept"]
)
def test_a_worker_ends_the_job_at_hand_and_leaves_none_claimed(tmp_path, step):
    path, out = tmp_path / "home", tmp_path / "out"
    org_id = new_home(path)
    out.mkdir()
    with open_home(path, org_id, export_folder=out) as home:
        configure(home.stores.organization(org_id), features={"beta": True, "preview": True})
        upload = announced(home.stores.organization(org_id))["jobId"]
        home.stores.objects.put_bytes(f"uploads/{org_id}/{upload}", DATA)
        export = submit_export(home.stores.organization(org_id), usage())
    environment = os.environ | {"METERLAKE_HOME": str(path), "METERLAKE_EXPORT_FOLDER": str(out)}
    environment["METERLAKE_PREFECT_URL"] = ""

    done = subprocess.run(
        [sys.executable, "-c", WORKER, step], env=environment, timeout=PATIENCE_S, check=False
    )

    assert done.returncode == 0, "the step was not reached"
    with open_home(path, org_id, export_folder=out) as home:
        jobs = home.stores.state.jobs
        ended = {
            get_job(home.stores.organization(org_id), upload)["status"],
            jobs.get(export).status.value,
        }
        assert ended & {UploadStatus.SUCCEEDED.value, JobStatus.COMPLETE.value}, ended
        # Another one need not wait for a lease: what was not ended was not begun.
        list(ingest_uploads(home.stores.organization(org_id)))
        if jobs.get(export).status is not JobStatus.COMPLETE:
            run_export(home.stores, export)
        assert get_job(home.stores.organization(org_id), upload)["processedRows"] == 2
        assert jobs.get(export).status is JobStatus.COMPLETE
        assert [row[0] for row in home.uids()] == ["a", "b"]
        home.check()


def half_sent(url, method, headers, data):
    """A request of which the second half of the body is still to come."""
    parts = urlsplit(url)
    head = {"Host": parts.netloc, "Content-Length": str(len(data)), **headers}
    lines = [f"{method} {parts.path} HTTP/1.1", *(f"{name}: {head[name]}" for name in head)]
    connection = socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_S)
    text = "\r\n".join(lines).encode() + b"\r\n\r\n"
    connection.sendall(text + data[: len(data) // 2])
    return connection


def status_of(connection):
    """The status of the answer; None without one."""
    try:
        line = connection.recv(1 << 16).partition(b"\r\n")[0].split()
    except OSError:
        return None
    finally:
        connection.close()
    return int(line[1]) if line else None


@contextmanager
def serving(options, port):
    """`serve` without flows, once it answers."""
    command = [sys.executable, "-c", COMMAND, "serve", "--home", str(options.home), "--json"]
    with subprocess.Popen(
        [*command, "--port", str(port), "--no-flows"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline()
        yield process
        process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert process.wait(PATIENCE_S) == 0
        # The server and the worker one after the other, on a busy machine.
        assert time.monotonic() - began < 3 * BROKEN_OFF_S


def test_serve_ends_with_half_a_batch_and_half_a_file_and_keeps_what_it_acknowledged(tmp_path):
    options, port = settings(tmp_path / "home"), free_port()
    made = initialize(options, "Acme")
    base = f"http://127.0.0.1:{port}"
    with open_stores(options) as stores:
        organization = stores.organization(made.org_id)
        configure(organization, meters=[EGRESS], accounts=ACCOUNTS)
        known = (made.org_id, made.access_key_id, made.api_secret)
        client = Served(base, *known, options, stores)
        with serving(options, port), client.http() as http:
            assert http.post("/measurements", content=batch("kept")).is_success
            upload = announced(organization, base)
            posted = half_sent(
                f"{base}/organizations/{made.org_id}/measurements",
                "POST",
                {
                    "Authorization": http.headers["authorization"],
                    "Content-Type": "application/json",
                },
                batch("half"),
            )
            put = half_sent(upload["url"], "PUT", {"Content-Type": "text/json"}, DATA)
            time.sleep(0.5)  # Both have come to those who read them.
        for connection in (posted, put):
            assert (status_of(connection) or 500) >= 400, "nothing half is acknowledged"
        assert get_job(organization, upload["jobId"])["status"] == "notUploaded"
        assert not list(options.home.glob("objects/uploads/*/*"))
    with serving(options, port), open_home(options.home, made.org_id) as home:
        again = httpx.put(upload["url"], content=DATA, headers=upload["headers"])
        assert again.status_code == 200, again.text
        give_up = time.monotonic() + PATIENCE_S
        while sorted(row[0] for row in home.uids()) != ["a", "b", "kept"]:
            assert time.monotonic() < give_up, home.uids()
            time.sleep(0.2)
    with open_home(options.home, made.org_id) as home:
        home.check()


def batch(uid):
    return json.dumps({"measurements": [wire_row(uid)]}).encode()
