"""Small uploads and exports under `meterlake serve`, with Prefect and without it, in the same run.

    PYTHONPATH=src:. python tests/benchmarks/uploads.py             # about 4 minutes on 2 cores
    PYTHONPATH=src:. python tests/benchmarks/uploads.py --counts 1 20 --rounds 3

Both are started as people start them, one after the other, in turns, each with a home of its own.
A time is from the first announcement until the last job has succeeded. With Prefect it begins when
the server answers and a runner is warm; what every upload left there as a task is counted in the end.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx

ROWS = 100
WAIT_S = 600
HEADER = "meter,account,uid,ts,measure.gb,where.region\n"
COMMAND = "from meterlake.cli import main; main()"
# How many come through the door at the same time.
SENDERS = 4
EXPORTS = 10
EXPORTED = f"{EXPORTS} exports of the configuration"
GOALS = {"1 upload": "1.5 s", "20 uploads": "ratio 1.5", "200 uploads": "30 s", EXPORTED: ""}


@contextmanager
def serving(home: Path, *arguments: str) -> Iterator[dict[str, str]]:
    """`meterlake serve` of a home; the line that it prints."""
    from meterlake.stores.processes import free_port

    command = [sys.executable, "-c", COMMAND, "serve", "--home", str(home), "--json"]
    command += ["--port", str(free_port()), *arguments]
    with (home.parent / "serve.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    with process:
        try:
            yield json.loads(process.stdout.readline())
        finally:
            process.terminate()


def made_home(home: Path) -> Any:
    """A home with a meter and an account, and who may call."""
    from meterlake.model.proposal import Document
    from meterlake.pipeline.config.configure import apply
    from meterlake.pipeline.home.initialize import initialize
    from meterlake.settings import Settings
    from meterlake.stores import open_stores

    settings = Settings(home=home)
    made = initialize(settings, "Benchmark")
    fields = [("MEASURE", "gb"), ("WHERE", "region")]
    meter = {
        "code": "egress",
        "name": "Egress",
        "dataFields": [{"category": kind, "code": code, "name": code} for kind, code in fields],
        "derivedFields": [],
    }
    account = {"code": "acme", "name": "Acme", "emailAddress": "bills@acme.example"}
    features = {"beta": True, "preview": True}
    content = {"meters": [meter], "accounts": [account], "features": features}
    with open_stores(settings) as stores:
        apply(stores.state, made.org_id, [Document("benchmark.yaml", content)], "benchmark")
    return made


def client_of(url: str, made: Any) -> httpx.Client:
    given = {"grant_type": "client_credentials"}
    basic = (made.access_key_id, made.api_secret)
    token = httpx.post(f"{url}/oauth/token", json=given, auth=basic).json()["access_token"]
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{url}/organizations/{made.org_id}", headers=headers, timeout=60)


def send(http: httpx.Client) -> str:
    """Upload one file of new measurements; the id of its job."""
    rows = [f"egress,acme,{uuid4()},2026-10-03T10:00:00Z,{n},eu" for n in range(ROWS)]
    data = (HEADER + "\n".join(rows) + "\n").encode()
    about = {"fileName": "usage.csv", "contentType": "text/csv", "contentLength": len(data)}
    made = http.post("/fileuploads/measurements/generateUploadUrl", json=about).json()
    httpx.put(made["url"], headers=made["headers"], content=data).raise_for_status()
    return str(made["jobId"])


def uploads(http: httpx.Client, count: int) -> float:
    """Upload files, and wait until they are ingested; how long it took."""
    start = time.perf_counter()
    with ThreadPoolExecutor(SENDERS) as pool:
        left = set(pool.map(lambda _: send(http), range(count)))
    while left:
        found = {each: http.get(f"/fileuploads/measurements/jobs/{each}").json() for each in left}
        assert "failed" not in {each["status"] for each in found.values()}, found
        left = {each for each in left if found[each]["status"] != "succeeded"}
        assert time.perf_counter() - start < WAIT_S, len(left)
        time.sleep(0.05)
    return time.perf_counter() - start


def exports(home: Path, org_id: str, count: int) -> float:
    """Ask for exports of the configuration, and wait until they are written; how long it took."""
    from meterlake.model.export_request import ExportRequest, Format, Source
    from meterlake.pipeline.export.run import submit_export
    from meterlake.settings import Settings
    from meterlake.stores import open_stores

    request = ExportRequest(source=Source.OPERATIONAL, format=Format.CSV)
    with open_stores(Settings(home=home)) as stores:
        start = time.perf_counter()
        left = {submit_export(stores, org_id, request) for _ in range(count)}
        while left:
            left = {each for each in left if stores.state.jobs.get(each).finished is None}
            assert time.perf_counter() - start < WAIT_S, len(left)
            time.sleep(0.05)
        return time.perf_counter() - start


def wait_until_warm(http: httpx.Client, pages: httpx.Client) -> int:
    """Upload one file after the other until one of them is a run; how many it took."""
    for number in range(1, WAIT_S):
        uploads(http, 1)
        if tasks(pages):
            return number
        time.sleep(1)
    raise AssertionError("no upload became a run")


def tasks(pages: httpx.Client) -> int:
    """How many files have become tasks that ended well, as far as Prefect knows."""
    wanted = {"name": {"like_": "ingest usage.csv"}, "state": {"type": {"any_": ["COMPLETED"]}}}
    try:
        return int(pages.post("/task_runs/count", json={"task_runs": wanted}).json())
    except httpx.HTTPError:
        return 0  # Not up yet.


def measured(folder: Path, counts: list[int], *, flows: bool) -> dict[str, float]:
    """The seconds for each count of uploads, of a single one the median of five; and for exports."""
    made = made_home(folder / "home")
    with (
        serving(folder / "home", *([] if flows else ["--no-flows"])) as line,
        client_of(line["api"], made) as http,
        httpx.Client(base_url=f"{line.get('prefect')}/api", timeout=60) as pages,
    ):
        uploads(http, 1)
        before = wait_until_warm(http, pages) if flows else 0
        times = {
            _title(count): statistics.median(
                uploads(http, count) for _ in range(5 if count == 1 else 1)
            )
            for count in counts
        }
        times[EXPORTED] = exports(folder / "home", made.org_id, EXPORTS)
        if flows:
            _tell_tasks(pages, before, sum(5 if count == 1 else count for count in counts))
    return times


def _title(count: int) -> str:
    return f"{count} upload{'s' if count > 1 else ''}"


def _tell_tasks(pages: httpx.Client, before: int, sent: int) -> None:
    """Say how many of the uploads are tasks; they arrive a little later than their ends."""
    give_up = time.monotonic() + 60
    while tasks(pages) <= sent and time.monotonic() < give_up:
        time.sleep(0.5)
    mine = {"flow_runs": {"name": {"like_": "upload "}}}
    runs = pages.post("/flow_runs/count", json=mine).json()
    print(
        f"(of {sent} uploads {tasks(pages) - 1} are tasks, of {runs} runs; before, {before} ",
        end="",
    )
    print("uploads waited for Prefect)", flush=True)


def run(folder: Path, given: argparse.Namespace) -> None:
    found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
    loads = [os.getloadavg()[0]]
    for number in range(given.rounds):
        for flows in (False, True):
            place = folder / f"{number}-{flows}"
            place.mkdir()
            found[flows].append(measured(place, given.counts, flows=flows))
            loads.append(os.getloadavg()[0])
    print(f"\nuploads of {ROWS} rows, load {min(loads):.1f}-{max(loads):.1f}\n")
    print("| what | without Prefect | with Prefect | ratio | goal |\n|---|---|---|---|---|")
    for title in found[True][0]:
        bare, ours = (
            statistics.median(each[title] for each in found[flows]) for flows in (False, True)
        )
        print(
            f"| {title} | {bare:.2f} s | {ours:.2f} s | {ours / bare:.2f} | {GOALS.get(title, '')} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 20, 200])
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="meterlake-benchmark-") as folder:
        run(Path(folder), given)


if __name__ == "__main__":
    main()
