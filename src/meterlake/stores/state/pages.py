"""Pages of a list: newest first, stable while rows are added, continued by an opaque token."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, or_
from sqlalchemy.sql.elements import ColumnElement

from meterlake.model.errors import Invalid


@dataclass(frozen=True, slots=True)
class Page:
    """Which part of a list is wanted: at most `size` rows after the one that a token names."""

    size: int
    token: str | None = None


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
        instant, last = _decode(page.token)
        query = query.where(or_(created < instant, and_(created == instant, id < last)))
    query = query.order_by(created.desc(), id.desc()).limit(page.size + 1)
    rows = connection.execute(query.add_columns(created.label("at"), id.label("last"))).all()
    if len(rows) <= page.size:
        return rows, None
    last_row = rows[page.size - 1]
    return rows[: page.size], _encode(last_row[-2], last_row[-1])


def _encode(created: datetime, id: str) -> str:
    return base64.urlsafe_b64encode(f"{created.isoformat()} {id}".encode()).decode().rstrip("=")


def _decode(token: str) -> tuple[datetime, str]:
    try:
        padded = token.encode() + b"=" * (-len(token) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        created, _, id_ = text.partition(" ")
        instant = datetime.fromisoformat(created)
    except (binascii.Error, ValueError):
        raise Invalid("nextToken", token, "the nextToken of the page before") from None
    if instant.tzinfo is None or "\x00" in id_:
        raise Invalid("nextToken", token, "the nextToken of the page before")
    return instant, id_
