"""Writing the entities of one organization: all of a transaction, or nothing."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, bindparam, delete, insert, select, update

from meterlake.model.errors import Conflict, DuplicateCode, Invalid, StaleVersion, StillReferenced
from meterlake.model.resources import BY_KIND, code_of, entity_references, resource_of, values_at
from meterlake.model.values import wire
from meterlake.model.values.entity import E, Entity, Record
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.row_digests import digest_of_version
from meterlake.stores.state.core.tables import (
    ENTITY,
    ENTITY_HISTORY,
    ENTITY_REFERENCE,
    INDEXED,
    ORGANIZATION,
    index_key,
)
from meterlake.stores.state.events.events import Journal

_TAKE_NUMBER: Final = (
    update(ORGANIZATION)
    .where(ORGANIZATION.c.id == bindparam("of_org"))
    .values(transactions=ORGANIZATION.c.transactions + 1)
    .returning(ORGANIZATION.c.transactions)
)


class Transaction(Reader):
    """Reads and writes of one author; made by `State.transaction`, which commits it.

    References are checked at the end, so that entities may be written in any order.

    Attributes:
        journal: The events of what is written.
    """

    def __init__(
        self,
        connection: Connection,
        org_id: str,
        author: str,
        now: datetime,
        new_id: Callable[[], str],
    ) -> None:
        super().__init__(connection, org_id)
        self.author = author
        self.now = now
        self.new_id = new_id
        self.journal = Journal(self, now, new_id)
        self._unchecked: dict[tuple[str, str], Entity] = {}
        self._fresh: set[str] = set()
        self._number: int | None = None

    @property
    def number(self) -> int:
        """Its number among the transactions of the organization, which are told apart by nothing else.

        Writers of an organization take turns, so that what is committed has lower numbers than what
        is not. Only transactions that write what bills are made of take one.
        """
        if self._number is None:
            self._number = int(
                self.connection.execute(_TAKE_NUMBER, {"of_org": self.org_id}).scalar_one()
            )
        return self._number

    def create(self, entity: E, id: str | None = None, *, fresh: bool = False) -> Record[E]:
        """Store a new entity.

        Args:
            entity: Its fields.
            id: An id that follows from something else (a skeleton account's); a new one if None.
            fresh: The id is a random one that nothing ever had.

        Raises:
            DuplicateCode: Another entity of the kind has the code.
            Conflict: The id is taken, or there is one of a kind of which there is only one.
        """
        fresh = fresh or id is None
        version = 1 if fresh or id is None else self._first_version(entity, id)
        id = id or self.new_id()  # noqa: A001
        if resource_of(entity).singleton and self.all(type(entity)):
            raise Conflict(
                f"there is a {type(entity).__name__} already, and there can be only one; change that one"
            )
        self._refuse_taken_code(entity, id)
        record = Record(id, version, entity, self.now, self.author, self.now, self.author)
        self.connection.execute(
            insert(ENTITY),
            {
                **self._address(entity, id),
                "version": version,
                "code": code_of(entity),
                "body": _body(entity),
                "created": self.now,
                "created_by": self.author,
                "modified": self.now,
                "modified_by": self.author,
            },
        )
        self._remember(record, _body(entity))
        self._unchecked[type(entity).__name__, id] = entity
        if fresh:
            self._fresh.add(id)
        self.journal.note_change(record)
        return record

    def update(self, id: str, version: int, entity: E) -> Record[E]:
        """Replace an entity if `version` is still its current one.

        Raises:
            NotFound: There is no such entity.
            StaleVersion: Someone updated it since the caller read it.
            DuplicateCode: Another entity of the kind has the code.
        """
        before = self.get(type(entity), id)
        self._refuse_taken_code(entity, id)
        # The clock may have been set back; history never runs backwards.
        modified = max(self.now, before.modified)
        result = self.connection.execute(
            update(ENTITY)
            .where(*_at(ENTITY, self._address(entity, id)), ENTITY.c.version == version)
            .values(
                version=version + 1,
                code=code_of(entity),
                body=_body(entity),
                modified=modified,
                modified_by=self.author,
            )
        )
        if result.rowcount != 1:
            raise StaleVersion(type(entity).__name__, id, before.version, version)
        record = Record(
            id, version + 1, entity, before.created, before.created_by, modified, self.author
        )
        self._remember(record, _body(entity))
        self._unchecked[type(entity).__name__, id] = entity
        self.journal.note_change(record, before)
        return record

    def delete(self, kind: type[E], id: str) -> Record[E]:
        """Delete an entity; its history stays.

        Raises:
            NotFound: There is no such entity.
            StillReferenced: Another entity refers to it.
        """
        before = self.get(kind, id)
        self._check_references()
        self._refuse_referenced(kind, id)
        self.journal.note_change(None, before)
        address = self._address(before.entity, id)
        for table in (ENTITY_REFERENCE, ENTITY):
            self.connection.execute(delete(table).where(*_at(table, address)))
        modified = max(self.now, before.modified)
        gone = Record(
            id,
            before.version + 1,
            before.entity,
            before.created,
            before.created_by,
            modified,
            self.author,
        )
        self._remember(gone, None)
        return before

    def finish(self) -> None:
        """Do what is only done at the end; `State.transaction` calls it before it commits.

        Raises:
            Invalid: An entity refers to one that does not exist.
        """
        self._check_references()
        self.journal.write()

    def _address(self, entity: Entity, id: str) -> dict[str, str]:
        return {"org": self.org_id, "kind": type(entity).__name__, "id": id}

    def _first_version(self, entity: Entity, id: str) -> int:
        """1, or the one after the deletion if the entity comes back under its old id."""
        table = ENTITY_HISTORY
        query = select(table.c.version, table.c.body.is_(None).label("deleted"))
        query = query.where(*_at(table, self._address(entity, id)), table.c.valid_to.is_(None))
        last = self.connection.execute(query).first()
        if last is None:
            return 1
        if not last.deleted:
            raise Conflict(f"there is a {type(entity).__name__} {id!r} already; change that one")
        return int(last.version) + 1

    def _refuse_taken_code(self, entity: Entity, id: str) -> None:
        code = code_of(entity)
        owner = None if code is None else self.find(type(entity), code)
        if owner is not None and owner.id != id:
            raise DuplicateCode(type(entity).__name__, str(code), owner.id)

    def _refuse_referenced(self, kind: type[Entity], id: str) -> None:
        table = ENTITY_REFERENCE.c
        query = select(table.kind, table.id).where(
            table.org == self.org_id, table.target_kind == kind.__name__, table.target_id == id
        )
        for row in self.connection.execute(query):
            if (row.kind, row.id) != (kind.__name__, id):
                by = self.get(BY_KIND[row.kind].entity, row.id).entity
                name = code_of(by) or row.id
                raise StillReferenced(kind.__name__, id, f"{row.kind} {name!r}")

    def _remember(self, record: Record[Any], body: str | None) -> None:
        address = self._address(record.entity, record.id)
        table = ENTITY_HISTORY
        if record.version > 1:
            current = (*_at(table, address), table.c.valid_to.is_(None))
            ended = {"valid_to": record.modified, "ended": self.number}
            self.connection.execute(update(table).where(*current).values(**ended))
        row = {
            **address,
            "version": record.version,
            "valid_from": record.modified,
            "body": body,
            "author": record.modified_by,
            "created": record.created,
            "created_by": record.created_by,
            "began": self.number,
        }
        self.connection.execute(insert(table), row | {"digest": digest_of_version(row)})

    def _check_references(self) -> None:
        rows = [
            row for key, entity in self._unchecked.items() for row in self._references(key, entity)
        ]
        ids_of_kind = defaultdict(set)
        for row in rows:
            ids_of_kind[row["target_kind"]].add(row["target_id"])
        known = {kind: self._known_ids(kind, ids) for kind, ids in ids_of_kind.items()}
        for row in rows:
            if row["target_id"] not in known[row["target_kind"]]:
                rule = f"it must be the id of an existing {row['target_kind']}"
                raise Invalid(row["field"], row["target_id"], rule)
        for key in (key for key in self._unchecked if key[1] not in self._fresh):
            address = {"org": self.org_id, "kind": key[0], "id": key[1]}
            self.connection.execute(delete(ENTITY_REFERENCE).where(*_at(ENTITY_REFERENCE, address)))
        rows += [
            row for key, entity in self._unchecked.items() for row in self._indexed(key, entity)
        ]
        if rows:
            self.connection.execute(insert(ENTITY_REFERENCE), rows)
        self._unchecked.clear()
        self._fresh.clear()

    def _references(self, key: tuple[str, str], entity: Entity) -> Iterator[dict[str, str]]:
        resource = resource_of(entity)
        base = {"org": self.org_id, "kind": key[0], "id": key[1]}
        for field, kind, target in entity_references(entity):
            yield {**base, "field": field, "target_kind": kind.__name__, "target_id": target}
        for path, kind in resource.codes.items():
            for field, code in values_at(entity, path):
                named = self.find(kind, code)
                if named is None:
                    raise Invalid(
                        field, code, f"it must be the code of an existing {kind.__name__}"
                    )
                yield {**base, "field": field, "target_kind": kind.__name__, "target_id": named.id}

    def _indexed(self, key: tuple[str, str], entity: Entity) -> Iterator[dict[str, str]]:
        base = {"org": self.org_id, "kind": key[0], "id": key[1], "target_kind": INDEXED}
        for name in resource_of(entity).indexed:
            value = getattr(entity, name)
            if value is not None:
                target = index_key(name, value)
                yield {**base, "field": f"{INDEXED}{name}", "target_id": target}

    def _known_ids(self, kind: str, ids: Iterable[str]) -> set[str]:
        known: set[str] = set()
        for chunk in chunks_of(ids):
            query = select(ENTITY.c.id).where(
                ENTITY.c.org == self.org_id, ENTITY.c.kind == kind, ENTITY.c.id.in_(chunk)
            )
            known.update(self.connection.execute(query).scalars())
        return known


def _at(table: Any, address: dict[str, str]) -> Iterator[Any]:
    return (table.c[name] == value for name, value in address.items())


def _body(entity: Entity) -> str:
    return wire.dumps_sorted(entity.to_wire())
