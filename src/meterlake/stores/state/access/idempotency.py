"""Requests that were sent with a key, so that each acts once: what each was, and its answer."""

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, delete, insert, select, update
from sqlalchemy.exc import IntegrityError

from meterlake.stores.state.access.access_tables import IDEMPOTENCY_KEY


@dataclass(frozen=True, slots=True)
class KeyedRequest:
    """A request with a key.

    Attributes:
        id: SHA-256 of the key, and of whose it is.
        org: The organization.
        request_sha256: What was asked for.
        created: When.
        answer: What it was answered, encrypted; None until then.
    """

    id: str
    org: str
    request_sha256: str
    created: datetime
    answer: str | None = field(default=None, repr=False)


def keyed_request(connection: Connection, id: str, since: datetime) -> KeyedRequest | None:
    """The request that came with a key after an instant, or None."""
    table = IDEMPOTENCY_KEY.c
    query = select(IDEMPOTENCY_KEY).where(table.id == id, table.created > since)
    row = connection.execute(query).first()
    return None if row is None else KeyedRequest(**row._asdict())


def add_keyed_request(connection: Connection, made: KeyedRequest, since: datetime) -> bool:
    """Remember a request, and forget those that came before an instant; whether it is the first."""
    connection.execute(delete(IDEMPOTENCY_KEY).where(IDEMPOTENCY_KEY.c.created <= since))
    row = {name: getattr(made, name) for name in KeyedRequest.__dataclass_fields__}
    try:
        with connection.begin_nested():
            connection.execute(insert(IDEMPOTENCY_KEY), row)
    except IntegrityError:
        return False
    return True


def set_answer(connection: Connection, id: str, answer: str) -> None:
    """Remember what a request was answered."""
    query = update(IDEMPOTENCY_KEY).where(IDEMPOTENCY_KEY.c.id == id)
    connection.execute(query.values(answer=answer))


def forget_keyed_request(connection: Connection, id: str) -> None:
    """Let a key be used anew: its request did nothing."""
    connection.execute(delete(IDEMPOTENCY_KEY).where(IDEMPOTENCY_KEY.c.id == id))
