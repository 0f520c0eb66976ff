"""What handlers read from a request and answer with: ids, bodies, pages."""

from typing import Any, Final, TypeVar

from pydantic import ValidationError

from meterlake.api.call import Call
from meterlake.model.entity import Value
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.ids import is_id
from meterlake.model.problems import problems, refuse
from meterlake.stores.state.pages import Page

V = TypeVar("V", bound=Value)
Document = dict[str, Any]

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


def read(kind: type[V], document: Document) -> V:
    """A value from a body.

    Raises:
        Invalid: A field breaks a rule.
    """
    try:
        return kind.model_validate(document, by_alias=True, by_name=False)
    except ValidationError as error:
        refuse(list(problems(error)))
        raise


def listed(data: list[Document], token: str | None = None) -> Document:
    """A page as the wire has it."""
    return {"data": data, "nextToken": token} if token else {"data": data}


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
    return listed(data[start:end], str(end) if end < len(data) else None)
