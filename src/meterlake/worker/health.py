"""How the worker is, over HTTP: /healthz, /readyz and /metrics, as the API has them; and what it counts."""

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from concurrent.futures import TimeoutError as NoAnswer
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    generate_latest,
)
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from meterlake.model.errors import MeterlakeError, Unavailable
from meterlake.model.values import wire
from meterlake.pipeline.jobs.fair_turns import Stop
from meterlake.stores import Stores

_ANSWER_S: Final = 5
_TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
_JSON: Final = "application/json"
_OURS: Final = (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR)


class WorkerHealth:
    """What the worker says of itself."""

    def __init__(self, stores: Stores, stop: Stop) -> None:
        self._stores = stores
        self._stop = stop
        # One that hangs must not be asked again and again.
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="health")

    def answer(self, path: str) -> tuple[int, str, bytes]:
        """Status, type and body of the answer to a request."""
        match path.partition("?")[0]:
            case "/healthz":
                return 200, _JSON, wire.dumps({"status": "alive"})
            case "/readyz":
                return self._readiness()
            case "/metrics":
                return 200, _TEXT, metrics_text(self._stores)
            case _:
                return 404, _JSON, wire.dumps({"message": "no such page"})

    def _readiness(self) -> tuple[int, str, bytes]:
        if self._stop():
            return _refusal("it stops")
        try:
            asked = self._pool.submit(self._stores.state.organizations)
        except RuntimeError:  # It was closed after the question came.
            return _refusal("it stops")
        try:
            asked.result(_ANSWER_S)
        except CancelledError:
            return _refusal("it stops")
        except NoAnswer:
            return _refusal("the State database does not answer")
        except MeterlakeError as error:
            return _refusal(str(error))
        return 200, _JSON, wire.dumps({"status": "ready"})

    def close(self) -> None:
        """Wait for nothing any more."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def _refusal(why: str) -> tuple[int, str, bytes]:
    return 503, _JSON, wire.dumps({"message": f"not ready: {why}"})


@contextmanager
def serve_health(health: WorkerHealth, host: str, port: int) -> Iterator[int]:
    """Answer requests about the worker while the body runs; the port.

    Raises:
        Unavailable: The port is taken.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = 30

        def handle(self) -> None:
            """Answer whoever is still there: a silent State takes longer than probes wait."""
            with suppress(ConnectionError):
                super().handle()

        def do_GET(self) -> None:
            """Answer."""
            status, kind, body = health.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: probes come every few seconds."""

    server = _listen(host, port, Handler)
    threading.Thread(target=server.serve_forever, name="health", daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        health.close()


def _listen(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    try:
        return ThreadingHTTPServer((host, port), handler)
    except OSError as error:
        raise Unavailable(
            f"the address {host} port {port}", str(error.strerror), "choose another host or port"
        ) from error


def metrics_text(stores: Stores) -> bytes:
    """The page of metrics; without those of State if it does not answer."""
    registry = CollectorRegistry()
    for each in (*_OURS, WaitingWork(stores)):
        registry.register(each)
    return generate_latest(registry)


class WaitingWork(Collector):
    """Jobs that wait or run, of all workers; submitted bytes that wait in this home."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def describe(self) -> list[Metric]:
        """Nothing: registering must not ask State."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Ask State and the folders of segments."""
        with suppress(MeterlakeError):
            org_ids = [each.id for each in self._stores.state.organizations()]
            text = "Jobs of all organizations that wait or run."
            found = GaugeMetricFamily("meterlake_jobs", text, labels=["kind", "status"])
            for (kind, status), count in self._stores.state.jobs.count_unfinished(org_ids).items():
                found.add_metric([kind, status], count)
            jobs = found
            yield jobs
            about = "Bytes of submitted measurements that wait in this home."
            folders = map(self._stores.segment_folder, org_ids)
            total = sum(each.waiting_bytes() for each in folders)
            segments = GaugeMetricFamily("meterlake_segment_bytes", about, value=total)
            yield segments
