"""HTTP/1.1 as uvicorn speaks it, with an end to heads that come too slowly or are too large.

Uvicorn waits for ever for the rest of a head, keeps as much of it as comes, and lets a client go on
sending a body whose answer is out. None of that needs a token, and each costs a connection.
"""

import asyncio
from http import HTTPStatus
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from meterlake.model.values import wire

HEAD_MAX: Final = 64 << 10
# What the application's lifespan says about it, and what holds where it says nothing.
SECONDS: Final = "request_seconds"
SECONDS_DEFAULT: Final = 60.0


class TimedProtocol(HttpToolsProtocol):
    """One connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._waiting: asyncio.TimerHandle | None = None
        self._in_head, self._head_bytes, self._is_whole = True, 0, True
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes in, unless a head grows too large."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > HEAD_MAX:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _TOO_LARGE)

    def on_message_begin(self) -> None:
        """Wait for the rest of a head."""
        super().on_message_begin()
        # Its first bytes came with the packet at hand, perhaps with what was before it.
        self._in_head, self._head_bytes, self._is_whole = True, 1, False
        self._wait()

    def on_headers_complete(self) -> None:
        """Start to answer: from here on it is the application that waits for the body."""
        self._in_head = False
        self._wait_no_more()
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > HEAD_MAX:
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, _TOO_LARGE)
            raise ValueError(_TOO_LARGE)  # The parser stops.
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that nothing more of this request comes."""
        self._is_whole = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait no longer than for a head for a body that nobody reads any more."""
        super().on_response_complete()
        if not self._is_whole and not self.transport.is_closing():
            self._wait()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP, in the form of all our errors."""
        self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def _wait(self) -> None:
        self._wait_no_more()
        self._waiting = self.loop.call_later(self._seconds, self._end_slow_request)

    def _wait_no_more(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    @property
    def _seconds(self) -> float:
        return float(self.app_state.get(SECONDS, SECONDS_DEFAULT))

    def _end_slow_request(self) -> None:
        if self._is_answering:
            self._wait()  # The next request came before the answer to the last one.
        elif self._in_head and self._head_bytes:
            text = f"the head of the request did not come within {self._seconds:g} s; send the request again"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, text)
        else:
            self.transport.close()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _refuse(self, status: HTTPStatus, text: str) -> None:
        """Answer without the application, and hang up."""
        if self.transport.is_closing():
            return
        if not self._is_answering:
            document = {"message": text}
            body = wire.dumps(document)
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            answer = head.encode() + body
            self.transport.write(answer)
        self.transport.close()


_TOO_LARGE: Final = f"the head of a request may have {HEAD_MAX} bytes"
