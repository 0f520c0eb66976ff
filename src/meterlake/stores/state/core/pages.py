"""Pages of a list: newest first, stable while rows are added, continued by an opaque token."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, Select, or_, tuple_
from sqlalchemy.sql.elements import ColumnElement

from meterlake.model.errors import Invalid
from meterlake.model.resources.listing import Search
from meterlake.model.values.fields import is_storable

NEXT_TOKEN: Final = "nextToken"  # noqa: S105  # the name of a parameter
TOKEN_RULE: Final = "it must be the nextToken of the page before"  # noqa: S105
_POSITION_MAX: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is wanted: at most `size` rows after the one that a token names.

    Attributes:
        oldest_first: The order of the list, where a list can have both.
        search: What the rows are narrowed by and which field orders them, where a list can do that.
    """

    size: int
    token: str | None = None
    oldest_first: bool = False
    search: Search | None = None


class SortKey(NamedTuple):
    """What a list is ordered by.

    Attributes:
        value: What sorts.
        written: The same as a text, for tokens.
        read: Makes of such a text what compares with `value`.
    """

    value: ColumnElement[Any]
    written: ColumnElement[str]
    read: Callable[[str], ColumnElement[Any]]


def read(
    connection: Connection,
    query: Select[Any],
    created: ColumnElement[datetime],
    id: ColumnElement[str],
    page: Page,
) -> tuple[Sequence[Row[Any]], str | None]:
    """One page of a query, and the token of the next; None at the end.

    Raises:
        Invalid: The token is none that a list gave.
    """
    if page.token:
        query = query.where(_behind(created, id, page.token, oldest_first=page.oldest_first))
    order = (created, id) if page.oldest_first else (created.desc(), id.desc())
    query = query.order_by(*order).limit(page.size + 1)
    rows = connection.execute(query.add_columns(created.label("at"), id.label("last"))).all()
    if len(rows) <= page.size:
        return rows, None
    last_row = rows[page.size - 1]
    return rows[: page.size], key_token(last_row[-2], last_row[-1])


def _behind(
    created: ColumnElement[datetime], id: ColumnElement[str], token: str, *, oldest_first: bool
) -> ColumnElement[bool]:
    # As one comparison, by which an index leads to the place: the rows before it are not read.
    place = tuple_(created, id)
    return place > key_of(token) if oldest_first else place < key_of(token)


def read_sorted(
    connection: Connection, query: Select[Any], key: SortKey, id: ColumnElement[str], page: Page
) -> tuple[Sequence[Row[Any]], str | None]:
    """As `read`, in the order of a field, and of rows with the same value by id.

    Rows without a value are the last ones in both directions: they are a query of their own, so that
    an index of the field serves on every database.

    Raises:
        Invalid: The token is none that the list gave in this order.
    """
    assert page.search is not None
    ascending = page.search.ascending
    value, last = (None, "") if page.token is None else _sorted_place(page.token, page.search)
    query = query.add_columns(key.written.label("at"), id.label("last"))
    rows: list[Row[Any]] = []
    if page.token is None or value is not None:
        keyed = query.where(key.value.is_not(None))
        if value is not None:
            keyed = keyed.where(
                *_after(key.value, id, (key.read(value), last), ascending=ascending)
            )
        order = (key.value, id) if ascending else (key.value.desc(), id.desc())
        rows += connection.execute(keyed.order_by(*order).limit(page.size + 1))
    if len(rows) <= page.size:
        without = query.where(key.value.is_(None))
        if page.token is not None and value is None:
            without = without.where(id > last)
        rows += connection.execute(without.order_by(id).limit(page.size + 1 - len(rows)))
    if len(rows) <= page.size:
        return rows, None
    place = [page.search.sort_by, ascending, *rows[page.size - 1][-2:]]
    return rows[: page.size], opaque_token(json.dumps(place))


def _after(
    key: ColumnElement[Any],
    id: ColumnElement[str],
    place: tuple[ColumnElement[Any], str],
    *,
    ascending: bool,
) -> tuple[ColumnElement[bool], ...]:
    """What is behind a place; the first condition alone is a range of an index."""
    value, last = place
    if ascending:
        return key >= value, or_(key > value, id > last)
    return key <= value, or_(key < value, id < last)


def _sorted_place(token: str, search: Search) -> tuple[str | None, str]:
    """The value and the id of the row that a token of `read_sorted` names."""
    try:
        place = json.loads(token_text(token))
    except (ValueError, RecursionError):
        raise refuse_token(token) from None
    match place:
        case [str(by), bool(ascending), None | str() as value, str(last)] if (by, ascending) == (
            search.sort_by,
            search.ascending,
        ) and is_storable(f"{value}{last}"):
            return value, last
    raise refuse_token(token)


def position_token(position: int) -> str:
    """The token of a page that begins at a place of a list that is counted, not keyed."""
    return opaque_token(str(position))


def position_of(token: str | None) -> int:
    """The place where a page begins; the first one without a token.

    Raises:
        Invalid: The token is none that `place_token` gave.
    """
    if token is None:
        return 0
    text = token_text(token)
    if not text.isdigit() or len(text) > len(str(_POSITION_MAX)) or int(text) > _POSITION_MAX:
        raise refuse_token(token)
    return int(text)


def key_token(created: datetime, id: str) -> str:
    """The token of a page that begins after a row with such a creation and id."""
    return opaque_token(f"{created.isoformat()} {id}")


def key_of(token: str) -> tuple[datetime, str]:
    """The creation and the id of the row that a token names.

    Raises:
        Invalid: The token is none that `key_token` gave.
    """
    created, _, id_ = token_text(token).partition(" ")
    try:
        instant = datetime.fromisoformat(created)
    except ValueError:
        raise refuse_token(token) from None
    if instant.tzinfo is None or "\x00" in id_:
        raise refuse_token(token)
    return instant, id_


def opaque_token(text: str) -> str:
    """A token that says some ASCII text, though nobody is to read it."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def token_text(token: str) -> str:
    """What `opaque_token` was given.

    Raises:
        Invalid: It was given nothing.
    """
    try:
        padded = token.encode() + b"=" * (-len(token) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise refuse_token(token) from None


def refuse_token(token: str) -> Invalid:
    """The error of a token that no list gave."""
    return Invalid(NEXT_TOKEN, token, TOKEN_RULE)
