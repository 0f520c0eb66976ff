"""The keys that tokens are signed with; their private halves arrive and leave encrypted."""

from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, insert, select, update

from meterlake.stores.state.access.access_tables import SIGNING_KEY
from meterlake.stores.state.core.tables import ORGANIZATION


@dataclass(frozen=True, slots=True)
class SigningKey:
    """One key; it signs while it is the newest, and verifies until `not_after`."""

    kid: str
    private_key: str = field(repr=False)
    created: datetime
    not_after: datetime | None


def valid_keys(connection: Connection, now: datetime) -> list[SigningKey]:
    """The keys that verify, the newest first."""
    table = SIGNING_KEY.c
    query = (
        select(SIGNING_KEY)
        .where(table.not_after.is_(None) | (table.not_after > now))
        .order_by(table.not_after.is_not(None), table.created.desc(), table.kid)
    )
    return [
        SigningKey(row.kid, row.private_key, row.created, row.not_after)
        for row in connection.execute(query)
    ]


def add_signing_key(connection: Connection, key: SigningKey, retire: datetime | None) -> None:
    """Store the key that signs from now on; the ones before verify until `retire`."""
    if retire is not None:
        query = update(SIGNING_KEY).where(
            SIGNING_KEY.c.not_after.is_(None) | (SIGNING_KEY.c.not_after > retire)
        )
        connection.execute(query.values(not_after=retire))
    row = {
        "kid": key.kid,
        "private_key": key.private_key,
        "created": key.created,
        "not_after": key.not_after,
    }
    connection.execute(insert(SIGNING_KEY), row)


def lock_keys(connection: Connection) -> None:
    """Let one process at a time decide about keys, where the database has many writers."""
    connection.execute(select(ORGANIZATION.c.id).order_by(ORGANIZATION.c.id).with_for_update())
