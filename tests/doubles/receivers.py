"""A receiver of webhooks on this machine that answers in every way that receivers do."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

Answer = Callable[["_Handler"], None]


@dataclass
class Received:
    """One request that came.

    Attributes:
        data: What it says, if its signature was verified.
    """

    path: str
    headers: dict[str, str]
    body: bytes
    time: float
    data: Any = None
    method: str = "POST"

    @property
    def id(self) -> str:
        """The id of the delivery."""
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """A receiver; by the path of a request it chooses how it answers.

    Attributes:
        received: All requests, as they came.
        answers: How it answers by path; a function that takes the handler, or a status.
    """

    port: int = 0
    received: list[Received] = field(default_factory=list)
    answers: dict[str, Answer | int] = field(default_factory=dict)
    sent: int = 0

    def url(self, path: str = "/200") -> str:
        """The address of one of its paths."""
        return f"http://127.0.0.1:{self.port}{path}"

    def of(self, path: str) -> list[Received]:
        """What came on a path."""
        return [each for each in self.received if each.path == path]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    receiver: Receiver
    request_received: Received

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        headers = {name.lower(): value for name, value in self.headers.items()}
        body, now = self.rfile.read(length), time.time()
        request = Received(self.path, headers, body, now, method=self.command)
        self.receiver.received.append(request)
        self.request_received = request
        answer = self.receiver.answers.get(self.path) or _ANSWERS[self.path]
        if isinstance(answer, int):
            respond(self, answer, b"" if answer == 204 else b"ok")
        else:
            answer(self)

    do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:  # The sender has had enough.
            self.close_connection = True


def respond(handler: Any, status: int, body: bytes = b"ok", **headers: str) -> None:
    """Answer as it should be."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def verify_signature(secret: str) -> Answer:
    """How a receiver answers that takes nothing but what is signed with a secret: 204 or 401."""
    webhook = Webhook(secret)

    def answer(handler: Any) -> None:
        request = handler.request_received
        try:
            request.data = webhook.verify(request.body, request.headers)
        except WebhookVerificationError:
            respond(handler, 401)
        else:
            respond(handler, 204, b"")

    return answer


def _hang(handler: Any) -> None:
    handler.close_connection = True
    time.sleep(4)


def _drip(handler: Any) -> None:
    """One byte a second, for ever: each of them arrives in time."""
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    for _ in range(20):
        handler.wfile.write(b"x")
        time.sleep(1)


def _flood(handler: Any) -> None:
    """Ten gigabytes."""
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
    block = b"x" * 65536
    for _ in range(10_000_000_000 // len(block)):
        handler.wfile.write(block)
        handler.receiver.sent += len(block)


def _garbage(handler: Any) -> None:
    handler.close_connection = True
    handler.wfile.write(b"\0\xff this is no HTTP\r\n\r\n" * 100)


_ANSWERS: dict[str, Answer | int] = {
    **{f"/{status}": status for status in (200, 204, 400, 401, 404, 410, 500, 502)},
    "/301": lambda handler: respond(handler, 301, Location="/200"),
    "/429": lambda handler: respond(handler, 429, Retry_After="3600"),
    "/nul": lambda handler: respond(handler, 500, b"a\0b\xff" + b"x" * 5000),
    "/hang": _hang,
    "/drip": _drip,
    "/flood": _flood,
    "/garbage": _garbage,
}


class _Server(ThreadingHTTPServer):
    request_queue_size = 1000
    daemon_threads = True


@contextmanager
def silent_receiver() -> Iterator[tuple[str, list[socket.socket]]]:
    """One that takes every connection and answers none: its address, and the connections."""
    connections: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as server:

        def accept() -> None:
            with suppress(OSError):  # It is closed.
                while True:
                    connections.append(server.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}", connections
        server.shutdown(socket.SHUT_RDWR)
    for each in connections:
        each.close()


@contextmanager
def running_receiver() -> Iterator[Receiver]:
    """A receiver, until the body ends."""
    receiver = Receiver()
    handler = type("Handler", (_Handler,), {"receiver": receiver})
    server = _Server(("127.0.0.1", 0), handler)
    receiver.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
