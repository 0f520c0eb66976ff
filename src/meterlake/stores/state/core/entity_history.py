"""Entities as they were at an instant, one after the other, and what changed before it.

For readers of a whole organization: nothing here holds all entities of a kind in memory but
`PastConfiguration`, which is asked for what others refer to.
"""

from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Select, and_, func, or_, select

from meterlake.model.customers.balances import Balance
from meterlake.model.customers.contracts import Commitment
from meterlake.model.resources import BY_ENTITY
from meterlake.model.values.entity import Configuration, Deletion, E, Entity, Record
from meterlake.model.values.money import ZERO
from meterlake.stores.state.core.charges import (
    bill_of_charge,
    charged_until,
    newest_charge_due,
    schedule_of_charge,
)
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.postings import all_spent, newest_due
from meterlake.stores.state.core.reader import VERSIONS, Reader, record_of, versions_at
from meterlake.stores.state.core.tables import ENTITY_HISTORY, POSTING

# How many rows are fetched at once.
FETCHED: Final = 1000


def stream_rows(reader: Reader, query: Select[Any]) -> Generator[Row[Any], None, None]:
    """The rows of a query as they are needed; what the database keeps for it ends with it."""
    options = {"yield_per": FETCHED}
    with reader.connection.execute(query, execution_options=options) as rows:
        yield from rows


def entities_at(reader: Reader, kind: type[E], at: datetime) -> Iterator[Record[E]]:
    """Every entity of a kind as it was at an instant, in the order of creation."""
    for row in stream_rows(reader, _select_living(reader, kind, at)):
        yield record_of(row)


def changes_at(
    reader: Reader, kind: type[E], since: datetime, at: datetime
) -> Iterator[Record[E] | Deletion]:
    """What was created, changed or deleted from an instant on, as it was at a later one.

    An entity that was created and deleted in between is a deletion. A balance counts as changed
    when what it holds may have: when a transaction was booked, or came into effect.
    """
    changed = ENTITY_HISTORY.c.valid_from >= since
    moved = _MOVED.get(kind)
    if moved is not None:
        changed = or_(changed, ENTITY_HISTORY.c.id.in_(moved(reader, since, at)))
    query = _order(_at(reader, kind, at).where(changed))
    for row in stream_rows(reader, query):
        yield deletion_of(row) if row.body is None else record_of(row)


def known_at(reader: Reader, kind: type[E], at: datetime) -> Iterator[Record[E]]:
    """Every entity that a kind ever had, in no particular order: for what still names them.

    Those of the instant are as they were at it, those that were deleted before it as they were
    last. Younger ones are as they were first, so that the answer stays the same for ever.
    """
    for row in stream_rows(reader, VERSIONS.where(*_known_at(reader, kind, at))):
        yield record_of(row)


def deleted_records(reader: Reader, kind: type[E]) -> list[Record[E]]:
    """Every entity of a kind that was deleted and did not come back, as it was last."""
    table, after = ENTITY_HISTORY.c, ENTITY_HISTORY.alias().c
    deletion = select(after.id).where(
        after.org == reader.org_id,
        after.kind == kind.__name__,
        after.id == table.id,
        after.version == table.version + 1,
        after.body.is_(None),
        after.valid_to.is_(None),
    )
    query = VERSIONS.where(
        table.org == reader.org_id,
        table.kind == kind.__name__,
        table.body.is_not(None),
        # Versions before the last one end as well; few entities are deleted.
        table.valid_to.is_not(None),
        deletion.exists(),
    )
    return [record_of(row) for row in stream_rows(reader, query)]


def codes_at(reader: Reader, kind: type[Entity], at: datetime) -> dict[str, str]:
    """The codes of the same by their ids, without reading more of them."""
    table = ENTITY_HISTORY.c
    query = select(table.id, member_text(table.body, "code")).where(*_known_at(reader, kind, at))
    return {id_: code for id_, code in reader.connection.execute(query) if code is not None}


def _known_at(reader: Reader, kind: type[Entity], at: datetime) -> Iterator[ColumnElement[bool]]:
    """One version with a body for each entity of a kind."""
    table, after = ENTITY_HISTORY.c, ENTITY_HISTORY.alias().c
    deletion = select(after.id).where(
        after.org == table.org,
        after.kind == table.kind,
        after.id == table.id,
        after.version == table.version + 1,
        after.body.is_(None),
        or_(after.valid_to.is_(None), after.valid_to > at),
    )
    yield table.org == reader.org_id
    yield table.kind == kind.__name__
    yield table.body.is_not(None)
    yield or_(
        and_(table.valid_from <= at, or_(table.valid_to.is_(None), table.valid_to > at)),
        and_(table.valid_to <= at, deletion.exists()),
        and_(table.valid_from > at, table.version == 1),
    )


def select_renamed(
    reader: Reader, kind: type[Entity], since: datetime, at: datetime
) -> Select[Any]:
    """The ids of the entities of a kind whose name was not the same all the time between instants.

    Those that were created or deleted meanwhile are among them.
    """
    table, changed = ENTITY_HISTORY.c, ENTITY_HISTORY.alias().c
    ids = select(changed.id).where(
        changed.org == reader.org_id,
        changed.kind == kind.__name__,
        changed.valid_from.between(since, at),
    )
    name = func.coalesce(member_text(table.body, "name"), "")
    return (
        select(table.id)
        .where(
            table.org == reader.org_id,
            table.kind == kind.__name__,
            table.id.in_(ids),
            table.valid_from <= at,
            or_(table.valid_to.is_(None), table.valid_to >= since),
        )
        .group_by(table.id)
        .having(or_(func.min(name) != func.max(name), func.min(table.valid_from) >= since))
    )


def deletion_of(row: Row[Any]) -> Deletion:
    """A deletion from its row of the history."""
    return Deletion(row.id, row.version, row.modified, row.modified_by)


def _at(reader: Reader, kind: type[Entity], at: datetime) -> Select[Any]:
    return versions_at(reader.org_id, at).where(ENTITY_HISTORY.c.kind == kind.__name__)


def _select_living(reader: Reader, kind: type[Entity], at: datetime) -> Select[Any]:
    return _order(_at(reader, kind, at).where(ENTITY_HISTORY.c.body.is_not(None)))


def _order(query: Select[Any]) -> Select[Any]:
    return query.order_by(ENTITY_HISTORY.c.created, ENTITY_HISTORY.c.id)


def _moved_sources(reader: Reader, since: datetime, at: datetime) -> Select[Any]:
    table = POSTING.c
    return select(table.source_id).where(
        table.org == reader.org_id,
        or_(table.created.between(since, at), table.applied.between(since, at)),
    )


class PastConfiguration(Configuration):
    """What `Configuration` is in memory, as it was at an instant; a kind is read when asked for."""

    def __init__(self, reader: Reader, at: datetime) -> None:
        super().__init__(())
        self._reader = reader
        self._at = at
        self._spent: dict[str, Decimal] | None = None

    def all(self, kind: type[E]) -> Iterator[Record[E]]:
        """Every record of a kind, in no particular order."""
        self._read_kind(kind)
        return super().all(kind)

    def kinds(self) -> Iterator[type[Entity]]:
        """Every kind that there is."""
        yield from BY_ENTITY

    def get(self, kind: type[E], id: str) -> Record[E]:
        """One record by id.

        Raises:
            NotFound: There was none.
        """
        self._read_kind(kind)
        return super().get(kind, id)

    def amount_spent(self, commitment_id: str) -> Decimal:
        """What bills had drawn from a commitment by then."""
        if self._spent is None:
            self._spent = all_spent(self._reader, self._at)
        return self._spent.get(commitment_id, ZERO)

    def previous_run(self, schedule_id: str) -> datetime | None:
        """When the newest transaction or charge was due that a schedule had made by then."""
        return newest_due(self._reader, schedule_id, self._at) or newest_charge_due(
            self._reader, schedule_id, self._at
        )

    def charged_until(self, schedule_id: str) -> datetime | None:
        """The end of the service that a schedule had charged for by then."""
        return charged_until(self._reader, schedule_id, self._at)

    def schedule_of_charge(self, charge_id: str) -> str | None:
        """The schedule that made a charge."""
        return schedule_of_charge(self._reader, charge_id)

    def bill_of_charge(self, account_id: str, charge_id: str) -> str | None:
        """The bill on which a charge stands now, if there was such a bill by then."""
        return bill_of_charge(self._reader, account_id, charge_id, self._at)

    def _read_kind(self, kind: type[Entity]) -> None:
        if kind in self._by_kind:
            return
        found: dict[str, Record[Any]] = {}
        for row in stream_rows(self._reader, _select_living(self._reader, kind, self._at)):
            found[row.id] = record_of(row)
        self._by_kind[kind] = found


# What else counts as a change of a kind: ids that moved from one instant to another.
_MOVED: Final[Mapping[type[Entity], Callable[[Reader, datetime, datetime], Select[Any]]]] = {
    Balance: _moved_sources,
    Commitment: _moved_sources,
}
