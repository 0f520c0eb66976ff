"""The largest file that an upload URL takes, straight into a real object store, in constant memory.

The store's server is a real one where there is one (Ceph); the others are emulators that keep the
file in memory or on disk beside the test. Measured is the worker, which is the only
process of ours that the bytes go through.
"""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from meterlake.pipeline.ingest.uploads import announce, get_job
from meterlake.pipeline.maintenance.reconciliation import check_reconciliation
from meterlake.stores import open_stores
from tests.doubles.gcs import service_account
from tests.homes import ndjson, new_home, settings, wire_row

pytestmark = pytest.mark.slow
pytest_plugins = ["tests.doubles.fixtures"]

LINE_BYTES = 4096
ROWS = (1 << 30) // LINE_BYTES
# The process alone has 300; who held the file in memory would need 1,024 beside them.
PEAK_MAX_MIB = 1_100
PATIENCE_S = 1200


def lines(first, count):
    """NDJSON, each line filled up with spaces: what is stored of a gigabyte is soon compared."""
    rows = (wire_row(f"u{number}") for number in range(first, first + count))
    return b"".join(ndjson([row])[:-2].ljust(LINE_BYTES - 2) + b"}\n" for row in rows)


@contextmanager
def working(environment, log):
    """The worker that `meterlake serve` starts; gives its process."""
    command = [sys.executable, "-m", "meterlake.worker"]
    with log.open("wb") as told, subprocess.Popen(command, env=environment, stderr=told) as process:
        try:
            yield process
        finally:
            process.terminate()


def peak_mib(process):
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) >> 10


def ended(organization, job_id, process):
    """The job at its end."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        job = get_job(organization, job_id)
        if job["status"] in {"succeeded", "failed"}:
            return job
        time.sleep(0.5)
    raise TimeoutError(job)


@pytest.fixture
def account(tmp_path):
    """A service account that can sign."""
    with service_account() as content:
        file = tmp_path / "key.json"
        file.write_text(json.dumps(content))
        yield str(file)


@pytest.mark.parametrize("kind", ["radosgw", "gs", "moto"])
def test_a_gigabyte_goes_straight_to_the_store_and_is_ingested_in_constant_memory(
    kind, new_place, account, tmp_path, monkeypatch, record_property
):
    place = new_place(kind)
    if kind == "gs":
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", account)
    changes = {"objects": place.url, f"{'gcs' if kind == 'gs' else 's3'}_endpoint": place.server}
    made = settings(tmp_path / "home", **changes)
    org_id = new_home(made.home)
    names = {f"METERLAKE_{name.upper()}": value for name, value in changes.items()}
    environment = os.environ | names | {"METERLAKE_HOME": str(made.home)}
    size = ROWS * LINE_BYTES
    body = {"fileName": "f.ndjson", "contentType": "application/x-ndjson", "contentLength": size}
    with open_stores(made) as stores, working(environment, tmp_path / "log") as worker:
        organization = stores.organization(org_id)
        announced = announce(organization, "test", body, "")
        assert announced["url"].startswith(place.server)
        content = (lines(first, 256) for first in range(0, ROWS, 256))
        sent = httpx.put(
            announced["url"], content=content, headers=announced["headers"], timeout=600
        )
        assert sent.status_code == 200, sent.text
        job = ended(organization, announced["jobId"], worker)
        peak = peak_mib(worker)
        books = check_reconciliation(organization)

    record_property("peak_mib", peak)
    assert (job["status"], job["totalRows"], job["failedRows"]) == ("succeeded", ROWS, 0), job
    assert (books.measurements, books.balanced) == (ROWS, True)
    assert peak < PEAK_MAX_MIB
    assert list((made.home / "uploads" / org_id).iterdir()) == []
