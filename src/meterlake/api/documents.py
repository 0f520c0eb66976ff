"""What handlers read from a request and answer with: ids in the path, pages of short lists."""

from typing import Final

from meterlake.api.call import Call
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.ids import is_id
from meterlake.pipeline.entities import Document, envelope
from meterlake.stores.state.pages import Page

_TOKEN_MAX: Final = 10


def member(call: Call, kind: str, name: str = "id") -> str:
    """An id in the path.

    Raises:
        NotFound: It is no id, so that nothing can have it.
    """
    found = call.path[name]
    if not is_id(found):
        raise NotFound(kind, found)
    return found.lower()


def cut(data: list[Document], wanted: Page) -> Document:
    """A page of a short list that was read whole; its token is the place of the next one.

    Raises:
        Invalid: The token is none that such a page gave.
    """
    token = wanted.token or "0"
    if not (token.isascii() and token.isdigit() and len(token) < _TOKEN_MAX):
        raise Invalid("nextToken", token, "the nextToken of the page before")
    start = int(token)
    end = start + wanted.size
    return envelope(data[start:end], str(end) if end < len(data) else None)
