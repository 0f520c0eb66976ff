"""Webhooks: runs that are sent durably, beside a bare httpx client that posts the same bodies.

    PYTHONPATH=src:. python tests/benchmarks/webhooks.py                  # 10,000 runs
    PYTHONPATH=src:. python tests/benchmarks/webhooks.py --runs 1000      # a quick look
    PYTHONPATH=src:. python tests/benchmarks/webhooks.py --drain 100000   # of 100 destinations one fails

The receiver is a process of its own that answers 200 at once; both send to it with ten requests at a
time to each of as many destinations. The bare client has the bodies in memory, signs nothing, keeps
nothing and is told nothing when it dies. Ours finds what is due, signs, writes each try and what
became of the run, synced, and may be killed at any moment. Each measurement is a process of its own,
which reports its time, its CPU time and its peak memory; they take turns, and the median is printed.
"""

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

CONCURRENCY = 10
_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
_FAILURE = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 2\r\n\r\nno"


class _Protocol(asyncio.Protocol):
    """Answers every request at once; to `/fail…` with a 500."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._data = b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (end := self._data.find(b"\r\n\r\n")) >= 0:
            head = self._data[:end].lower()
            at = head.index(b"content-length:") + 15
            size = end + 4 + int(head[at:].split(b"\r\n", 1)[0])
            if len(self._data) < size:
                return
            self._data = self._data[size:]
            self._transport.write(_FAILURE if head.startswith(b"post /fail") else _ANSWER)


def receive() -> None:
    """Serve until the parent ends."""
    import uvloop

    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Protocol, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    uvloop.run(serve())


def body_of(number: int) -> str:
    """The body of a notification, of about 700 bytes."""
    event = {"eventData": {"newDto": {"id": str(number), "text": "x" * 400, "amount": 12.5}}}
    data = {"id": f"{number:036}", "eventName": "billing.bill.created", "m3terEvent": event}
    return json.dumps({"type": "billing.bill.created", "timestamp": "2026-10-01", "data": data})


def bare(port: int, runs: int, destinations: int) -> None:
    """The same bodies by httpx alone."""
    import httpx

    async def post(client: httpx.AsyncClient, numbers: Iterator[int]) -> None:
        for number in numbers:
            url = f"http://127.0.0.1:{port}/{number % destinations}"
            answer = await client.post(url, content=bodies[number].encode())
            assert answer.status_code == 200

    async def work() -> None:
        limits = httpx.Limits(max_connections=CONCURRENCY * destinations)
        async with httpx.AsyncClient(limits=limits, timeout=15) as client:
            numbers = iter(range(runs))
            tasks = (post(client, numbers) for _ in range(CONCURRENCY * destinations))
            await asyncio.gather(*tasks)

    bodies = [body_of(number) for number in range(runs)]
    with timed():
        asyncio.run(work())


def prepare(home: Path, port: int, runs: int, destinations: int, failing: int) -> str:
    """A home whose runs wait; the organization."""
    from tests.deliveries import add_runs, content_for, new_webhook
    from tests.organizations import new_organization

    with opened(home) as stores:
        org = new_organization(stores.state)
        organization = stores.organization(org)
        webhooks = [
            new_webhook(organization, f"http://127.0.0.1:{port}/{'fail' * (n < failing)}{n}")
            for n in range(destinations)
        ]
        for start in range(0, runs, 5_000):
            numbers = range(start, min(start + 5_000, runs))
            add_runs(
                organization,
                [content_for(webhooks[n % destinations], n, body=body_of(n)) for n in numbers],
            )
        return org


@contextmanager
def opened(home: Path) -> Iterator[Any]:
    """The stores of a home, with the real clock."""
    from datetime import UTC, datetime

    from meterlake.settings import Settings
    from tests.organizations import open_new, prepare_home

    settings = Settings(home=home, webhook_allow=("127.0.0.1",), _env_file=None)
    if home.exists():
        from meterlake.stores import open_stores

        with open_stores(settings) as stores:
            yield stores
        return
    prepare_home(home)
    with open_new(settings, lambda: datetime.now(UTC)) as stores:  # type: ignore[arg-type]
        yield stores


def ours(home: str) -> None:
    """Send what is due."""
    from meterlake.pipeline.integrations.sender import send_due_runs

    with opened(Path(home)) as stores, timed():
        send_due_runs(stores)


@contextmanager
def timed() -> Iterator[None]:
    """Report what the body took."""
    start, cpu = time.perf_counter(), time.process_time()
    yield
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - start,
                "cpu": time.process_time() - cpu,
                "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            }
        )
    )


def measure(*arguments: object) -> dict[str, float]:
    """Run one measurement in a process of its own."""
    command = [sys.executable, __file__, *map(str, arguments)]
    found = subprocess.run(command, check=True, capture_output=True, text=True, env=_environment())
    answer: dict[str, float] = json.loads(found.stdout.splitlines()[-1])
    return answer


def _environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


@contextmanager
def receiver() -> Iterator[int]:
    """The receiver's port."""
    command = [sys.executable, __file__, "receive"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=_environment()
    ) as process:
        assert process.stdout
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def ended(home: Path, org: str) -> dict[str, int]:
    """How many runs stand how."""
    from sqlalchemy import func, select

    from meterlake.stores.state.integrations.run_tables import INTEGRATION_RUN

    column = INTEGRATION_RUN.c
    query = select(column.status, func.count().label("runs")).group_by(column.status)
    with opened(home) as stores, stores.state.reading(org) as reader:
        return {row.status: row.runs for row in reader.connection.execute(query)}


def compare(runs: int, destinations: int, repeat: int) -> None:
    """Both, in turns."""
    found: dict[str, list[dict[str, float]]] = {"ours": [], "bare": []}
    with receiver() as port, tempfile.TemporaryDirectory() as folder:
        for number in range(repeat):
            home = Path(folder, str(number))
            org = prepare(home, port, runs, destinations, 0)
            found["ours"].append(measure("ours", home))
            assert ended(home, org) == {"COMPLETE": runs}
            found["bare"].append(measure("bare", port, runs, destinations))
    for name, rounds in found.items():
        seconds = statistics.median(each["seconds"] for each in rounds)
        cpu = statistics.median(each["cpu"] for each in rounds)
        memory = max(each["memory"] for each in rounds)
        print(
            f"{name:5} {runs:7,} runs {seconds:7.2f} s {runs / seconds:7,.0f}/s"
            f" {cpu:7.2f} CPU s {memory:5.0f} MB"
        )
    ratio = [statistics.median(each[m] for each in found["bare"]) for m in ("seconds", "cpu")]
    own = [statistics.median(each[m] for each in found["ours"]) for m in ("seconds", "cpu")]
    print(f"rate ours / bare: {ratio[0] / own[0]:.2f} (wall), {ratio[1] / own[1]:.2f} (CPU)")


def drain(runs: int, destinations: int) -> None:
    """Many runs, of whose destinations one in a hundred fails."""
    failing = max(1, destinations // 100)
    with receiver() as port, tempfile.TemporaryDirectory() as folder:
        home = Path(folder, "home")
        org = prepare(home, port, runs, destinations, failing)
        took = measure("ours", home)
        print(ended(home, org))
    print(
        f"{runs:,} runs, {failing} of {destinations} destinations fail: {took['seconds']:.1f} s,"
        f" {took['cpu']:.1f} CPU s, {took['memory']:.0f} MB"
    )


def main() -> None:
    """Measure what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--destinations", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--drain", type=int, default=0)
    options = parser.parse_args()
    if options.drain:
        drain(options.drain, max(100, options.destinations))
    else:
        compare(options.runs, options.destinations, options.repeat)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["receive"]:
            receive()
        case ["ours", home]:
            ours(home)
        case ["bare", port, runs, destinations]:
            bare(int(port), int(runs), int(destinations))
        case _:
            main()
