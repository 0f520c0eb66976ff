"""Pages of a list: newest first, stable while rows are added, continued by an opaque token."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, and_, or_
from sqlalchemy.sql.elements import ColumnElement

from meterlake.model.errors import Invalid

NEXT_TOKEN: Final = "nextToken"  # noqa: S105  # the name of a parameter
TOKEN_RULE: Final = "it must be the nextToken of the page before"  # noqa: S105
_POSITION_MAX: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is wanted: at most `size` rows after the one that a token names.

    Attributes:
        oldest_first: The order of the list, where a list can have both.
    """

    size: int
    token: str | None = None
    oldest_first: bool = False


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
    instant, last = key_of(token)
    if oldest_first:
        return or_(created > instant, and_(created == instant, id > last))
    return or_(created < instant, and_(created == instant, id < last))


def position_token(position: int) -> str:
    """The token of a page that begins at a place of a list that is counted, not keyed."""
    return _opaque(str(position))


def position_of(token: str | None) -> int:
    """The place where a page begins; the first one without a token.

    Raises:
        Invalid: The token is none that `place_token` gave.
    """
    if token is None:
        return 0
    text = _text(token)
    if not text.isdigit() or len(text) > len(str(_POSITION_MAX)) or int(text) > _POSITION_MAX:
        raise _foreign(token)
    return int(text)


def key_token(created: datetime, id: str) -> str:
    """The token of a page that begins after a row with such a creation and id."""
    return _opaque(f"{created.isoformat()} {id}")


def key_of(token: str) -> tuple[datetime, str]:
    """The creation and the id of the row that a token names.

    Raises:
        Invalid: The token is none that `key_token` gave.
    """
    created, _, id_ = _text(token).partition(" ")
    try:
        instant = datetime.fromisoformat(created)
    except ValueError:
        raise _foreign(token) from None
    if instant.tzinfo is None or "\x00" in id_:
        raise _foreign(token)
    return instant, id_


def _opaque(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _text(token: str) -> str:
    try:
        padded = token.encode() + b"=" * (-len(token) % 4)
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        raise _foreign(token) from None


def _foreign(token: str) -> Invalid:
    return Invalid(NEXT_TOKEN, token, TOKEN_RULE)
