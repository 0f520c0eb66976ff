"""The doors of ingest beside the least that could do the same, in the same run.

    python tests/benchmarks/ingest.py                      # all of it, about half an hour on 2 cores
    python tests/benchmarks/ingest.py submit commits       # some of it
    python tests/benchmarks/ingest.py --rows 2000000 --history 10000000 --commits 10 1000

`submit`: POST measurements, 1,000 a batch, beside a Starlette application that decodes the same
batch into structs with msgspec, appends it to a file and syncs it; on one and two workers, in turns.
The load comes from `wrk` where it is installed (it costs next to nothing), else from one Python
process. `bad`: a CSV with 1 % bad rows and 1 % repeats beside a clean one. `commits`: sources of
1,000 rows, one after the other in one process, as the worker ingests segments. `history`: 1 M rows,
and sources of 1,000 rows, against uids that are known already, beside an empty lake. `upload`: a
large file through an upload URL, and the memory of the processes. Medians of `--repeat` rounds.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import api
import httpx
import main_job

CONNECTIONS = 8
BATCH = 1000
BARE = """
import os
from uuid import uuid4
import msgspec
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

class Measurement(msgspec.Struct, gc=False):
    meter: str
    account: str
    ts: str
    uid: str | None = None
    who: dict[str, str] | None = None
    what: dict[str, str] | None = None
    where: dict[str, str] | None = None
    measure: dict[str, float] | None = None
    cost: dict[str, float] | None = None

class Batch(msgspec.Struct):
    measurements: list[Measurement]

decode = msgspec.json.Decoder(Batch).decode
handle = os.open(os.environ["BARE_FILE"] + uuid4().hex, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

async def submit(request):
    data = await request.body()
    decode(data)
    os.write(handle, data)
    os.fsync(handle)
    return Response(b'{"result":"accepted"}', media_type="application/json")

app = Starlette(routes=[Route("/measurements", submit, methods=["POST"])])
"""
WRK = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "{token}"
local file = io.open("{body}", "rb")
wrk.body = file:read("*a")
"""


# ---- one measurement, in a process of its own -------------------------------------------------


def wire_rows(tag: str, rows: int) -> list[dict[str, Any]]:
    """Measurements as they go over the wire."""
    return [
        {
            "meter": main_job.METER,
            "account": f"account-{(number * 7919) % main_job.ACCOUNTS + 1:05}",
            "uid": f"{tag}-{number:04}",
            "ts": "2026-10-03T10:00:00.123Z",
            "who": {"user": f"user-{number % 500}"},
            "what": {"model": "larch-small"},
            "where": {"region": "eu-central"},
            "measure": {"input_tokens": 1200, "output_tokens": 340, "latency_ms": 240},
            "cost": {"inference": 0.0125},
        }
        for number in range(rows)
    ]


def commits(home: Path, most: Path) -> dict[str, Any]:
    """Ingest sources of 1,000 rows in one process; the median of the last 50 at some counts."""
    from meterlake.model.measurements.receipt import Delivery
    from meterlake.pipeline.ingest.run import ingest_file

    marks = [int(word) for word in most.name.split("-")]
    times, found = [], {}
    with main_job.stores_at(home) as stores:
        org = stores.state.organization()
        path = home / "segment.ndjson"
        for number in range(marks[-1] + 50):
            rows = wire_rows(uuid4().hex, BATCH)
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            delivery = Delivery(str(uuid4()), path.name, datetime.now(UTC), own=True)
            start = time.perf_counter()
            receipt = ingest_file(stores.organization(org.id), path, delivery)
            times.append(time.perf_counter() - start)
            assert receipt.accepted == BATCH, receipt
            if number + 1 - 50 in marks:
                found[str(number + 1 - 50)] = statistics.median(times[-50:])
    return {"seconds": times[-1], "medians": found}


def known(home: Path, count: Path) -> dict[str, Any]:
    """Give a lake so many known uids, without measurements."""
    from meterlake.model.values.sql import quote

    start, rows = time.perf_counter(), int(count.name)
    with main_job.stores_at(home) as stores:
        lake = stores.lake(stores.state.organization().id)
        for first in range(0, rows, 10_000_000):
            staged = lake.staging / "known.parquet"
            last = min(first + 10_000_000, rows)
            with lake.lock(), lake.transaction() as connection:
                connection.execute(
                    "COPY (SELECT 'known-' || n AS uid, hash(n) AS uid_hash, hash(n + 1) AS"
                    " content_hash, 'none' AS meter_id, 'none' AS source, n AS row,"
                    f" 0::SMALLINT AS part FROM range({first}, {last}) t(n))"
                    f" TO {quote(staged)} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
                )
                lake.register(connection, "uid_index", staged, f"{uuid4()}.parquet")
    return {"seconds": time.perf_counter() - start}


MEASURES = {"commits": commits, "known": known, "ours_ingest": main_job.ours_ingest}


def measure(name: str, *paths: Path) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--measure", name, *map(str, paths)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


# ---- submit -----------------------------------------------------------------------------------


def submit(folder: Path, given: argparse.Namespace) -> None:
    from meterlake.pipeline.home.setup import initialize
    from meterlake.settings import Settings

    body = json.dumps({"measurements": wire_rows(uuid4().hex, BATCH)}).encode()
    (folder / "body.json").write_bytes(body)
    home = folder / "submit"
    made = initialize(Settings(home=home), "Benchmark")
    tool = "wrk" if shutil.which("wrk") else "Python"
    print(f"\nsubmit: batches of {BATCH:,} ({len(body) >> 10} KiB), load by {tool},", end=" ")
    print(f"{CONNECTIONS} connections, {given.seconds:g} s, median of {given.repeat}\n")
    print("| workers | ours | 99 % within | bare | 99 % within | ratio | goal |")
    print("|---|---|---|---|---|---|---|")
    for workers in (1, 2):
        ours, bare = [], []
        for _ in range(given.repeat):
            with _bare(folder, workers) as port:
                bare.append(_load(folder, port, "/measurements", "", given.seconds))
            with _ours(home, workers) as port:
                token = _token(port, made)
                path = f"/organizations/{made.org_id}/measurements"
                ours.append(_load(folder, port, path, f"Bearer {token}", given.seconds))
            shutil.rmtree(home / "lakes" / made.org_id / "segments", ignore_errors=True)
        print(f"| {workers} | {_cells(ours)} | {_cells(bare)} |", end=" ")
        print(
            f"{statistics.median(a[0] / b[0] for a, b in zip(ours, bare, strict=True)):.2f} | 0.7 |"
        )


def _cells(rounds: list[tuple[float, float]]) -> str:
    rate, p99 = (statistics.median(values) for values in zip(*rounds, strict=True))
    return f"{rate * BATCH:,.0f} measurements/s | {p99 * 1000:.0f} ms"


@contextmanager
def _bare(folder: Path, workers: int) -> Iterator[int]:
    from meterlake.stores.processes import free_port

    (folder / "bare_submit.py").write_text(BARE)
    files = folder / "bare"
    files.mkdir()
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "bare_submit:app", "--port", str(port)]
    command += ["--workers", str(workers), "--no-access-log", "--log-level", "warning"]
    command += ["--app-dir", str(folder)]
    with api._process(command, port, {"BARE_FILE": f"{files}/"}):
        yield port
    shutil.rmtree(files)


@contextmanager
def _ours(home: Path, workers: int) -> Iterator[int]:
    from meterlake.stores.processes import free_port

    port = free_port()
    command = [sys.executable, "-m", "meterlake.api", "--port", str(port)]
    more = {"METERLAKE_HOME": str(home), "METERLAKE_SEGMENT_BACKLOG": str(1 << 40)}
    with api._process([*command, "--workers", str(workers)], port, more):
        yield port


def _token(port: int, made: Any) -> str:
    """A token, as soon as the server gives one."""
    give_up = time.monotonic() + 60
    while True:
        try:
            answer = httpx.post(
                f"http://127.0.0.1:{port}/oauth/token",
                json={"grant_type": "client_credentials"},
                auth=(made.access_key_id, made.api_secret),
            )
            return str(answer.json()["access_token"])
        except httpx.HTTPError:
            assert time.monotonic() < give_up
            time.sleep(0.1)


def _load(folder: Path, port: int, path: str, token: str, seconds: float) -> tuple[float, float]:
    """Batches a second, and the seconds within which 99 % were answered."""
    body = folder / "body.json"
    if not shutil.which("wrk"):
        headers = {"Authorization": token} if token else {}
        message = api.request("POST", path, headers, body.read_bytes())
        api.load(port, lambda: message, 1, CONNECTIONS)
        times = api.load(port, lambda: message, seconds, CONNECTIONS)
        return len(times) / seconds, statistics.quantiles(times, n=100)[98]
    script = folder / "post.lua"
    script.write_text(WRK.format(token=token, body=body))
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", "--latency", "-s", str(script)]
    url = f"http://127.0.0.1:{port}{path}"
    subprocess.run([*command, "-d1s", url], check=True, capture_output=True)
    told = subprocess.run(
        [*command, f"-d{seconds:g}s", url], check=True, capture_output=True, text=True
    ).stdout
    assert "Non-2xx" not in told, told
    rate = float(re.search(r"Requests/sec: +([0-9.]+)", told)[1])
    value, unit = re.search(r"99% +([0-9.]+)(us|ms|s)", told).groups()
    return rate, float(value) * {"us": 1e-6, "ms": 1e-3, "s": 1}[unit]


# ---- files ------------------------------------------------------------------------------------


def bad(folder: Path, given: argparse.Namespace) -> None:
    from meterlake.pipeline.home.generate import Recipe, generate

    recipes = {
        "clean": Recipe(given.rows, 1, main_job.ACCOUNTS),
        "bad": Recipe(given.rows, 1, main_job.ACCOUNTS, bad=0.01, repeats=0.01),
    }
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in recipes}
    for name, recipe in recipes.items():
        generate(recipe, folder / f"{name}.csv")
    for number in range(given.repeat):
        for name in recipes:
            home = main_job.fresh(folder, f"{name}home-{number}")
            found[name].append(measure("ours_ingest", home, folder / f"{name}.csv"))
    clean, worse = (
        statistics.median(each["seconds"] for each in rounds) for rounds in found.values()
    )
    peak = max(each["rss_mb"] for each in found["bad"])
    print(f"\nbad: {given.rows:,} rows of CSV: clean {clean:.1f} s; with 1 % bad rows and", end=" ")
    print(f"1 % repeats {worse:.1f} s ({peak} MB), ratio {worse / clean:.2f}, goal 1.5")


def commits_stage(folder: Path, given: argparse.Namespace) -> None:
    home = main_job.fresh(folder, "commits")
    marks = "-".join(map(str, given.commits))
    found = measure("commits", home, Path(marks))
    told = "; ".join(f"{n} earlier {value * 1000:.0f} ms" for n, value in found["medians"].items())
    print(f"\ncommits: 1,000 rows, {main_job.ACCOUNTS:,} accounts, median of 50: {told}", end=" ")
    print(f"({found['rss_mb']} MB); goals 50 ms at first, 150 ms with a history")


def history(folder: Path, given: argparse.Namespace) -> None:
    more = main_job.generated(folder, "more.csv", 1_000_000, 10)
    home = main_job.fresh(folder, "history")
    measure("known", home, Path(str(given.history)))
    first = measure("commits", home, Path("1"))  # Builds the cache, too.
    later = measure("commits", home, Path("10"))["medians"]["10"]
    rounds = [
        (
            measure("ours_ingest", main_job.fresh(folder, f"empty-{number}"), more),
            measure(
                "ours_ingest",
                home,
                main_job.generated(folder, f"m{number}.csv", 1_000_000, 11 + number),
            ),
        )
        for number in range(given.repeat)
    ]
    empty, full = (statistics.median(each[k]["seconds"] for each in rounds) for k in (0, 1))
    peak = max(each[1]["rss_mb"] for each in rounds)
    print(
        f"\nhistory of {given.history:,} uids: a source of 1,000 rows {later * 1000:.0f} ms", end=""
    )
    print(f" (goal 150 ms; while the cache is built {first['rss_mb']} MB); 1 M rows {full:.1f} s,")
    print(f"empty lake {empty:.1f} s: {full - empty:.1f} s more (goal 1.5 s), {peak} MB (800 MB)")


# ---- upload -----------------------------------------------------------------------------------


def upload(folder: Path, given: argparse.Namespace) -> None:
    """A file through an upload URL: server and worker are processes of their own."""
    home = main_job.fresh(folder, "upload")
    path = main_job.generated(folder, "upload.csv", given.upload_rows, 3)
    with _signed_in(home) as (http, server), _worker(home) as worker:
        asked = {
            "fileName": path.name,
            "contentType": "text/csv",
            "contentLength": path.stat().st_size,
        }
        made = http.post("/fileuploads/measurements/generateUploadUrl", json=asked).json()
        start = time.perf_counter()
        with path.open("rb") as file:
            answer = httpx.put(made["url"], headers=made["headers"], content=file, timeout=600)
        answer.raise_for_status()
        sent = time.perf_counter() - start
        job = f"/fileuploads/measurements/jobs/{made['jobId']}"
        while (status := http.get(job).json()["status"]) not in {"succeeded", "failed"}:
            time.sleep(0.2)
        done = time.perf_counter() - start
        assert status == "succeeded"
        peaks = [_peak_mb(each) for each in (server, worker)]
    size = path.stat().st_size >> 20
    print(f"\nupload: {size:,} MiB sent in {sent:.1f} s, ingested after {done:.1f} s;", end=" ")
    print(f"peak of the server {peaks[0]} MB, of the worker {peaks[1]} MB")


@contextmanager
def _signed_in(home: Path) -> Iterator[tuple[httpx.Client, int]]:
    from meterlake.stores.processes import free_port

    port = free_port()
    env = {**os.environ, "METERLAKE_HOME": str(home)}
    command = [sys.executable, "-m", "meterlake.api", "--port", str(port)]
    made = json.loads((home.parent / "made.json").read_text())
    with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL) as process:
        try:
            token = _token(port, argparse.Namespace(**made))
            yield (
                httpx.Client(
                    base_url=f"http://127.0.0.1:{port}/organizations/{made['org_id']}",
                    headers={"Authorization": f"Bearer {token}"},
                    timeout=60,
                ),
                process.pid,
            )
        finally:
            process.terminate()


@contextmanager
def _worker(home: Path) -> Iterator[int]:
    env = {**os.environ, "METERLAKE_HOME": str(home)}
    command = [sys.executable, "-m", "meterlake.worker"]
    with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


def _peak_mb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) >> 10


# ---- the run ----------------------------------------------------------------------------------

STAGES = {
    "submit": submit,
    "bad": bad,
    "commits": commits_stage,
    "history": history,
    "upload": upload,
}


def run(folder: Path, given: argparse.Namespace) -> None:
    template = folder / "template"
    shutil.rmtree(template, ignore_errors=True)
    made = main_job.make_home(template)
    (folder / "made.json").write_text(json.dumps(made))
    for name in given.stages or STAGES:
        STAGES[name](folder, given)
        sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("stages", nargs="*", help=f"some of {', '.join(STAGES)}; all if absent")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--history", type=int, default=50_000_000)
    parser.add_argument("--commits", type=int, nargs="+", default=[10, 1_000, 10_000])
    parser.add_argument("--upload-rows", type=int, default=7_000_000, help="about 1 GiB")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="Where files go; a temporary folder if absent.")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        import resource

        result = MEASURES[given.measure](*map(Path, given.stages))
        result["rss_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(json.dumps(result))
    elif given.folder:
        given.folder.mkdir(parents=True, exist_ok=True)
        run(given.folder.absolute(), given)
    else:
        with tempfile.TemporaryDirectory(prefix="meterlake-benchmark-") as folder:
            run(Path(folder), given)


if __name__ == "__main__":
    main()
