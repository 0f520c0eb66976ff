"""The API of one worker beside a bare FastAPI route, in the same run.

    python tests/benchmarks/api.py                     # about 2 minutes on 2 cores
    python tests/benchmarks/api.py --seconds 2 --accounts 10000

The server is a process of its own; the load comes from this one over a few kept connections, with
requests that are written once and answers that are not parsed: what is measured is the server.
"""

import argparse
import asyncio
import base64
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

CONNECTIONS = 8

BARE = """
from fastapi import FastAPI
app = FastAPI()
BODY = {"id": "x" * 36, "version": 1, "name": "Halvorsen Cloud", "code": "halvorsen"}
@app.get("/organizations/{org}/accounts/{id}")
async def read(org: str, id: str) -> dict[str, object]:
    return BODY
"""


# ---- load -------------------------------------------------------------------------------------


async def _one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return int(head[9:12])


async def _loop(port: int, make: Callable[[], bytes], until: float, times: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    while (start := time.perf_counter()) < until:
        status = await _one(reader, writer, make())
        assert status == 200, status
        times.append(time.perf_counter() - start)
    writer.close()


def load(
    port: int, make: Callable[[], bytes], seconds: float, connections: int = CONNECTIONS
) -> list[float]:
    """Send requests for some seconds; how long each one took."""
    times: list[float] = []

    async def run() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(_loop(port, make, until, times) for _ in range(connections)))

    asyncio.run(run())
    return times


def request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """A whole HTTP request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


# ---- servers ----------------------------------------------------------------------------------


@contextmanager
def bare(folder: Path, port: int) -> Iterator[None]:
    """A FastAPI application with one route."""
    (folder / "bare_app.py").write_text(BARE)
    command = [sys.executable, "-m", "uvicorn", "bare_app:app", "--port", str(port)]
    command += ["--no-access-log", "--log-level", "warning", "--app-dir", str(folder)]
    with _process(command, port, {}):
        yield


@contextmanager
def ours(home: Path, port: int) -> Iterator[None]:
    """One worker of meterlake, as `meterlake serve` runs it."""
    command = [sys.executable, "-m", "meterlake.api", "--port", str(port)]
    with _process(command, port, {"METERLAKE_HOME": str(home)}):
        yield


@contextmanager
def _process(command: list[str], port: int, more: dict[str, str]) -> Iterator[None]:
    log = subprocess.DEVNULL
    with subprocess.Popen(command, env={**os.environ, **more}, stderr=log) as process:
        try:
            give_up = time.monotonic() + 60
            while not _answers(port):
                assert process.poll() is None, command
                assert time.monotonic() < give_up, command
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    async def look() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()

    try:
        asyncio.run(look())
    except OSError:
        return False
    return True


# ---- the run ----------------------------------------------------------------------------------


class Lines:
    """Prints a line per measurement; ratios against the bare route."""

    def __init__(self, bare_rate: float) -> None:
        self.bare_rate = bare_rate

    def rate(self, title: str, times: list[float], seconds: float, goal: str = "") -> None:
        rate = len(times) / seconds
        p99 = statistics.quantiles(times, n=100)[98] * 1000
        ratio = f"{rate / self.bare_rate:.2f}"
        print(f"| {title} | {rate:,.0f}/s | {p99:.1f} ms | {ratio} | {goal} |", flush=True)


def run(seconds: float, accounts: int, folder: Path) -> None:
    from meterlake.model.values.ids import derived_id
    from meterlake.pipeline.home.setup import initialize
    from meterlake.settings import Settings
    from meterlake.stores import open_stores
    from meterlake.stores.processes import free_port
    from meterlake.stores.state.core.auto_accounts import create_auto_accounts

    print(f"one worker, {CONNECTIONS} connections, {accounts:,} accounts;", end=" ")
    print(f"{platform.machine()}, Python {platform.python_version()}\n")
    print("| what | rate | 99 % within | beside the bare route | goal |\n|---|---|---|---|---|")
    port = free_port()
    with bare(folder, port):
        get = request("GET", "/organizations/a/accounts/b", {})
        load(port, lambda: get, min(seconds, 1))
        times = load(port, lambda: get, seconds)
    lines = Lines(len(times) / seconds)
    lines.rate("bare FastAPI route", times, seconds)

    home = folder / "home"
    made = initialize(Settings(home=home), "Benchmark")
    with open_stores(Settings(home=home)) as stores:
        codes = [f"account-{number:06}" for number in range(accounts)]
        ids = {code: derived_id(made.org_id, "account", code) for code in codes}
        create_auto_accounts(stores.state, made.org_id, ids)
    port = free_port()
    with ours(home, port):
        measure(lines, port, made, list(ids.values()), seconds)


def measure(lines: Lines, port: int, made: object, ids: list[str], seconds: float) -> None:
    basic = base64.b64encode(f"{made.access_key_id}:{made.api_secret}".encode()).decode()
    grant = json.dumps({"grant_type": "client_credentials"}).encode()
    ask = request("POST", "/oauth/token", {"Authorization": f"Basic {basic}"}, grant)
    load(port, lambda: ask, min(seconds, 1))
    lines.rate("tokens", load(port, lambda: ask, seconds), seconds)

    bearer = {"Authorization": f"Bearer {token(port, ask)}"}
    base = f"/organizations/{made.org_id}/accounts"
    gets = [request("GET", f"{base}/{id_}", bearer) for id_ in ids[:1000]]
    turn = iter(range(1 << 60))
    lines.rate(
        "reads of an account",
        load(port, lambda: gets[next(turn) % len(gets)], seconds),
        seconds,
        "0.5",
    )

    def post() -> bytes:
        code = f"new-{next(turn)}"
        body = {"name": code, "code": code, "emailAddress": "a@example.com"}
        return request("POST", base, bearer, json.dumps(body).encode())

    lines.rate("creations of an account", load(port, post, seconds), seconds)
    page = request("GET", f"{base}?pageSize=100", bearer)
    times = load(port, lambda: page, seconds, connections=1)
    median = statistics.median(times) * 1000
    print(f"| a page of 100 accounts, one connection | {median:.1f} ms (median) | | | 20 ms |")


def token(port: int, ask: bytes) -> str:
    """A bearer token."""

    async def fetch() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ask)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        writer.close()
        return body

    return str(json.loads(asyncio.run(fetch()))["access_token"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--accounts", type=int, default=100_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="meterlake-benchmark-") as folder:
        run(given.seconds, given.accounts, Path(folder))


if __name__ == "__main__":
    main()
