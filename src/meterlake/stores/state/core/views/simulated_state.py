"""An organization as it would be: with other entities, and without the bills of a time.

The tables of the present have temporary views before them, as for an organization of the past:
bills of what would be are calculated by the very code that calculates those of now. All is read in
one transaction, which ends without leaving anything.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final, NoReturn

from sqlalchemy import Connection, MetaData, Table, delete, insert

from meterlake.model.resources import code_of
from meterlake.model.values import wire
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Month
from meterlake.stores.state.billing.late_usage.rows import LATE_USAGE, LATE_USAGE_LINE
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.state import State
from meterlake.stores.state.core.tables import (
    BILL,
    BILL_LINE,
    BILL_MEMO,
    ENTITY,
    ENTITY_REFERENCE,
    POSTING,
)
from meterlake.stores.state.core.views.temporary_views import (
    TemporaryViews,
    columns_of,
    references_of,
)

_ENTITIES: Final = ENTITY.to_metadata(MetaData(), name="simulated_entity")
_REFERENCES: Final = ENTITY_REFERENCE.to_metadata(MetaData(), name="simulated_reference")
# The bills of the time that the simulation is about, as they are stored.
STORED_BILL: Final = BILL.to_metadata(MetaData(), name="stored_bill")


class SimulatedState(State):
    """State whose readers see what would be; nothing can be written with it.

    The bills of a month and of all later ones are not there, nor what they drew. Those with lines
    of people are, so that these lines have a bill; they are open, and have no other lines.
    """

    def __init__(self, state: State, reader: Reader) -> None:
        super().__init__(state._database, state.now, state._secrets)  # noqa: SLF001
        self._reader = reader

    @contextmanager
    def reading(self, org_id: str) -> Iterator[Reader]:
        """Read the organization as it would be: always in the same transaction."""
        assert org_id == self._reader.org_id, org_id
        yield self._reader

    def transaction(self, *_: object) -> NoReturn:
        """Refuse to write: that is a mistake of the program."""
        raise AssertionError("a simulation writes nothing")

    def writing_home(self) -> NoReturn:
        """Refuse to write: that is a mistake of the program."""
        raise AssertionError("a simulation writes nothing")

    def show(self, records: Collection[Record[Any]]) -> None:
        """Have readers see these entities, instead of the stored ones of the same ids."""
        connection, org_id = self._reader.connection, self._reader.org_id
        for table in (_ENTITIES, _REFERENCES):
            connection.execute(delete(table))
        entities = [_row(org_id, each) for each in records]
        references = [
            row
            for each in records
            for row in references_of(org_id, type(each.entity).__name__, each.id, each.entity)
        ]
        for table, rows in ((_ENTITIES, entities), (_REFERENCES, references)):
            if rows:
                connection.execute(insert(table), rows)


@contextmanager
def simulate(state: State, org_id: str, first: Month) -> Iterator[SimulatedState]:
    """An organization as it is, without the bills of a month and of all later ones.

    Args:
        state: The present.
        org_id: The organization.
        first: The first month whose bills are not there: those whose last day is in it.

    Raises:
        Unavailable: The database cannot be reached.
    """
    with state.reading(org_id) as reader:
        _Views(reader.connection, org_id, str(first)).create()
        yield SimulatedState(state, reader)


def _row(org_id: str, record: Record[Any]) -> dict[str, Any]:
    return {
        "org": org_id,
        "kind": type(record.entity).__name__,
        "id": record.id,
        "version": record.version,
        "code": code_of(record.entity),
        "body": wire.dumps_sorted(record.entity.to_wire()),
        "created": record.created,
        "created_by": record.created_by,
        "modified": record.modified,
        "modified_by": record.modified_by,
    }


class _Views(TemporaryViews):
    """What would be."""

    def __init__(self, connection: Connection, org_id: str, first: str) -> None:
        super().__init__(connection, org_id)
        self._first = f"'{first}'"

    def create(self) -> None:
        """Make all of them."""
        for own, stored in ((_ENTITIES, ENTITY), (_REFERENCES, ENTITY_REFERENCE)):
            self._run(
                f"CREATE TEMP TABLE {own.name} AS SELECT * FROM {self._table(stored)} LIMIT 0"
            )
            self._run(f"CREATE INDEX {own.name}_id ON {own.name} (kind, id)")
        target = "target_kind, target_id"
        self._run(f"CREATE INDEX {_REFERENCES.name}_target ON {_REFERENCES.name} ({target})")
        queries = (
            (
                STORED_BILL,
                (
                    f"SELECT {columns_of(BILL, 'b', {})} FROM {self._table(BILL)} b"
                    f" WHERE b.org = {self._org} AND b.period >= {self._first}"
                ),
            ),
            (ENTITY_REFERENCE, self._overlay(ENTITY_REFERENCE, _REFERENCES)),
            (ENTITY, self._overlay(ENTITY, _ENTITIES)),
            (
                BILL_LINE,
                (
                    f"SELECT {columns_of(BILL_LINE, 'l', {})} FROM {self._table(BILL_LINE)} l"
                    f" JOIN {self._table(BILL)} b ON b.id = l.bill_id"
                    f" WHERE b.org = {self._org} AND b.period < {self._first}"
                ),
            ),
            # Without what the bills drew that are not there, and without what of it went back.
            (
                POSTING,
                (
                    f"SELECT {columns_of(POSTING, 'p', {})} FROM {self._table(POSTING)} p"
                    f" WHERE p.org = {self._org} AND NOT EXISTS ("
                    f"SELECT 1 FROM {self._table(BILL)} b"
                    f" WHERE b.id = p.bill_id AND b.period >= {self._first})"
                ),
            ),
            (BILL_MEMO, self._bill_memos()),
            (BILL, self._bills()),
        )
        self._show(queries)
        if not self._is_sqlite:
            # From now on only temporary tables can be written.
            self._run("SET TRANSACTION READ ONLY")

    def _overlay(self, table: Table, instead: Table) -> str:
        """What is stored but for the entities that would be others, and what of these would be."""
        return (
            f"SELECT {columns_of(table, 't', {})} FROM {self._table(table)} t"
            f" WHERE t.org = {self._org} AND NOT EXISTS ("
            f"SELECT 1 FROM {_ENTITIES.name} s WHERE s.kind = t.kind AND s.id = t.id)"
            f" UNION ALL SELECT {columns_of(table, 's', {})} FROM {instead.name} s"
        )

    def _bills(self) -> str:
        is_before = f"b.period < {self._first}"
        has_lines = f"EXISTS (SELECT 1 FROM {BILL_MEMO.name} m WHERE m.bill_id = b.id)"
        locked = f"(b.locked AND {is_before})"
        return (
            f"SELECT {columns_of(BILL, 'b', {'locked': locked})} FROM {self._table(BILL)} b"
            f" WHERE b.org = {self._org} AND ({is_before} OR {has_lines})"
        )

    def _bill_memos(self) -> str:
        """Without what carries late usage of the bills that are not there: these have it themselves."""
        carried = (
            f"SELECT 1 FROM {self._table(LATE_USAGE_LINE)} l"
            f" JOIN {self._table(LATE_USAGE)} u ON u.id = l.late_usage_id"
            f" WHERE l.memo_bill_id = m.bill_id AND l.memo_id = m.id AND u.period >= {self._first}"
        )
        return (
            f"SELECT {columns_of(BILL_MEMO, 'm', {})} FROM {self._table(BILL_MEMO)} m"
            f" WHERE m.org = {self._org} AND NOT EXISTS ({carried})"
        )
