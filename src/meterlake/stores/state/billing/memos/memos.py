"""Credits and debits that people put on bills: made, changed and deleted one by one.

Bills show them as lines, which are read apart and added to calculated lines.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from sqlalchemy import Row, delete, func, insert, select, update

from meterlake.model.bills.memos import (
    CarriedCredit,
    CarriedDebit,
    CreditLineItem,
    DebitLineItem,
    MemoKind,
    MemoLineItem,
)
from meterlake.model.errors import NotFound, StaleVersion, StillReferenced
from meterlake.model.values import wire
from meterlake.model.values.entity import Entity, Record
from meterlake.model.values.ids import derived_id
from meterlake.stores.state.core import pages
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL_MEMO
from meterlake.stores.state.core.transaction import Transaction

# What the keys of these lines begin with; those of calculated lines begin with a line item type.
KEY_PREFIX: Final = "MEMO/"


@dataclass(frozen=True, slots=True)
class MemoLine:
    """What a bill shows of one of them.

    Attributes:
        key: Identifies it within its bill, beside the keys of calculated lines.
        body: The line without its number.
    """

    key: str
    body: dict[str, Any]

    @property
    def amount(self) -> Decimal:
        """What it adds to the bill; less than 0 for a credit."""
        return Decimal(self.body["convertedSubtotal"])


def line_id(bill_id: str, key: str) -> str:
    """The id of a line: the same however often its bill is calculated."""
    return derived_id(bill_id, key)


def memo_lines(reader: Reader, bill_ids: Sequence[str]) -> dict[str, list[MemoLine]]:
    """The lines that people put on some bills, by bill, in the order in which they were made."""
    table, found = BILL_MEMO.c, defaultdict(list)
    query = (
        select(table.bill_id, table.key, table.line)
        .where(table.bill_id.in_(bill_ids))
        .order_by(table.bill_id, table.position)
    )
    for row in reader.connection.execute(query) if bill_ids else ():
        found[row.bill_id].append(MemoLine(row.key, wire.loads(row.line)))
    return found


_ENTITIES: Final[Mapping[str, type[MemoLineItem]]] = {
    each.kind.value: each for each in (CreditLineItem, DebitLineItem)
}
# Of those that late usage made, some lack what people have to say.
_CARRIED: Final[Mapping[str, type[MemoLineItem]]] = {
    each.kind.value: each for each in (CarriedCredit, CarriedDebit)
}
_NEEDED: Final = ("productId", "accountingProductId", "referencedLineItemId")


@dataclass(frozen=True, slots=True)
class StoredMemo:
    """A line of a person: what was asked for, and which line of which bill it is."""

    bill_id: str
    key: str
    record: Record[MemoLineItem]


def create_memo(
    transaction: Transaction, bill_id: str, entity: MemoLineItem, line: Mapping[str, Any]
) -> StoredMemo:
    """Store a line for a bill; `line` is what the bill shows of it, without its number."""
    table = BILL_MEMO.c
    last = select(func.max(table.position)).where(table.bill_id == bill_id)
    key = f"{KEY_PREFIX}{transaction.new_id()}"
    row = {
        "id": line_id(bill_id, key),
        "org": transaction.org_id,
        "bill_id": bill_id,
        "kind": entity.kind.value,
        "position": (transaction.connection.execute(last).scalar() or 0) + 1,
        "key": key,
        **_content(entity, line),
        "version": 1,
        "created": transaction.now,
        "created_by": transaction.author,
        "modified": transaction.now,
        "modified_by": transaction.author,
    }
    transaction.connection.execute(insert(BILL_MEMO), row)
    return get_memo(transaction, bill_id, entity.kind, row["id"])


def get_memo(reader: Reader, bill_id: str, kind: MemoKind, id: str) -> StoredMemo:
    """One line of a bill.

    Raises:
        NotFound: The bill has no such line.
    """
    query = _all(reader, bill_id, kind).where(BILL_MEMO.c.id == id)
    row = reader.connection.execute(query).first()
    if row is None:
        raise NotFound(f"{kind.value.lower()} line item", id)
    return _memo_of(row)


def list_memos(
    reader: Reader, bill_id: str, kind: MemoKind, page: pages.Page
) -> tuple[list[StoredMemo], str | None]:
    """One page of a bill's lines of a kind, the newest first, and the token of the next page.

    Raises:
        Invalid: The token is none that a list gave.
    """
    table, query = BILL_MEMO.c, _all(reader, bill_id, kind)
    rows, token = pages.read(reader.connection, query, table.created, table.id, page)
    return [_memo_of(row) for row in rows], token


def update_memo(
    transaction: Transaction,
    memo: StoredMemo,
    version: int,
    entity: MemoLineItem,
    line: Mapping[str, Any],
) -> StoredMemo:
    """Replace a line if `version` is still its current one.

    Raises:
        StaleVersion: Someone updated it since the caller read it.
    """
    record = memo.record
    if version != record.version:
        raise StaleVersion(type(entity).__name__, record.id, record.version, version)
    values = {
        **_content(entity, line),
        "version": version + 1,
        "modified": max(transaction.now, record.modified),
        "modified_by": transaction.author,
    }
    statement = update(BILL_MEMO).where(BILL_MEMO.c.id == record.id).values(**values)
    transaction.connection.execute(statement)
    return get_memo(transaction, memo.bill_id, entity.kind, record.id)


def delete_memo(transaction: Transaction, memo: StoredMemo) -> None:
    """Delete a line."""
    statement = delete(BILL_MEMO).where(BILL_MEMO.c.id == memo.record.id)
    transaction.connection.execute(statement)


def refuse_reason_of_memo(kind: type[Entity]) -> Any:
    """A guard of deletion of a reason that lines of bills name."""

    def refuse(reader: Reader, id: str) -> None:
        table = BILL_MEMO.c
        query = select(table.id).where(table.org == reader.org_id, table.reason_id == id).limit(1)
        found = reader.connection.execute(query).scalar()
        if found is not None:
            raise StillReferenced(kind.__name__, id, f"line item {found!r}")

    return refuse


def reason_of(entity: MemoLineItem) -> str | None:
    """The reason of a line: its own one, or the one that every line may have."""
    own = getattr(entity, f"{entity.kind.value.lower()}_reason_id")
    return own or entity.reason_id


def _content(entity: MemoLineItem, line: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "reason_id": reason_of(entity),
        "body": wire.dumps_sorted(entity.to_wire()),
        "line": wire.dumps_sorted(dict(line)),
    }


def _all(reader: Reader, bill_id: str, kind: MemoKind) -> Any:
    table = BILL_MEMO.c
    return select(BILL_MEMO).where(
        table.org == reader.org_id, table.bill_id == bill_id, table.kind == kind.value
    )


def _memo_of(row: Row[Any]) -> StoredMemo:
    body = wire.loads(row.body)
    kinds = _ENTITIES if all(name in body for name in _NEEDED) else _CARRIED
    entity = kinds[row.kind].from_wire(body)
    record = Record(
        row.id, row.version, entity, row.created, row.created_by, row.modified, row.modified_by
    )
    return StoredMemo(row.bill_id, row.key, record)
