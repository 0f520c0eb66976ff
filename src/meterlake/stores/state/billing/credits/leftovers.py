"""What was posted at the ends of balances, and which balances have to be looked at again."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Select,
    and_,
    case,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
)

from meterlake.model.bills.ledger import (
    LedgerAccountType,
    Leftover,
    LeftoverChanges,
    Posting,
    PostingKind,
)
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.balances import Balance, EntityType
from meterlake.model.values.entity import Record
from meterlake.model.values.period import format_instant, local_date, zone
from meterlake.stores.state.billing.credits.ledger import NewPosting, is_standing, post, reversal_of
from meterlake.stores.state.core.json_columns import instant_text
from meterlake.stores.state.core.many_rows import chunks_of, insert_rows
from meterlake.stores.state.core.postings import posting_of, select_postings
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BALANCE_NOTE, BALANCE_SETTLEMENT, ENTITY, POSTING
from meterlake.stores.state.core.transaction import Transaction

AUTHOR: Final = "balance ends"
_MOMENT: Final = timedelta(microseconds=1)
_KINDS = (PostingKind.EXPIRY.value, PostingKind.ROLLOVER.value)


def unsettled_balances(
    reader: Reader, now: datetime, among: Sequence[str] | None = None
) -> list[str]:
    """The balances of which an end came, or anything changed after it, since they were settled.

    So does a transaction whose time comes after the end.

    Args:
        reader: Where from.
        now: What applies later does not count yet.
        among: Which ones are looked at; all if None.
    """
    query = _unsettled(reader, now)
    if among is not None:
        query = query.where(ENTITY.c.id.in_(among))
    return list(reader.connection.execute(query).scalars())


def resettled_balances(reader: Reader, ids: Collection[str], now: datetime) -> list[str]:
    """Those of some balances that are to be settled again: something was posted at their ends."""
    found: list[str] = []
    for chunk in chunks_of(ids):
        query = _unsettled(reader, now).where(ENTITY.c.id.in_(chunk), BALANCE_SETTLEMENT.c.ends > 0)
        found += reader.connection.execute(query).scalars()
    return found


def _unsettled(reader: Reader, now: datetime) -> Select[Any]:
    moment = format_instant(now).removesuffix("Z")
    ends = sum(
        (
            case((instant_text(ENTITY.c.body, literal(name)) <= moment, 1), else_=0)
            for name in ("endDate", "rolloverEndDate")
        ),
        literal(0),
    )
    known = BALANCE_SETTLEMENT.c
    query = select(func.count()).where(
        POSTING.c.org == ENTITY.c.org, POSTING.c.source_id == ENTITY.c.id, _applies(now)
    )
    count = query.correlate(ENTITY).scalar_subquery()
    is_settled = and_(
        known.version == ENTITY.c.version,
        known.ends == ends,
        or_(ends == 0, known.postings == count),
    )
    return (
        select(ENTITY.c.id)
        .outerjoin(BALANCE_SETTLEMENT, known.balance_id == ENTITY.c.id)
        .where(
            ENTITY.c.org == reader.org_id,
            ENTITY.c.kind == Balance.__name__,
            or_(and_(known.balance_id.is_(None), ends > 0), ~is_settled),
        )
        .order_by(ENTITY.c.created, ENTITY.c.id)
    )


def _applies(now: datetime) -> ColumnElement[bool]:
    """What applies later changes what is left when its time comes."""
    return or_(POSTING.c.applied.is_(None), POSTING.c.applied <= now)


def standing_leftovers(reader: Reader, balance_ids: Sequence[str]) -> dict[str, list[Posting]]:
    """What was posted at the ends of some balances, without what was taken back, by their ids."""
    query = select_postings(reader).where(
        POSTING.c.source_id.in_(balance_ids), POSTING.c.kind.in_(_KINDS), is_standing()
    )
    found: dict[str, list[Posting]] = {each: [] for each in balance_ids}
    for row in reader.connection.execute(query.order_by(POSTING.c.sequence)):
        found[row.source_id].append(posting_of(row))
    return found


def post_leftovers(
    transaction: Transaction, balance: Record[Balance], changes: LeftoverChanges
) -> None:
    """Take back what is wrong, and post what is missing.

    Nobody asked for either: they follow from the end of the balance, whoever calculates a bill.
    """
    wrong, missing = changes
    reversals = (reversal_of(each) for each in wrong)
    new = (
        NewPosting(
            from_account=each.from_account,
            to_account=each.to_account,
            amount=each.amount,
            currency=balance.entity.currency,
            kind=each.kind,
            source_id=balance.id,
            applied=each.applied,
        )
        for each in missing
    )
    ids = post(transaction, [*reversals, *new], AUTHOR)
    [organization] = transaction.all(OrganizationConfig)
    tz = zone(organization.entity.timezone)
    texts = [
        *(f"Taken back: {_text(each, tz)}" for each in wrong),
        *(_text(each, tz) for each in missing),
    ]
    notes = [
        {
            "id": id_,
            "org": transaction.org_id,
            "description": text,
            "entity_type": EntityType.SCHEDULER.value,
            "entity_id": balance.id,
        }
        for id_, text in zip(ids, texts, strict=True)
    ]
    insert_rows(transaction.connection, BALANCE_NOTE, notes)


def _text(leftover: Leftover | Posting, tz: tzinfo) -> str:
    """What people read of it, with the last day that counted."""
    assert leftover.applied is not None, leftover
    last = local_date(leftover.applied - _MOMENT, tz)
    day = f"{last.day} {last:%b %Y}"
    if leftover.kind is PostingKind.ROLLOVER:
        return f"Carried over: the balance ended on {day}"
    if leftover.from_account.type is LedgerAccountType.ROLLOVER:
        return f"Expired: it was carried over until {day}"
    return f"Expired: the balance ended on {day}"


def note_settled(transaction: Transaction, balance: Record[Balance], ends: int) -> None:
    """Note that a balance is settled as it is, after so many of its ends."""
    table, connection = BALANCE_SETTLEMENT, transaction.connection
    postings = select(func.count()).where(
        POSTING.c.org == transaction.org_id,
        POSTING.c.source_id == balance.id,
        _applies(transaction.now),
    )
    row = {
        "balance_id": balance.id,
        "org": transaction.org_id,
        "version": balance.version,
        "ends": ends,
        "postings": connection.execute(postings).scalar(),
    }
    connection.execute(delete(table).where(table.c.balance_id == balance.id))
    connection.execute(insert(table), row)
