"""What handlers read from a request and answer with: ids in the path, pages of short lists."""

from meterlake.api.server.call import Call
from meterlake.model.errors import NotFound
from meterlake.model.values.ids import is_id
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.stores.state.core.pages import Page, position_of, position_token


def member(call: Call, kind: str, name: str = "id") -> str:
    """An id in the path.

    Raises:
        NotFound: It is no id, so that nothing can have it.
    """
    found = call.path[name]
    if not is_id(found):
        raise NotFound(kind, found)
    return found.lower()


def select_page(data: list[Document], page: Page) -> Document:
    """A page of a short list that was read whole; its token is the place of the next one.

    Raises:
        Invalid: The token is none that such a page gave.
    """
    start = position_of(page.token)
    end = start + page.size
    return envelope(data[start:end], position_token(end) if end < len(data) else None)
