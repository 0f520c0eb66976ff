"""Small uploads and exports under `meterlake serve`, with Prefect and without it, in the same run.

    PYTHONPATH=src:. python tests/benchmarks/uploads.py             # about 4 minutes on 2 cores
    PYTHONPATH=src:. python tests/benchmarks/uploads.py --counts 1 20 --rounds 3

Both are started as people start them, one after the other, in turns, each with a home of its own.
A time is from the first announcement until the last job has succeeded. With Prefect it begins when
the server answers and a runner is warm; what every upload left there as a task is counted in the end.
The seconds of CPU are those of all processes of `serve`, Prefect's server among them: on a machine with
other work they say more than the time.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx

from tests.prefect_access import SignedIn

ROWS = 100
WAIT_S = 600
HEADER = "meter,account,uid,ts,measure.gb,where.region\n"
COMMAND = "from meterlake.cli import main; main()"
# How many come through the door at the same time.
SENDERS = 4
EXPORTS = 10
EXPORTED = f"{EXPORTS} exports of the configuration"
GOALS = {"1 upload": "1.5 s", "20 uploads": "ratio 1.5", "200 uploads": "30 s", EXPORTED: ""}


class Cost(NamedTuple):
    """What something took."""

    seconds: float
    cpu: float


@contextmanager
def serving(home: Path, *arguments: str) -> Iterator[dict[str, Any]]:
    """`meterlake serve` of a home; the line that it prints, and its process."""
    from meterlake.stores.processes import free_port

    command = [sys.executable, "-c", COMMAND, "serve", "--home", str(home), "--json"]
    command += ["--port", str(free_port()), *arguments]
    with (home.parent / "serve.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    with process:
        try:
            yield {**json.loads(process.stdout.readline()), "pid": process.pid}
        finally:
            process.terminate()


def made_home(home: Path) -> Any:
    """A home with a meter and an account, and who may call."""
    from meterlake.model.resources.proposal import Document
    from meterlake.pipeline.config.apply_configuration import apply
    from meterlake.pipeline.home.setup import initialize
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


def cpu_of(serve: int) -> float:
    """The seconds of CPU that a process and all that descend from it have used."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(") ")[2].split()
            # Also those of children that have ended.
            parents[int(path.parent.name)] = int(fields[1])
            used[int(path.parent.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    mine = {serve}
    while more := {each for each, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(used[each] for each in mine)


def cost(serve: int, work: Callable[[], float]) -> Cost:
    """What some work took, and the CPU of `serve` meanwhile."""
    before = cpu_of(serve)
    seconds = work()
    return Cost(seconds, cpu_of(serve) - before)


def uploads(http: httpx.Client, count: int) -> float:
    """Upload files, and wait until they are ingested; how long it took."""
    start = time.perf_counter()
    with ThreadPoolExecutor(SENDERS) as pool:
        sent = list(pool.map(lambda _: send(http), range(count)))
    # One after the other: whoever asks for all of them all the time measures the questions.
    for each in sent:
        while (status := http.get(f"/fileuploads/measurements/jobs/{each}").json()["status"]) != (
            "succeeded"
        ):
            assert status != "failed", each
            assert time.perf_counter() - start < WAIT_S, each
            time.sleep(0.05)
    return time.perf_counter() - start


def exports(home: Path, org_id: str, count: int) -> float:
    """Ask for exports of the configuration, and wait until they are written; how long it took."""
    from meterlake.model.work.export_request import ExportRequest, Format, Source
    from meterlake.pipeline.export.run import submit_export
    from meterlake.settings import Settings
    from meterlake.stores import open_stores

    request = ExportRequest(source=Source.OPERATIONAL, format=Format.CSV)
    with open_stores(Settings(home=home)) as stores:
        start = time.perf_counter()
        left = {submit_export(stores.organization(org_id), request) for _ in range(count)}
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


def measured(folder: Path, counts: list[int], *, flows: bool) -> dict[str, Cost]:
    """The cost of each count of uploads, of a single one the median of five; and of exports."""
    made, home = made_home(folder / "home"), folder / "home"
    with (
        serving(home, *([] if flows else ["--no-flows"])) as line,
        client_of(line["api"], made) as http,
        httpx.Client(
            base_url=f"{line.get('prefect')}/api", timeout=60, auth=SignedIn(home)
        ) as pages,
    ):
        uploads(http, 1)
        before = wait_until_warm(http, pages) if flows else 0
        found = {}
        for count in counts:
            times = [cost(line["pid"], lambda: uploads(http, count)) for _ in _repeats(count)]  # noqa: B023
            found[_title(count)] = statistics.median(times)
        found[EXPORTED] = cost(line["pid"], lambda: exports(home, made.org_id, EXPORTS))
        if flows:
            _tell_tasks(pages, before, sum(count * len(_repeats(count)) for count in counts))
    return found


def _repeats(count: int) -> range:
    return range(5 if count == 1 else 1)


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
    found: dict[bool, list[dict[str, Cost]]] = {False: [], True: []}
    loads = [os.getloadavg()[0]]
    for number in range(given.rounds):
        for flows in (False, True):
            place = folder / f"{number}-{flows}"
            place.mkdir()
            found[flows].append(measured(place, given.counts, flows=flows))
            loads.append(os.getloadavg()[0])
    print(f"\nuploads of {ROWS} rows, load {min(loads):.1f}-{max(loads):.1f}\n")
    print(
        "| what | without Prefect | with Prefect | ratio | CPU without | CPU with | ratio | goal |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for title in found[True][0]:
        cells = [
            _cells([[each[title][of] for each in found[flows]] for flows in (False, True)])
            for of in (0, 1)
        ]
        print(f"| {title} | {' | '.join(cells)} | {GOALS.get(title, '')} |")


def _cells(both: list[list[float]]) -> str:
    # The least of all rounds is the one that other work disturbed least.
    bare, ours = map(min, both)
    return f"{bare:.2f} s | {ours:.2f} s | {ours / bare:.2f}"


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
