"""Backfills in State: what was asked for, how far each came, and its history."""

from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Row,
    String,
    Table,
    Text,
    insert,
    select,
    update,
)

from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.model.work.backfill import Action, Backfill, BackfillSpec, BackfillStatus, Done
from meterlake.stores.state.core.pages import Page, read
from meterlake.stores.state.core.state import State
from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText

BACKFILL: Final = Table(
    "backfill",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    Column("id", String(36), primary_key=True),
    Column("status", String(20), nullable=False),
    Column("wanted", StorableText, nullable=False),
    Column("author", Text, nullable=False),
    Column("created", InstantText, nullable=False),
    Column("snapshot", BigInteger, nullable=False),
    Column("applied", BigInteger),
    Column("summary", StorableText, nullable=False),
    Column("history", StorableText, nullable=False),
    Index("backfill_newest", "org", "created", "id"),
)


class Backfills:
    """The backfills of one organization; who changes one holds its lock."""

    def __init__(self, state: State, org_id: str) -> None:
        self._state = state
        self._org_id = org_id

    def find(self, id: str) -> Backfill | None:
        """One backfill, if it is there."""
        mine = (BACKFILL.c.org == self._org_id) & (BACKFILL.c.id == id)
        with self._state.reading_home() as connection:
            row = connection.execute(select(BACKFILL).where(mine)).first()
        return None if row is None else _backfill(row)

    def ids(self) -> set[str]:
        """The ids of all of them."""
        query = select(BACKFILL.c.id).where(BACKFILL.c.org == self._org_id)
        with self._state.reading_home() as connection:
            return set(connection.scalars(query))

    def get(self, id: str) -> Backfill:
        """One backfill.

        Raises:
            NotFound: There is none.
        """
        found = self.find(id)
        if found is None:
            raise NotFound("backfill", id)
        return found

    def newest(self, limit: int, status: BackfillStatus | None = None) -> list[Backfill]:
        """The newest ones, the newest first."""
        query = select(BACKFILL).where(BACKFILL.c.org == self._org_id)
        if status is not None:
            query = query.where(BACKFILL.c.status == status.value)
        query = query.order_by(BACKFILL.c.created.desc(), BACKFILL.c.id).limit(limit)
        with self._state.reading_home() as connection:
            return [_backfill(row) for row in connection.execute(query)]

    def page(
        self, page: Page, status: BackfillStatus | None = None
    ) -> tuple[list[Backfill], str | None]:
        """One page, the newest first, and the token of the next page."""
        query = select(BACKFILL).where(BACKFILL.c.org == self._org_id)
        if status is not None:
            query = query.where(BACKFILL.c.status == status.value)
        with self._state.reading_home() as connection:
            rows, token = read(connection, query, BACKFILL.c.created, BACKFILL.c.id, page)
        return [_backfill(row) for row in rows], token

    def put(self, backfill: Backfill) -> Backfill:
        """Write one, whether it is there already or not."""
        values = {
            "status": backfill.status.value,
            "wanted": wire.dumps_sorted(backfill.spec.to_wire()),
            "author": backfill.author,
            "created": backfill.created,
            "snapshot": backfill.snapshot,
            "applied": backfill.applied,
            "summary": wire.dumps_sorted(dict(backfill.summary)),
            "history": wire.dumps_sorted([each.to_wire() for each in backfill.history]),
        }
        mine = (BACKFILL.c.org == self._org_id) & (BACKFILL.c.id == backfill.id)
        with self._state.writing_home() as connection:
            if connection.execute(update(BACKFILL).where(mine).values(values)).rowcount == 0:
                row = {**values, "org": self._org_id, "id": backfill.id}
                connection.execute(insert(BACKFILL), row)
        return self.get(backfill.id)


def _backfill(row: Row[Any]) -> Backfill:
    return Backfill(
        id=row.id,
        org_id=row.org,
        spec=BackfillSpec.from_wire(wire.loads(row.wanted)),
        status=BackfillStatus(row.status),
        author=row.author,
        created=row.created,
        snapshot=row.snapshot,
        applied=row.applied,
        summary=wire.loads(row.summary),
        history=tuple(
            Done(
                Action(entry["action"]),
                datetime.fromisoformat(entry["at"]),
                entry["author"],
                entry.get("detail"),
            )
            for entry in wire.loads(row.history)
        ),
    )
