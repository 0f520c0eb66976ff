"""What bills said before they were made again, or deleted: kept in the transaction that changes them.

A bill that is made once costs nothing here. Its content now is in its own tables; that of before is
copied when another one takes its place.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Table, func, insert, literal, select, type_coerce

from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.stores.state.billing.memos.memos import KEY_PREFIX
from meterlake.stores.state.billing.stored_bills import (
    BillContent,
    BillKey,
    LineContent,
    line_of,
)
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import (
    BILL,
    BILL_LINE,
    BILL_VERSION,
    BILL_VERSION_LINE,
    InstantText,
    RecordDay,
)
from meterlake.stores.state.core.transaction import Transaction

# Columns that a version has as its bill had them.
_SAME: Final = (
    *("org", *BillKey.COLUMNS, "period", "currency", "total", "body", "pins", "snapshot", "began"),
    *("calculation_id", "ledger_at", "created", "created_by", "modified", "modified_by"),
)
_LINE: Final = ("sequence", "key", "body", "pins")


@dataclass(frozen=True, slots=True)
class BillVersion:
    """What a bill said from one version on.

    Attributes:
        version: The version of the bill that brought it.
        modified: When it came to say so; approvals and locks change nothing of it.
        ledger_at: The last transaction that its ledger has.
        replaced: When something else took its place, or the bill was deleted; None if it still holds.
    """

    bill_id: str
    version: int
    content: BillContent
    modified: datetime
    modified_by: str
    replaced: datetime | None = None
    replaced_by: str | None = None
    calculation_id: str | None = None
    ledger_at: int = 0


def keep_versions(transaction: Transaction, bill_ids: Iterable[str]) -> None:
    """Keep what bills say, before something else takes its place or they are deleted."""
    now = literal(transaction.now, InstantText())
    more = {
        "bill_id": BILL.c.id,
        "version": BILL.c.content_version,
        "ended": literal(transaction.number),
        "replaced": now,
        "replaced_by": literal(transaction.author),
    }
    head = {**{name: BILL.c[name] for name in _SAME}, **more}
    line = {name: BILL_LINE.c[name] for name in _LINE}
    line |= {"bill_id": BILL.c.id, "version": BILL.c.content_version}
    for ids in chunks_of(bill_ids):
        heads = select(*head.values()).where(BILL.c.id.in_(ids))
        transaction.connection.execute(insert(BILL_VERSION).from_select([*head], heads))
        lines = select(*line.values()).join_from(BILL_LINE, BILL).where(BILL.c.id.in_(ids))
        transaction.connection.execute(insert(BILL_VERSION_LINE).from_select([*line], lines))


def list_versions(reader: Reader, bill_id: str) -> list[BillVersion]:
    """All that a bill said, the first version first, without lines; also of a deleted bill.

    Raises:
        NotFound: There never was such a bill.
    """
    past = select(BILL_VERSION).where(
        BILL_VERSION.c.org == reader.org_id, BILL_VERSION.c.bill_id == bill_id
    )
    found = [
        _version_of(reader, row, row.version, replaced=(row.replaced, row.replaced_by))
        for row in reader.connection.execute(past.order_by(BILL_VERSION.c.version))
    ]
    now = reader.connection.execute(_now(reader, bill_id)).first()
    if now is not None:
        found.append(_version_of(reader, now, now.content_version))
    if not found:
        raise NotFound("bill", bill_id)
    return found


def get_version(reader: Reader, bill_id: str, version: int) -> BillVersion:
    """What a bill said at a version, with its lines.

    Args:
        reader: Where from.
        bill_id: The bill, which may be deleted.
        version: Any of its versions; an approval has the content of the version before it.

    Raises:
        NotFound: The bill never had this version.
    """
    now = reader.connection.execute(_now(reader, bill_id)).first()
    if now is not None and now.content_version <= version <= now.version:
        lines = select(BILL_LINE).where(BILL_LINE.c.bill_id == bill_id)
        rows = reader.connection.execute(lines.order_by(BILL_LINE.c.sequence))
        return _version_of(reader, now, now.content_version, [line_of(row) for row in rows])
    table = BILL_VERSION.c
    query = (
        select(BILL_VERSION)
        .where(table.org == reader.org_id, table.bill_id == bill_id, table.version <= version)
        .order_by(table.version.desc())
        .limit(1)
    )
    row = reader.connection.execute(query).first()
    if row is None or (now is not None and version > now.version):
        raise NotFound("version of the bill", f"{bill_id}/{version}")
    line = BILL_VERSION_LINE.c
    query = select(BILL_VERSION_LINE).where(line.bill_id == bill_id, line.version == row.version)
    rows = reader.connection.execute(query.order_by(line.sequence))
    lines_of_row = [line_of(each) for each in rows]
    replaced = (row.replaced, row.replaced_by)
    return _version_of(reader, row, row.version, lines_of_row, replaced=replaced)


class ContentChange(NamedTuple):
    """How what a bill said came to be something else.

    Attributes:
        is_deleted: Whether the bill was deleted.
        before: A line of a person as it was; None if it came, and of a calculation.
        after: The line as it is then; None if it went.
    """

    is_deleted: bool = False
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


def content_change(reader: Reader, bill_id: str, version: int) -> ContentChange:
    """What took the place of what a bill said at a version that is past."""
    past = BILL_VERSION_LINE.c
    before = _lines_of_people(
        reader, BILL_VERSION_LINE, past.bill_id == bill_id, past.version == version
    )
    heads = BILL_VERSION.c
    query = select(func.min(heads.version)).where(heads.bill_id == bill_id, heads.version > version)
    following = reader.connection.execute(query).scalar()
    if following is not None:
        after = _lines_of_people(
            reader, BILL_VERSION_LINE, past.bill_id == bill_id, past.version == following
        )
    elif reader.connection.execute(_now(reader, bill_id)).first() is None:
        return ContentChange(is_deleted=True)
    else:
        after = _lines_of_people(reader, BILL_LINE, BILL_LINE.c.bill_id == bill_id)
    for key in sorted(before.keys() | after.keys()):
        if before.get(key) != after.get(key):
            return ContentChange(before=before.get(key), after=after.get(key))
    return ContentChange()


def _lines_of_people(
    reader: Reader, table: Table, *conditions: ColumnElement[bool]
) -> dict[str, dict[str, Any]]:
    """The lines that people put on a bill, by key, without their places on it."""
    query = select(table.c.key, table.c.body).where(*conditions, table.c.key.startswith(KEY_PREFIX))
    found = {row.key: wire.loads(row.body) for row in reader.connection.execute(query)}
    return {
        key: {name: value for name, value in body.items() if name != "sequenceNumber"}
        for key, body in found.items()
    }


def last_version(reader: Reader, bill_id: str) -> BillVersion:
    """What a deleted bill said last, with its lines.

    Raises:
        NotFound: There never was such a bill.
    """
    return get_version(reader, bill_id, list_versions(reader, bill_id)[-1].version)


def which_are_there(reader: Reader, bill_ids: Iterable[str]) -> set[str]:
    """Those of some bills that are not deleted."""
    found: set[str] = set()
    for ids in chunks_of(set(bill_ids)):
        query = select(BILL.c.id).where(BILL.c.org == reader.org_id, BILL.c.id.in_(ids))
        found.update(reader.connection.execute(query).scalars())
    return found


def deleted_bills(reader: Reader) -> dict[str, BillKey]:
    """The keys of bills that were deleted and not made again, by the ids that the last of them had."""
    past = BILL_VERSION.c
    same = (BILL.c[name] == past[name] for name in BillKey.COLUMNS)
    there = select(BILL.c.id).where(BILL.c.org == reader.org_id, *same)
    query = (
        select(past.bill_id, *(past[name] for name in BillKey.COLUMNS))
        .where(past.org == reader.org_id, ~there.exists())
        .order_by(past.ended)
    )
    last = {BillKey.of_row(row): row.bill_id for row in reader.connection.execute(query)}
    return {bill_id: key for key, bill_id in last.items()}


def keys_of(reader: Reader, bill_ids: Iterable[str]) -> dict[str, BillKey]:
    """The keys of bills, also of deleted ones, by id; a damaged date is what stands there."""
    found: dict[str, BillKey] = {}
    for ids in chunks_of(set(bill_ids)):
        for table, id_ in ((BILL_VERSION, BILL_VERSION.c.bill_id), (BILL, BILL.c.id)):
            day = type_coerce(table.c.bill_date, RecordDay()).label("bill_date")
            others = (table.c[name] for name in BillKey.COLUMNS if name != "bill_date")
            query = select(id_.label("bill_id"), day, *others)
            rows = reader.connection.execute(query.where(id_.in_(ids)).distinct())
            found |= {row.bill_id: BillKey.of_row(row) for row in rows}
    return found


def _now(reader: Reader, bill_id: str) -> Any:
    return select(BILL).where(BILL.c.org == reader.org_id, BILL.c.id == bill_id)


def _version_of(
    reader: Reader,
    row: Any,
    version: int,
    lines: Sequence[LineContent] = (),
    replaced: tuple[datetime | None, str | None] = (None, None),
) -> BillVersion:
    content = BillContent(
        *(BillKey.of_row(row), row.period, row.currency, Decimal(row.total)),
        *(wire.loads(row.body), wire.loads(row.pins), lines),
    )
    bill_id = getattr(row, "bill_id", None) or row.id
    past = BILL_VERSION.c
    query = select(past.replaced, past.replaced_by).where(
        past.bill_id == bill_id, past.version < version
    )
    before = reader.connection.execute(query.order_by(past.version.desc()).limit(1)).first()
    made, author = (row.created, row.created_by) if before is None else before
    return BillVersion(
        *(bill_id, version, content, made, author, *replaced),
        calculation_id=row.calculation_id,
        ledger_at=row.ledger_at or 0,
    )
