"""An organization as a transaction left it: everything that bills are made of, read by the same code.

The tables of the present have temporary views before them, which have the same names and columns:
whoever reads `entity`, `bill` or `posting` reads what these held after the transaction. So a bill of
then is calculated by the very code that calculates one of now.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, literal_column, select, text

from meterlake.model.resources import BY_KIND
from meterlake.model.values import wire
from meterlake.stores.state.core.json_columns import READABLE_JSON
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.state import State
from meterlake.stores.state.core.tables import (
    BILL,
    BILL_LINE,
    BILL_MEMO,
    BILL_VERSION,
    BILL_VERSION_LINE,
    ENTITY,
    ENTITY_HISTORY,
    ENTITY_REFERENCE,
    POSTING,
)
from meterlake.stores.state.core.views.temporary_views import (
    TemporaryViews,
    columns_of,
    references_of,
)

_REFERENCES: Final = "past_reference"
_MOMENTS: Final = "past_moment"
_OWN_IDS: Final = "past_own_id"
_ACCOUNT_IDS: Final = "past_account_id"
# What a moment may be of, beside the kinds of entities.
OF_BILL: Final = "bill"
OF_MEMO: Final = "memo"
OF_SOURCE: Final = "source"
# How many references are written at once.
_WRITTEN: Final = 1_000
# What the lines of people are called among the lines of a bill.
_MEMOS: Final = "MEMO/%"


class PastMoment(NamedTuple):
    """What a reader of the past sees as another transaction left it.

    Attributes:
        what: The kind of an entity; or a bill, a line that people put on a bill, or what came into
            and went out of a balance or commitment.
        id: Of the entity, the bill or the source; of the line its key.
        number: Of the transaction.
        body: What the entity says instead of what it said then, as JSON.
    """

    what: str
    id: str
    number: int
    body: str | None = None


class PastScope(NamedTuple):
    """What of an organization is seen, where not all of it: the rest costs nothing.

    Attributes:
        kinds: The kinds of entities of which only some are seen.
        ids: Of the entities of these kinds that are seen.
        account_ids: The accounts whose bills are seen.
    """

    kinds: Collection[str]
    ids: Collection[str]
    account_ids: Collection[str]


class PastState(State):
    """State whose readers see what a transaction left; nothing is written with it."""

    def __init__(
        self,
        state: State,
        number: int,
        moments: Collection[PastMoment] = (),
        scope: PastScope | None = None,
    ) -> None:
        """Begin.

        Args:
            state: The present.
            number: Of the transaction; numbers are an organization's own.
            moments: What is seen as other transactions left it.
            scope: What is seen; everything if None.
        """
        super().__init__(state._database, state.now, state._secrets)  # noqa: SLF001
        self._past = number
        self._moments = moments
        self._scope = scope

    @contextmanager
    def reading(self, org_id: str) -> Iterator[Reader]:
        """Read an organization as it was.

        Raises:
            Unavailable: The database cannot be reached.
        """
        with super().reading(org_id) as reader:
            views = _Views(reader.connection, reader.org_id, self._past, self._moments, self._scope)
            _show_past(reader, views)
            yield reader


def _show_past(reader: Reader, views: "_Views") -> None:
    """Put the views before the tables until the reader's transaction ends."""
    connection = reader.connection
    views.create_tables()
    number = views.number_of(ENTITY_HISTORY.name, "kind", "id")
    changed = _changed_since(reader, number, views.within(ENTITY_HISTORY.name))
    references = [row for found in changed for row in _references(reader, found)]
    views.create()
    if references:
        names = tuple(each.name for each in ENTITY_REFERENCE.columns)
        values = ", ".join(f":{name}" for name in names)
        _insert(connection, f"INSERT INTO {_REFERENCES} VALUES ({values})", references)


def _insert(connection: Connection, statement: str, rows: list[dict[str, Any]]) -> None:
    for start in range(0, len(rows), _WRITTEN):
        connection.execute(text(statement), rows[start : start + _WRITTEN])


def _changed_since(reader: Reader, number: str, within: str) -> list[Row[Any]]:
    """The versions of then that are not those of now."""
    table = ENTITY_HISTORY.c
    then: ColumnElement[int] = literal_column(number)
    query = select(table.kind, table.id, table.body).where(
        table.org == reader.org_id,
        table.ended > then,
        table.began <= then,
        table.body.is_not(None),
        literal_column(within),
    )
    return list(reader.connection.execute(query))


def _references(reader: Reader, row: Row[Any]) -> Iterator[dict[str, str]]:
    entity = BY_KIND[row.kind].entity.from_wire(wire.loads(row.body))
    return references_of(reader.org_id, row.kind, row.id, entity)


class _Views(TemporaryViews):
    """What a transaction left."""

    def __init__(
        self,
        connection: Connection,
        org_id: str,
        number: int,
        moments: Collection[PastMoment],
        scope: PastScope | None,
    ) -> None:
        super().__init__(connection, org_id)
        self._number = int(number)
        self._moments = moments
        self._scope = scope

    def create_tables(self) -> None:
        """Make the tables of what is seen, and of what is seen as other transactions left it."""
        if self._scope is not None:
            self._create_ids(_OWN_IDS, self._scope.ids)
            self._create_ids(_ACCOUNT_IDS, self._scope.account_ids)
        if not self._moments:
            return
        columns = "what TEXT, id TEXT, number BIGINT, body TEXT, PRIMARY KEY (what, id)"
        self._run(f"CREATE TEMP TABLE {_MOMENTS} ({columns})")
        values = ", ".join(f":{name}" for name in PastMoment._fields)
        rows = [each._asdict() for each in self._moments]
        _insert(self._connection, f"INSERT INTO {_MOMENTS} VALUES ({values})", rows)

    def _create_ids(self, name: str, ids: Collection[str]) -> None:
        self._run(f"CREATE TEMP TABLE {name} (id TEXT PRIMARY KEY)")
        _insert(self._connection, f"INSERT INTO {name} VALUES (:id)", [{"id": x} for x in ids])

    def within(self, alias: str) -> str:
        """The condition that a version of an entity is seen, as SQL."""
        if self._scope is None:
            return "1 = 1"
        kinds = ", ".join(f"'{each}'" for each in sorted(self._scope.kinds))
        own = f"SELECT id FROM {_OWN_IDS}"
        return f"({alias}.kind NOT IN ({kinds}) OR {alias}.id IN ({own}))"

    def _of_accounts(self, alias: str) -> str:
        """The condition that a bill is seen."""
        if self._scope is None:
            return "1 = 1"
        return f"{alias}.account_id IN (SELECT id FROM {_ACCOUNT_IDS})"

    def create(self) -> None:
        """Make all of them."""
        columns = ", ".join(f'"{each.name}" TEXT' for each in ENTITY_REFERENCE.columns)
        self._run(f"CREATE TEMP TABLE {_REFERENCES} ({columns})")
        self._run(f"CREATE INDEX {_REFERENCES}_target ON {_REFERENCES} (target_kind, target_id)")
        queries = (
            (ENTITY_REFERENCE, self._entity_references()),
            (ENTITY, self._entities()),
            (ENTITY_HISTORY, self._history()),
            (BILL_LINE, self._bill_lines()),
            (BILL_MEMO, self._bill_memos()),
            (BILL, self._bills()),
            (POSTING, self._postings()),
        )
        self._show(queries)

    def number_of(self, alias: str, what: str, id: str) -> str:
        """The number of the transaction that a row is seen at, as SQL.

        Args:
            alias: Of the row's table.
            what: The column of an entity's kind, or what the row is of as a literal.
            id: The column of the id.
        """
        if not self._moments:
            return str(self._number)
        kind = what if what.startswith("'") else f"{alias}.{what}"
        return (
            f"coalesce((SELECT x.number FROM {_MOMENTS} x"
            f" WHERE x.what = {kind} AND x.id = {alias}.{id}), {self._number})"
        )

    def _where_held(self, alias: str, number: str) -> str:
        """The condition that a row of an organization was there after a transaction."""
        return (
            f"{alias}.org = {self._org} AND {alias}.began <= {number}"
            f" AND ({alias}.ended IS NULL OR {alias}.ended > {number})"
        )

    def _entities(self) -> str:
        body = "h.body"
        if self._moments:
            other = f"SELECT x.body FROM {_MOMENTS} x WHERE x.what = h.kind AND x.id = h.id"
            body = f"coalesce(({other}), h.body)"
        # A damaged row is called by its id; it must not fail those of all others.
        is_json = (
            "json_valid(h.body)" if self._is_sqlite else f"{READABLE_JSON}(h.body) IS NOT NULL"
        )
        body_json = "h.body" if self._is_sqlite else "h.body::jsonb"
        code = f"CASE WHEN {is_json} THEN {body_json} ->> 'code' ELSE h.id END"
        named = {"code": f"({code})", "modified": "h.valid_from", "modified_by": "h.author"}
        held = self._where_held("h", self.number_of("h", "kind", "id"))
        return (
            f"SELECT {columns_of(ENTITY, 'h', {**named, 'body': body})}"
            f" FROM {self._table(ENTITY_HISTORY)} h WHERE {self.within('h')} AND {held}"
            f" AND h.body IS NOT NULL"
        )

    def _history(self) -> str:
        number = self.number_of("h", "kind", "id")
        ends = f"CASE WHEN h.ended <= {number} THEN h.{{}} END"
        named = {name: ends.format(name) for name in ("valid_to", "ended")}
        return (
            f"SELECT {columns_of(ENTITY_HISTORY, 'h', named)} FROM {self._table(ENTITY_HISTORY)} h"
            f" WHERE h.org = {self._org} AND {self.within('h')} AND h.began <= {number}"
        )

    def _entity_references(self) -> str:
        names = columns_of(ENTITY_REFERENCE, "r", {})
        return (
            f"SELECT {names} FROM {self._table(ENTITY_REFERENCE)} r"
            f" JOIN {self._table(ENTITY_HISTORY)} h"
            f" ON h.org = r.org AND h.kind = r.kind AND h.id = r.id"
            f" WHERE h.ended IS NULL AND h.began <= {self.number_of('h', 'kind', 'id')}"
            f" AND {self.within('h')} AND r.org = {self._org} UNION ALL SELECT {names} FROM {_REFERENCES} r"
        )

    def _bill_number(self, alias: str, id: str) -> str:
        return self.number_of(alias, f"'{OF_BILL}'", id)

    def _bills(self) -> str:
        number = self._bill_number("b", "id")
        locked = f"(b.locked AND coalesce(b.locked_in, 0) <= {number})"
        no = "0" if self._is_sqlite else "FALSE"
        before = {
            **{each.name: "NULL" for each in BILL.columns if each.name not in BILL_VERSION.c},
            "id": "v.bill_id",
            "status": "'PENDING'",
            "locked": no,
            "content_version": "v.version",
        }
        # A locked bill of now was not locked at once: its content is as old as it says.
        return (
            f"SELECT {columns_of(BILL, 'b', {'locked': locked})} FROM {self._table(BILL)} b"
            f" WHERE b.org = {self._org} AND {self._of_accounts('b')}"
            f" AND b.began <= {number} UNION ALL"
            f" SELECT {columns_of(BILL, 'v', before)} FROM {self._table(BILL_VERSION)} v"
            f" WHERE {self._of_accounts('v')}"
            f" AND {self._where_held('v', self._bill_number('v', 'bill_id'))}"
        )

    def _bill_lines(self) -> str:
        now, then = self._bill_number("b", "id"), self._bill_number("v", "bill_id")
        return self._lines_at(columns_of(BILL_LINE, "l", {}), now, then)

    def _lines_at(self, columns: str, now: str, then: str, join: str = "") -> str:
        """The lines of bills as transactions left them.

        Args:
            columns: What is read of a line `l`.
            now: The number of the transaction for a bill `b` that has its content still.
            then: For a content `v` that another one has replaced.
            join: What else is read for each line.
        """
        return (
            f"SELECT {columns} FROM {self._table(BILL_LINE)} l"
            f" JOIN {self._table(BILL)} b ON b.id = l.bill_id{join}"
            f" WHERE b.org = {self._org} AND {self._of_accounts('b')} AND b.began <= {now} UNION ALL"
            f" SELECT {columns} FROM {self._table(BILL_VERSION_LINE)} l"
            f" JOIN {self._table(BILL_VERSION)} v"
            f" ON v.bill_id = l.bill_id AND v.version = l.version{join}"
            f" WHERE {self._of_accounts('v')} AND {self._where_held('v', then)}"
        )

    def _bill_memos(self) -> str:
        """The lines of people are among the lines of bills, in their order."""
        named = {
            **{each.name: "NULL" for each in BILL_MEMO.columns},
            "id": "l.key",
            "bill_id": "l.bill_id",
            "key": "l.key",
            "line": "l.body",
            "org": self._org,
            "position": "l.sequence",
        }
        columns = columns_of(BILL_MEMO, "l", named)
        lines = f"SELECT {columns} FROM {BILL_LINE.name} l WHERE l.key LIKE '{_MEMOS}'"
        if not any(each.what == OF_MEMO for each in self._moments):
            return lines
        join = f" JOIN {_MOMENTS} x ON x.what = '{OF_MEMO}' AND x.id = l.key"
        single = self._lines_at(columns, "x.number", "x.number", join)
        others = f"SELECT x.id FROM {_MOMENTS} x WHERE x.what = '{OF_MEMO}'"
        return f"{lines} AND l.key NOT IN ({others}) UNION ALL {single}"

    def _postings(self) -> str:
        number = self.number_of("p", f"'{OF_SOURCE}'", "source_id")
        return (
            f"SELECT {columns_of(POSTING, 'p', {})} FROM {self._table(POSTING)} p"
            f" WHERE p.org = {self._org} AND p.began <= {number}"
        )
