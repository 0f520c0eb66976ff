"""What a question of the Data Explorer costs beside the bare DuckDB query on the same Parquet.

    PYTHONPATH=src:. python tests/benchmarks/explorer.py                   # 10 M rows, three minutes on 2 cores
    PYTHONPATH=src:. python tests/benchmarks/explorer.py --rows 1000000    # a quick look

A month of measurements lies in the lake of a new home, in files as ingest writes them. The same sum by
account and day is asked in turns of DuckDB on these files, of the verb, and of a server in a process of
its own over HTTP; medians and 95th percentiles are printed, and their ratios to DuckDB's.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import httpx

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.queries import UsageQueryRequest
from meterlake.model.resources.proposal import Document
from meterlake.model.values.problems import read
from meterlake.model.values.sql import quote
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.explorer.explore import explore
from meterlake.pipeline.home.setup import Initialized, initialize
from meterlake.settings import Settings
from meterlake.stores import Organization, open_stores
from meterlake.stores.processes import free_port
from tests.benchmarks.filled import fill

ACCOUNTS = 500
METER = {
    "code": "egress",
    "name": "Egress",
    "dataFields": [
        {"category": "MEASURE", "code": "gb", "name": "Sent"},
        {"category": "MEASURE", "code": "requests", "name": "Requests"},
        {"category": "WHERE", "code": "region", "name": "Region"},
    ],
    "derivedFields": [],
}
START, END = datetime(2026, 9, 1), datetime(2026, 10, 1)
ROWS = """
    SELECT 'u-' || i AS uid, $accounts[1 + (hash(i) % len($accounts))::INT] AS account_id,
        TIMESTAMP '2026-09-01' + INTERVAL (i * 7919 % 2592000) SECOND AS ts,
        NULL::TIMESTAMP AS ets, TIMESTAMP '2026-10-01' AS received_at, 'benchmark' AS source,
        i::BIGINT AS row, 0::SMALLINT AS part, (i % 100003 / 1000)::DECIMAL(38,12) AS "measure.gb",
        (1 + i % 9973)::DECIMAL(38,12) AS "measure.requests",
        ['eu-west-1', 'us-east-1', 'ap-south-1'][1 + (i % 3)::INT] AS "where.region"
    FROM range($first, $last) AS t(i)"""
BARE = """
    SELECT account_id, date_trunc('day', ts) AS day, sum("measure.gb")
    FROM read_parquet([{files}]) WHERE ts >= $start AND ts < $end
    GROUP BY 1, 2 ORDER BY 1, 2 DESC"""


def filled(organization: Organization, rows: int) -> list[Path]:
    """Configure the home, and put measurements into its lake."""
    accounts = [
        {"code": f"account-{n:03}", "name": "A", "emailAddress": "bills@a.example"}
        for n in range(ACCOUNTS)
    ]
    content = {"meters": [METER], "accounts": accounts}
    apply(organization.state, organization.id, [Document("b.yaml", content)], "benchmark")
    return fill(organization, ROWS, rows)


def question(organization: Organization) -> dict[str, Any]:
    """The sum of a month by account and day, as the wire asks it."""
    with organization.reading() as reader:
        meter = reader.find(Meter, "egress")
    assert meter is not None
    return {
        "startDate": f"{START.isoformat()}Z",
        "endDate": f"{END.isoformat()}Z",
        "aggregations": [
            {
                "meterId": meter.id,
                "fieldCode": "gb",
                "fieldType": "MEASURE",
                "function": "SUM",
            }
        ],
        "groups": [{"groupType": "ACCOUNT"}, {"groupType": "TIME", "frequency": "DAY"}],
    }


def bare(settings: Settings, files: list[Path]) -> Callable[[], int]:
    """DuckDB on the same files, with the same memory and threads."""
    connection = duckdb.connect(
        config={"memory_limit": settings.duckdb_memory, "threads": settings.threads}
    )
    sql = BARE.format(files=", ".join(quote(file) for file in files))
    return lambda: len(connection.execute(sql, {"start": START, "end": END}).fetchall())


def verb(organization: Organization, body: dict[str, Any]) -> Callable[[], int]:
    """The verb, with its answer as JSON."""
    query = read(UsageQueryRequest, body)

    def ask() -> int:
        answer = explore(organization, query)
        assert len(answer.to_json()) > 0
        return len(answer.tables[0].rows)

    return ask


@contextmanager
def over_http(
    settings: Settings, made: Initialized, body: dict[str, Any]
) -> Iterator[Callable[[], int]]:
    """A server, and one connection to it."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "--factory", "meterlake.console.app:app"]
    variables = {
        **os.environ,
        "METERLAKE_HOME": str(settings.home),
        "METERLAKE_LIMIT_EXPLORER": "false",
    }
    server = subprocess.Popen(
        [*command, "--port", str(port), "--log-level", "warning"], env=variables
    )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            token = _token(client, made)
            path = f"/organizations/{made.org_id}/usage/query"

            def ask() -> int:
                headers = {"Authorization": f"Bearer {token}"}
                answer = client.post(path, json=body, headers=headers)
                assert answer.status_code == httpx.codes.OK, answer.text
                return answer.content.count(b'"day"')

            yield ask
    finally:
        server.terminate()
        server.wait()


def _token(client: httpx.Client, made: Initialized) -> str:
    give_up = time.monotonic() + 60
    while True:
        try:
            answer = client.post(
                "/oauth/token",
                json={"grant_type": "client_credentials"},
                auth=(made.access_key_id, made.api_secret),
            )
            return str(answer.json()["access_token"])
        except httpx.TransportError:
            assert time.monotonic() < give_up, "the server does not answer"
            time.sleep(0.1)


def in_turns(asked: dict[str, Callable[[], int]], rounds: int) -> dict[str, list[float]]:
    """The seconds of every question; the first two of each are not counted."""
    found: dict[str, list[float]] = {name: [] for name in asked}
    rows = set()
    for number in range(rounds + 2):
        for name, ask in asked.items():
            begin = time.perf_counter()
            rows.add(ask())
            if number > 1:
                found[name].append(time.perf_counter() - begin)
    assert len(rows) == 1, rows
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder) / "home")
        made = initialize(settings, "Benchmark")
        with open_stores(settings) as stores:
            organization = stores.organization(made.org_id)
            files = filled(organization, options.rows)
            body = question(organization)
            asked = {
                "DuckDB": bare(settings, files),
                "the verb": verb(organization, body),
            }
            with over_http(settings, made, body) as http:
                found = in_turns({**asked, "HTTP": http}, options.rounds)
    base = [statistics.median(found["DuckDB"]), _p95(found["DuckDB"])]
    for name, seconds in found.items():
        both = [statistics.median(seconds), _p95(seconds)]
        ratios = " ".join(f"{ours / theirs:.2f}" for ours, theirs in zip(both, base, strict=True))
        print(f"{name:9} p50 {both[0]:.3f} s, p95 {both[1]:.3f} s, ratios {ratios}")


def _p95(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=20)[-1]


if __name__ == "__main__":
    main()
