"""Exports of raw measurements beside bare DuckDB `COPY`, and to S3 beside bare boto3.

    PYTHONPATH=src:. python tests/benchmarks/export.py                 # 10 M rows
    PYTHONPATH=src:. python tests/benchmarks/export.py --rows 100000   # a quick look
    PYTHONPATH=src:. python tests/benchmarks/export.py --s3 http://127.0.0.1:9000

Every measurement is a process of its own, which reports its time and its peak memory (RSS); ours and
bare ones take turns, and the median of `--repeat` rounds is printed. The bare `COPY` reads the lake's
files, orders them by uid and writes one file with DuckDB's own compression; it writes no sums and no
manifest, hashes nothing and syncs nothing. To S3, both upload the same finished files; the server is
moto in a process of its own unless `--s3` names another one, whose credentials are those of the
environment.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.benchmarks import main_job
from tests.doubles.s3 import moto_server

COPY = {
    "csv": "FORMAT csv, COMPRESSION gzip",
    "jsonl": "FORMAT json, COMPRESSION gzip",
    "parquet": "FORMAT parquet, COMPRESSION zstd",
}


def ours(home: str, format: str, to: str) -> None:
    """A whole export: staged, hashed, synced, put and described by a manifest."""
    from meterlake.model.work.export_request import ExportRequest, Format, Source
    from meterlake.pipeline.export.run import export

    with main_job.stores_at(Path(home)) as stores:
        org = stores.state.organization()
        request = ExportRequest(
            source=Source.USAGE, format=Format(format), types=("measurements",), to=to
        )
        with timed():
            export(stores.organization(org.id), request)


def bare(home: str, format: str, to: str) -> None:
    """The same rows in the same order by `COPY` alone."""
    files, *_ = main_job.lake_files(Path(home))
    connection = main_job.duckdb_connection()
    columns = "* EXCLUDE (received_at, source, row, part)"
    query = f"SELECT {columns} FROM read_parquet({files}, hive_partitioning=false) ORDER BY uid"
    with timed():
        connection.execute(f"COPY ({query}) TO '{to}' ({COPY[format]})")


def ours_s3(folder: str, url: str, bucket: str) -> None:
    """Finished files through our object store: conditional, and compared with their hashes."""
    from meterlake.pipeline.export.files import digest
    from meterlake.settings import Settings
    from meterlake.stores.objects import open_objects

    settings = Settings(home=Path(folder), s3_endpoint=url)
    objects = open_objects(f"s3://{bucket}/{uuid4()}", settings)
    files = finished(folder)
    known = {path: digest(path)[1] for path in files}  # the manifest has them
    assert not list(objects.list())  # boto3 is loaded, as it is beside
    with timed():
        for path in files:
            objects.put_file(path.name, path, create_only=True, sha256=known[path])


def bare_s3(folder: str, url: str, bucket: str) -> None:
    """The same files with boto3's `upload_file`."""
    import boto3

    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    files, prefix = finished(folder), str(uuid4())
    with timed():
        for path in files:
            client.upload_file(str(path), bucket, f"{prefix}/{path.name}")


def finished(folder: str) -> list[Path]:
    return sorted(path for path in Path(folder).rglob("*measurements*") if path.is_file())


@contextmanager
def timed() -> Iterator[None]:
    """Time the body and print what it took, and this process's peak memory."""
    start = time.perf_counter()
    yield
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(json.dumps({"seconds": seconds, "rss_mb": memory}))


def serve() -> None:
    """Serve S3 until the standard input ends."""
    with moto_server() as url:
        print(url, flush=True)
        sys.stdin.read()


MEASURES: dict[str, Callable[..., None]] = {
    each.__name__: each for each in (ours, bare, ours_s3, bare_s3, serve)
}


def measure(name: str, *arguments: str) -> dict[str, Any]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, "--measure", name, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{name}: {done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


@contextmanager
def s3_server(url: str | None) -> Iterator[str]:
    """The given server, or one of our own in another process."""
    if url is not None:
        yield url
        return
    os.environ |= {"AWS_ACCESS_KEY_ID": "benchmark", "AWS_SECRET_ACCESS_KEY": "benchmark"}
    command = [sys.executable, __file__, "--measure", "serve"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        with suppress(BrokenPipeError):
            process.communicate()


def run(rows: int, repeat: int, folder: Path, url: str | None) -> None:
    """Measure and print a table."""
    home = folder / "home"
    main_job.make_home(home)
    main_job.measure("ours_ingest", home, main_job.generated(folder, "rows.csv", rows, 1))
    print(f"{rows:,} rows, median of {repeat}\n")
    print("| what | ours | peak memory | beside | ratio | reach |\n|---|---|---|---|---|---|")
    table = main_job.Table()
    for kind, options in COPY.items():
        for number in range(repeat):
            to = str(folder / f"{kind}-{number}")
            table.add(f"ours {kind}", measure("ours", str(home), kind, to))
            table.add(f"bare {kind}", measure("bare", str(home), kind, f"{to}.bare"))
        title = f"measurements by uid, beside COPY ({options})"
        table.line(title, f"ours {kind}", f"bare {kind}", "1.3, 1 GiB")
    with s3_server(url) as found:
        to_s3(table, repeat, folder / "csv-0", found)


def to_s3(table: main_job.Table, repeat: int, folder: Path, url: str) -> None:
    """Measure the uploads of finished files."""
    import boto3

    bucket = f"benchmark-{uuid4()}"
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    client.create_bucket(Bucket=bucket)
    for _ in range(repeat):
        table.add("ours s3", measure("ours_s3", str(folder), url, bucket))
        table.add("bare s3", measure("bare_s3", str(folder), url, bucket))
    table.line("finished CSV.gz to S3, beside boto3's upload_file", "ours s3", "bare s3", "1.3")


def main() -> None:
    """Measure, or be one measurement."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="Where files go; a temporary folder if absent.")
    parser.add_argument("--s3", help="The URL of an S3 server; one of our own if absent.")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        MEASURES[given.measure](*given.arguments)
        return
    with tempfile.TemporaryDirectory(prefix="meterlake-benchmark-", dir=given.folder) as folder:
        run(given.rows, given.repeat, Path(folder), given.s3)


if __name__ == "__main__":
    main()
