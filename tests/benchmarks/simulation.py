"""A day of measurements from files and batches to bills and an export; CPU, bytes, objects, requests.

    PYTHONPATH=src:. python tests/benchmarks/simulation.py                  # 3.3 M rows: 1/100 of a day
    PYTHONPATH=src:. python tests/benchmarks/simulation.py --rows 33333     # a quick look

State and the lake's catalog are in PostgreSQL, the files in S3 (rclone where it is installed, else moto).
Half of the rows come in CSV files, the other half in batches through the segments of the API, without HTTP.
Requests to S3 are counted by a proxy before the server. `capacity.py` compares the answer with its model.
"""

import argparse
import json
import os
import re
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parent))

import main_job

from meterlake.model.measurements.receipt import Delivery
from meterlake.model.values.period import Month
from meterlake.model.work.export_request import ExportRequest
from meterlake.pipeline.billing.jobs.jobs import bill
from meterlake.pipeline.export.run import export
from meterlake.pipeline.home.generate import Recipe, generate
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.pipeline.ingest.segments import ingest_segments
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores import Organization

MONTH = Month(2026, 10)
FILE_ROWS = 100_000
BATCH = 1_000
REQUEST = re.compile(rb"(GET|PUT|HEAD|POST|DELETE) \S+ HTTP/1\.1\r\n")
Result = dict[str, float]


class CountingProxy:
    """Passes bytes to a server, and counts the requests among them."""

    def __init__(self, url: str) -> None:
        self.target = urlsplit(url).hostname, urlsplit(url).port
        self.counts: dict[str, int] = {}
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self.target)
                for ends in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._pass, args=ends, daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, count: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                for verb in REQUEST.findall(data) if count else ():
                    name = verb.decode()
                    self.counts[name] = self.counts.get(name, 0) + 1
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()

    def take(self) -> int:
        """How many requests there were since the last time."""
        total = sum(self.counts.values())
        self.counts = {}
        return total


@contextmanager
def in_bucket(folder: Path) -> Iterator[CountingProxy]:
    """State and catalog in PostgreSQL, files in S3, by the variables of this process."""
    import remote_lake

    from tests import postgres as server

    keys = dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "benchmark")
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, {**keys, "AWS_DEFAULT_REGION": "us-east-1"}))
        database = stack.enter_context(server.postgres())
        proxy = CountingProxy(stack.enter_context(remote_lake.bucket_server(folder / "bucket")))
        stack.callback(proxy.close)
        variables = {
            "METERLAKE_STATE": database,
            "METERLAKE_CATALOG": database,
            "METERLAKE_LAKE": "s3://lakes/simulated",
            "METERLAKE_S3_ENDPOINT": proxy.url,
        }
        stack.enter_context(patch.dict(os.environ, variables))
        yield proxy


def make_home(home: Path, accounts: int) -> None:
    """A home whose accounts are all on a plan."""
    with patch.object(main_job, "ACCOUNTS", accounts):
        main_job.make_home(home)
    main_job.subscribe_all(home, accounts)


def ingest_files(organization: Organization, lines: list[str]) -> int:
    """Ingest CSV files of 100,000 rows; how many there were."""
    header, *rows = lines
    files = 0
    with tempfile.TemporaryDirectory() as folder:
        for start in range(0, len(rows), FILE_ROWS):
            path = Path(folder, f"{start}.csv")
            path.write_text("".join([header, *rows[start : start + FILE_ROWS]]))
            arrival = Delivery(str(uuid4()), path.name, datetime.now(UTC))
            receipt = ingest_file(organization, path, arrival)
            assert receipt.accepted == receipt.received, receipt
            files += 1
    return files


def submit_batches(organization: Organization, rows: list[bytes]) -> int:
    """Append batches of 1,000 to segments as the API does; how many segments were ingested."""
    for start in range(0, len(rows), BATCH):
        organization.stores.segments.append(organization.id, rows[start : start + BATCH]).result()
    organization.stores.segments.close()
    return len(ingest_segments(organization))


def simulate(folder: Path, rows: int, accounts: int, requests: Callable[[], int]) -> Result:
    """Run all of it, and measure each part."""
    home, found = folder / "home", {"rows": rows, "accounts": accounts}
    make_home(home, accounts)
    sent = folder / "rows.csv"
    generate(Recipe(rows // 2, 1, accounts), sent)
    posted = folder / "rows.ndjson"
    generate(Recipe(rows - rows // 2, 2, accounts), posted)
    with main_job.stores_at(home) as stores:
        org = stores.state.organization()
        organization = stores.organization(org.id)
        requests()

        def measure(name: str, work: Callable[[], Any]) -> Any:
            start = time.process_time()
            answer = work()
            found[f"{name}_cpu"] = time.process_time() - start
            found[f"{name}_requests"] = requests()
            return answer

        lines = sent.read_text().splitlines(keepends=True)
        found["files"] = measure("files", lambda: ingest_files(organization, lines))
        batch = posted.read_bytes().splitlines()
        found["segments"] = measure("posts", lambda: submit_batches(organization, batch))
        measure("quantities", lambda: aggregate(organization, MONTH))
        measure("bills", lambda: bill(organization, MONTH))
        wire = {"source": "usage", "format": "csv", "types": ["measurements"], "month": None}
        request = ExportRequest.from_wire({**wire, "to": str(folder / "export")})
        measure("export", lambda: export(organization, request))
        found |= _sizes(organization)
    assert found["stored"] == rows
    return found


def _sizes(organization: Organization) -> Result:
    lake = organization.lake
    catalog = f'__ducklake_metadata_lake."{lake.catalog.schema}"'
    with lake.reader() as connection:
        sizes = {
            table: (size, count)
            for table, size, count in connection.execute(
                "SELECT t.table_name[:2], sum(f.file_size_bytes), count(*)"
                f" FROM {catalog}.ducklake_data_file f JOIN {catalog}.ducklake_table t"
                " ON t.table_id = f.table_id AND t.end_snapshot IS NULL GROUP BY ALL"
            ).fetchall()
        }
        [[stored]] = connection.execute("SELECT count(*) FROM lake.uid_index").fetchall()
        [[statistics]] = connection.execute(
            f"SELECT count(*) FROM {catalog}.ducklake_file_column_stats"
        ).fetchall()
    return {
        "stored": stored,
        "measurement_bytes": float(sizes["m_"][0]),
        "index_bytes": float(sizes["ui"][0]),
        "objects": sum(count for _, count in sizes.values()),
        "statistics": statistics,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=3_333_333)
    parser.add_argument("--accounts", type=int, default=5_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, in_bucket(Path(folder)) as proxy:
        found = simulate(Path(folder), given.rows, given.accounts, proxy.take)
    found["load"] = os.getloadavg()[1]
    print(json.dumps({name: round(value, 3) for name, value in found.items()}, indent=1))


if __name__ == "__main__":
    main()
