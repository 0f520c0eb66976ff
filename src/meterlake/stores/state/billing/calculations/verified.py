"""Bills as their tables have them, for those who compare every byte; and rows that were altered."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Select, func, or_, select

from meterlake.model.customers.accounts import Account
from meterlake.model.customers.owned_entities import ACCOUNT_ENTITIES
from meterlake.stores.state.billing.accounts.usage_accounts import read_relatives
from meterlake.stores.state.core.entity_history import stream_rows
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.row_digests import digest_of_posting, digest_of_version
from meterlake.stores.state.core.tables import (
    BILL,
    BILL_LINE,
    BILL_VERSION,
    BILL_VERSION_LINE,
    ENTITY_HISTORY,
    ENTITY_REFERENCE,
    POSTING,
)

_COLUMNS: Final = (
    *("id", "account_id", "calculation_id", "ledger_at", "bill_date", "frequency", "interval"),
)
_OWN_NAMES: Final = sorted({Account.__name__, *(each.__name__ for each in ACCOUNT_ENTITIES)})


class BillRef(NamedTuple):
    """A bill with the calculation that its content is of, and the last transaction of its ledger.

    Attributes:
        version: Of a former content; None of the one that the bill has.
    """

    id: str
    account_id: str
    calculation_id: str | None
    ledger_at: int
    bill_date: date
    frequency: str
    interval: int
    version: int | None = None


class BillRow(NamedTuple):
    """A bill as its row and the rows of its lines have it; lines are key, body and pins."""

    head: Any
    lines: Sequence[tuple[str, str, str]]


def list_refs(reader: Reader, *conditions: ColumnElement[bool]) -> list[BillRef]:
    """The bills that meet all conditions, by their calculations."""
    columns = [BILL.c[name] for name in _COLUMNS]
    query = select(*columns).where(BILL.c.org == reader.org_id, *conditions)
    rows = reader.connection.execute(query.order_by(BILL.c.calculation_id, BILL.c.id))
    return [BillRef(*row)._replace(ledger_at=row.ledger_at or 0) for row in rows]


def list_former_refs(reader: Reader, *conditions: ColumnElement[bool]) -> list[BillRef]:
    """What bills said before that meet all conditions, also deleted ones, by their calculations."""
    table = BILL_VERSION.c
    columns = [table.bill_id, *(table[name] for name in _COLUMNS[1:]), table.version]
    query = select(*columns).where(table.org == reader.org_id, *conditions)
    rows = reader.connection.execute(
        query.order_by(table.calculation_id, table.bill_id, table.version)
    )
    return [BillRef(*row)._replace(ledger_at=row.ledger_at or 0) for row in rows]


def sample_bills(reader: Reader, count: int) -> list[str]:
    """The ids of some bills that can be verified, other ones each time."""
    query = select(BILL.c.id).where(BILL.c.org == reader.org_id, BILL.c.calculation_id.is_not(None))
    return list(reader.connection.execute(query.order_by(func.random()).limit(count)).scalars())


def read_rows(reader: Reader, ids: Iterable[str]) -> dict[str, BillRow]:
    """Some bills as their rows have them, by their ids."""
    found: dict[str, BillRow] = {}
    for chunk in chunks_of(ids):
        lines: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
        query = select(BILL_LINE).where(BILL_LINE.c.bill_id.in_(chunk))
        order = query.order_by(BILL_LINE.c.bill_id, BILL_LINE.c.sequence)
        for row in reader.connection.execute(order):
            lines[row.bill_id].append((row.key, row.body, row.pins))
        heads = select(BILL).where(BILL.c.org == reader.org_id, BILL.c.id.in_(chunk))
        for row in reader.connection.execute(heads):
            found[row.id] = BillRow(row, lines[row.id])
    return found


def read_former_rows(reader: Reader, refs: Iterable[BillRef]) -> dict[str, BillRow]:
    """Some former contents as their rows have them, by the ids of their bills; one of each bill."""
    table, line = BILL_VERSION.c, BILL_VERSION_LINE.c
    found: dict[str, BillRow] = {}
    for ref in refs:
        head = select(BILL_VERSION).where(
            table.org == reader.org_id, table.bill_id == ref.id, table.version == ref.version
        )
        query = select(line.key, line.body, line.pins).where(
            line.bill_id == ref.id, line.version == ref.version
        )
        lines = reader.connection.execute(query.order_by(line.sequence))
        found[ref.id] = BillRow(
            reader.connection.execute(head).one(), [tuple(row) for row in lines]
        )
    return found


class AlteredRow(NamedTuple):
    """A row that does not say what it said when it was written."""

    kind: str
    id: str
    version: int | None
    written: str
    found: str


def altered_versions(reader: Reader, account_ids: Collection[str] | None) -> Iterator[AlteredRow]:
    """The versions of entities, those that hold and those of before, that are not what was written.

    Args:
        reader: The organization, now or as it was.
        account_ids: Only what belongs to no account, to these, or to their relatives; all if None.
    """
    known = select(ENTITY_HISTORY).where(ENTITY_HISTORY.c.org == reader.org_id)
    if account_ids is None:
        yield from _find_altered(reader, known)
        return
    yield from _find_altered(reader, known.where(ENTITY_HISTORY.c.kind.not_in(_OWN_NAMES)))
    for ids in chunks_of(sorted(read_relatives(reader, account_ids))):
        own = select(ENTITY_REFERENCE.c.id).where(
            ENTITY_REFERENCE.c.org == reader.org_id,
            ENTITY_REFERENCE.c.target_kind == Account.__name__,
            ENTITY_REFERENCE.c.target_id.in_(ids),
        )
        column = ENTITY_HISTORY.c.id
        those = known.where(ENTITY_HISTORY.c.kind.in_(_OWN_NAMES))
        yield from _find_altered(reader, those.where(or_(column.in_(ids), column.in_(own))))


def _find_altered(reader: Reader, query: Select[Any]) -> Iterator[AlteredRow]:
    for row in stream_rows(reader, query):
        found = digest_of_version(row._asdict())
        if row.digest is not None and found != row.digest:
            yield AlteredRow(row.kind, row.id, row.version, row.digest, found)


def altered_postings(reader: Reader, source_ids: Collection[str]) -> Iterator[AlteredRow]:
    """The postings of balances and commitments that are not what was written."""
    for ids in chunks_of(sorted(source_ids)):
        query = select(POSTING).where(POSTING.c.org == reader.org_id, POSTING.c.source_id.in_(ids))
        for row in reader.connection.execute(query.order_by(POSTING.c.sequence)):
            found = digest_of_posting(row._asdict())
            if row.digest is not None and found != row.digest:
                yield AlteredRow("posting", row.id, None, row.digest, found)
