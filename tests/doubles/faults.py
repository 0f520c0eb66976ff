"""A network that fails on order: a TCP relay that loses answers, cuts connections or says nothing."""

import contextlib
import socket
import struct
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close with RST, as a broken connection does


class FaultyNetwork:
    """Relays connections to a server, and does what its attributes say.

    Attributes:
        lose_answers: So many answers are lost after the server did the work.
        cut_after_bytes: Connections are cut when a client has sent so many bytes.
        cuts: So many of them; 0 is none.
        silent: Nothing reaches the server any more; connections stay open.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        self._server = (parts.hostname, parts.port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.lose_answers = 0
        self.cut_after_bytes = 0
        self.cuts = 0
        self.silent = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in list(self._open):
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._server)
            self._open |= {client, server}
            for relay in (self._requests, self._answers):
                threading.Thread(
                    target=self._run, args=(relay, client, server), daemon=True
                ).start()

    def _run(self, relay: object, client: socket.socket, server: socket.socket) -> None:
        assert callable(relay)
        with contextlib.suppress(OSError):
            relay(client, server)
        self._close(client, server)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        sent = 0
        while data := client.recv(1 << 16):
            sent += len(data)
            if self.cuts and sent > self.cut_after_bytes and self._take("cuts"):
                self._reset(client, server)
                return
            if not self.silent:
                server.sendall(data)

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        while data := server.recv(1 << 16):
            # "100 Continue" only asks for the body: losing it would lose nothing.
            if b" 100 " not in data[:20] and self._take("lose_answers"):
                self._reset(client, server)
                return
            client.sendall(data)

    def _take(self, counter: str) -> bool:
        with self._lock:
            left = getattr(self, counter)
            setattr(self, counter, max(0, left - 1))
            return bool(left)

    def _reset(self, client: socket.socket, server: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._close(client, server)

    def _close(self, *connections: socket.socket) -> None:
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
            self._open.discard(connection)
