"""What goes out: JSON answers, pages of short lists, and errors as `{"message": ...}`."""

import logging
from typing import Any, Final

from starlette.responses import Response

from meterlake.model.errors import Conflict, MeterlakeError, TooMany, TooSlow, Unavailable
from meterlake.model.values import wire
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.stores.state.core.pages import Page, position_of, position_token

_log: Final = logging.getLogger("meterlake.api")
_NO_RETRY: Final = {"x-should-retry": "false"}


class JsonResponse(Response):
    """A document that is JSON already."""

    media_type = "application/json"


class WireResponse(JsonResponse):
    """A document of the wire as JSON."""

    def render(self, content: Any) -> bytes:
        """Encode it; numbers stay exact."""
        return wire.dumps({} if content is None else content)


def failure(error: Exception) -> WireResponse:
    """The answer to an error; what is no fault of the caller's says nothing of our inside."""
    if not isinstance(error, MeterlakeError):
        _log.error("a request failed", exc_info=error)
        return message(500, "the server failed; the request id leads to its log")
    if isinstance(error, Unavailable):
        _log.warning("a request failed: %s", error)
        return message(error.status, "a disk, a database or a store fails; try again")
    headers = _NO_RETRY if isinstance(error, Conflict) else {}
    if isinstance(error, TooSlow):
        headers = {"Connection": "close"}  # What may still come is not for the next request.
    if isinstance(error, TooMany):
        headers = {"Retry-After": str(error.retry_after)}
    return message(error.status, str(error), headers)


def message(status: int, text: str, headers: dict[str, str] | None = None) -> WireResponse:
    """An answer that says one sentence."""
    # Texts of callers stand in sentences: what is no Unicode may not get out again.
    safe = text.encode("utf-8", "replace").decode()
    return WireResponse({"message": safe}, status, headers)


def select_page(data: list[Document], page: Page) -> Document:
    """A page of a short list that was read whole; its token is the place of the next one.

    Raises:
        Invalid: The token is none that such a page gave.
    """
    start = position_of(page.token)
    end = start + page.size
    return envelope(data[start:end], position_token(end) if end < len(data) else None)
