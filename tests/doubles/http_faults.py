"""A relay of HTTP in front of a real server: it tells what was asked, and fails on order.

`FaultyNetwork` knows bytes only; this one knows which request it is, so that a test can cut the
connection in the second part of an upload, or answer in the words that the real store has for it.
"""

import contextlib
import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

_RESET = struct.pack("ii", 1, 0)
_HOP = {"connection", "transfer-encoding", "content-length", "keep-alive"}


@dataclass(frozen=True)
class Asked:
    """One request.

    Attributes:
        step: Of S3: `create`, `part 2`, `complete`, `abort`, `uploads`; else the method.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: Message
    body: bytes = field(repr=False)

    @property
    def step(self) -> str:
        if "partNumber" in self.query:
            return f"part {self.query['partNumber']}"
        if "uploads" in self.query:
            return "create" if self.method == "POST" else "uploads"
        if "uploadId" in self.query:
            return {"POST": "complete", "DELETE": "abort"}[self.method]
        return self.method

    @property
    def form(self) -> dict[str, str]:
        """The fields of the body."""
        return {name: value[0] for name, value in parse_qs(self.body.decode()).items()}


@dataclass(frozen=True)
class Answer:
    """What the relay answers itself."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


class Cut(Exception):
    """Cut the connection: `before` the server hears of it, or `after` it did the work."""

    def __init__(self, when: str = "before") -> None:
        super().__init__(when)
        self.when = when


Rule = Callable[[Asked], Answer | None]


def s3_error(status: int, code: str, more: str = "", **headers: str) -> Answer:
    """An error as S3 words it."""
    body = f"<Error><Code>{code}</Code><Message>{code} it is</Message>{more}</Error>"
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    headers = {"Content-Type": "text/xml", **named}
    return Answer(status, f'<?xml version="1.0"?>{body}'.encode(), headers)


@dataclass
class Relay:
    """A running relay; set `rule` to have it do something else than relaying."""

    url: str = ""
    rule: Rule = lambda _: None
    asked: list[Asked] = field(default_factory=list)

    def steps(self) -> list[str]:
        return [each.step for each in self.asked]


@contextmanager
def relay(server: str) -> Iterator[Relay]:
    """Relay to a server until the body ends."""
    with _Listening(urlsplit(server).netloc) as listening:
        listening.relay.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield listening.relay
        finally:
            listening.shutdown()
            thread.join()


class _Listening(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, target: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.target = target
        self.relay = Relay()

    def handle_error(self, *_: Any) -> None:
        """A client that went away, or a connection that we cut."""

    def shutdown_request(self, request: Any) -> None:
        with contextlib.suppress(OSError):
            super().shutdown_request(request)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Listening

    def __getattr__(self, name: str) -> Any:
        """Every method is served alike."""
        if name.startswith("do_"):
            return self._serve
        raise AttributeError(name)

    def _serve(self) -> None:
        asked, target = self._read(), self.server.target
        self.server.relay.asked.append(asked)
        try:
            answer = self.server.relay.rule(asked) or _forwarded(target, self.path, asked)
        except Cut as cut:
            if cut.when == "after":
                _forwarded(target, self.path, asked)
            self._reset()
        else:
            self._write(answer)

    def _read(self) -> Asked:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            body = b"".join(_chunks(self.rfile))
        parts = urlsplit(self.path)
        values = parse_qs(parts.query, keep_blank_values=True)
        query = {name: each[0] for name, each in values.items()}
        return Asked(self.command, parts.path, query, self.headers, body)

    def _write(self, answer: Answer) -> None:
        self.send_response_only(answer.status)
        head = self.command == "HEAD"
        length = answer.headers.get("Content-Length", "0") if head else str(len(answer.body))
        for name, value in answer.headers.items():
            if name.lower() not in _HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", length)
        self.end_headers()
        if not head:
            self.wfile.write(answer.body)

    def _reset(self) -> None:
        self.close_connection = True
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self.connection.close()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _chunks(stream: Any) -> Iterator[bytes]:
    while size := int(stream.readline().split(b";")[0], 16):
        yield stream.read(size)
        stream.readline()
    while stream.readline().strip():
        pass


def _forwarded(target: str, path: str, asked: Asked) -> Answer:
    connection = http.client.HTTPConnection(target, timeout=60)
    try:
        skipped = {"transfer-encoding", "content-length", "expect", "connection"}
        connection.putrequest(asked.method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in asked.headers.items():
            if name.lower() not in skipped:
                connection.putheader(name, value)
        connection.putheader("Content-Length", str(len(asked.body)))
        connection.endheaders(asked.body)
        answer = connection.getresponse()
        return Answer(answer.status, answer.read(), dict(answer.getheaders()))
    finally:
        connection.close()
