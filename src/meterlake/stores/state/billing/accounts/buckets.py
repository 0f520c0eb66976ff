"""The configuration of very many accounts in parts: read at once, kept packed, used bucket by bucket.

The entities of 500,000 accounts take gigabytes as objects. What all accounts share is little; what
accounts have of their own is kept as rows of the database, compressed.
"""

import pickle
import zlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple, TypeVar, overload

from sqlalchemy import Select, select

from meterlake.model.customers.accounts import Account
from meterlake.model.customers.owned_entities import ACCOUNT_ENTITIES
from meterlake.model.values.entity import Configuration, Record
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader, record_of
from meterlake.stores.state.core.tables import ENTITY, ENTITY_REFERENCE

T = TypeVar("T")

# What is packed together: more pack better, fewer are quicker to unpack for one of them.
_TOGETHER: Final = 512
# Higher levels take three times as long for a tenth less.
_LEVEL: Final = 1


class PackedList(Sequence[T]):
    """What is added stays as it is; each reading makes equal things anew."""

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._packs: list[bytes] = []
        self._rest: list[T] = []
        self.extend(items)

    def append(self, item: T) -> None:
        """Add one thing at the end."""
        self._rest.append(item)
        if len(self._rest) == _TOGETHER:
            self._packs.append(zlib.compress(pickle.dumps(self._rest, protocol=5), _LEVEL))
            self._rest = []

    def extend(self, items: Iterable[T]) -> None:
        """Add some things at the end."""
        for item in items:
            self.append(item)

    def __len__(self) -> int:
        return len(self._packs) * _TOGETHER + len(self._rest)

    def __iter__(self) -> Iterator[T]:
        for number in range(len(self._packs)):
            yield from self._unpack(number)
        yield from self._rest

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        pack, number = divmod(at, _TOGETHER)
        return self._rest[number] if pack == len(self._packs) else self._unpack(pack)[number]

    def __eq__(self, other: object) -> bool:
        """Equal to any list of equal things."""
        return isinstance(other, list | PackedList) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def _unpack(self, number: int) -> list[T]:
        # Only what this very object has packed.
        found: list[T] = pickle.loads(zlib.decompress(self._packs[number]))  # noqa: S301
        return found


# The kinds of entities that belong to accounts.
OWN_KINDS: Final = frozenset({Account.__name__, *(each.__name__ for each in ACCOUNT_ENTITIES)})


class EntityRow(NamedTuple):
    """A row of the entity table as `record_of` takes it."""

    kind: str
    id: str
    version: int
    body: str
    created: datetime
    created_by: str
    modified: datetime
    modified_by: str


_COLUMNS: Final = tuple(ENTITY.c[name] for name in EntityRow._fields)


@dataclass(frozen=True, slots=True)
class AccountBucket:
    """Some accounts, with all that they and their relatives have of their own.

    Attributes:
        account_ids: In the order of the accounts' codes.
        rows: The entities.
        changed_kinds: The kinds of those that were changed since they were created.
    """

    account_ids: tuple[str, ...]
    rows: PackedList[EntityRow]
    changed_kinds: frozenset[str]


_EMPTY: Final = AccountBucket((), PackedList(), frozenset())


@dataclass(frozen=True, slots=True)
class AccountBuckets:
    """The configuration of an organization as it was read at once.

    Attributes:
        shared: What belongs to no account.
        buckets: In the order of the accounts' codes.
    """

    shared: Sequence[Record[Any]]
    buckets: Sequence[AccountBucket]

    def configuration(self, bucket: AccountBucket) -> Configuration:
        """What all accounts share, and what those of a bucket have."""
        own = (record_of(each) for each in bucket.rows)  # type: ignore[arg-type]
        return Configuration([*self.shared, *own])


@dataclass(frozen=True, slots=True)
class KeptBuckets(AccountBuckets):
    """The same for calculations that use a bucket several times in turn: its entities are kept.

    Attributes:
        kept: The entities of the bucket that was used last, by the bucket's identity.
    """

    kept: dict[int, list[Record[Any]]] = field(default_factory=dict)

    def configuration(self, bucket: AccountBucket) -> Configuration:
        """What all accounts share, and what those of a bucket have."""
        own = self.kept.get(id(bucket))
        if own is None:
            self.kept.clear()
            own = self.kept[id(bucket)] = [record_of(each) for each in bucket.rows]  # type: ignore[arg-type]
        return Configuration([*self.shared, *own])

    def with_shared(self, reader: Reader) -> "KeptBuckets":
        """The same accounts, with what belongs to no account as a reader sees it."""
        return KeptBuckets(_read_shared(reader), self.buckets, self.kept)


def read_account_buckets(
    reader: Reader, account_ids: Collection[str] | None, size: int, only: int | None = None
) -> AccountBuckets:
    """Read the configuration of accounts in buckets.

    Args:
        reader: Where from.
        account_ids: The accounts; all if None. Of those that there are not, there is nothing.
        size: How many accounts a bucket has.
        only: The number of the one bucket whose entities are read; those of all if None.
    """
    families = _Families(reader)
    chosen = None if account_ids is None else set(account_ids)
    ordered = [id_ for id_ in families.ids if chosen is None or id_ in chosen]
    buckets = [
        _read_bucket(reader, tuple(each), families.of(each))
        if only in {None, number}
        else AccountBucket(tuple(each), PackedList(), frozenset())
        for number, each in enumerate(chunks_of(ordered, size))
    ]
    return AccountBuckets(_read_shared(reader), buckets or [_EMPTY])


def read_given_buckets(reader: Reader, given: Iterable[Collection[str]]) -> AccountBuckets:
    """Read the configuration of accounts in buckets that somebody else has made up.

    Args:
        reader: Where from.
        given: The ids of the accounts of each; of those that there are not, there is nothing.
    """
    families = _Families(reader)
    places = {id_: place for place, id_ in enumerate(families.ids)}
    ordered = (sorted(places.keys() & set(ids), key=places.__getitem__) for ids in given)
    buckets = [_read_bucket(reader, tuple(ids), families.of(ids)) for ids in ordered]
    return AccountBuckets(_read_shared(reader), buckets or [_EMPTY])


def _read_shared(reader: Reader) -> list[Record[Any]]:
    """What belongs to no account."""
    query = select(ENTITY).where(
        ENTITY.c.org == reader.org_id, ENTITY.c.kind.not_in(sorted(OWN_KINDS))
    )
    return [record_of(row) for row in reader.connection.execute(query)]


class _Families:
    """The accounts by code, and who is related to whom.

    Attributes:
        ids: The ids in the order of the codes.
    """

    def __init__(self, reader: Reader) -> None:
        parent = member_text(ENTITY.c.body, "parentAccountId")
        query = select(ENTITY.c.code, ENTITY.c.id, parent).where(
            ENTITY.c.org == reader.org_id, ENTITY.c.kind == Account.__name__
        )
        rows = reader.connection.execute(query).tuples()
        # One whose row is damaged has no code.
        found = sorted(rows, key=lambda row: (row[0] or row[1], row[1]))
        self.ids = [id_ for _, id_, _ in found]
        self._related: dict[str, list[str]] = defaultdict(list)
        for _, id_, parent_id in found:
            if parent_id is not None:
                self._related[id_].append(parent_id)
                self._related[parent_id].append(id_)

    def of(self, account_ids: Iterable[str]) -> list[str]:
        """Accounts with all that are related to them."""
        found = dict.fromkeys(account_ids)
        open_ids = [each for each in found if each in self._related]
        while open_ids:
            for each in self._related[open_ids.pop()]:
                if each not in found:
                    found[each] = None
                    open_ids.append(each)
        return list(found)


def _read_bucket(
    reader: Reader, account_ids: tuple[str, ...], with_relatives: Iterable[str]
) -> AccountBucket:
    rows: PackedList[EntityRow] = PackedList()
    changed = set()
    for ids in chunks_of(with_relatives):
        for query in (
            select(*_COLUMNS).where(
                ENTITY.c.org == reader.org_id,
                ENTITY.c.kind == Account.__name__,
                ENTITY.c.id.in_(ids),
            ),
            _own(reader, ids),
        ):
            for found in reader.connection.execute(query).tuples():
                row = EntityRow(*found)
                rows.append(row)
                if row.version > 1:
                    changed.add(row.kind)
    return AccountBucket(account_ids, rows, frozenset(changed))


def _own(reader: Reader, ids: Collection[str]) -> Select[Any]:
    reference = ENTITY_REFERENCE.c
    return (
        select(*_COLUMNS)
        .join(
            ENTITY_REFERENCE,
            (reference.org == ENTITY.c.org)
            & (reference.kind == ENTITY.c.kind)
            & (reference.id == ENTITY.c.id),
        )
        .where(
            reference.org == reader.org_id,
            reference.target_kind == Account.__name__,
            reference.target_id.in_(ids),
            reference.kind.in_(sorted(each.__name__ for each in ACCOUNT_ENTITIES)),
        )
    )
