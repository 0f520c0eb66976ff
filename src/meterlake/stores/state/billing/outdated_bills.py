"""Bills that are to be calculated again, since something else is left of a source for them.

One before draws something else, or a transaction of a balance counts for them.

The mark is set in the transaction that changes what is drawn, and goes when the bill is calculated:
a job that dies in between finds it again.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import date

from sqlalchemy import or_, select, update

from meterlake.model.bills.ledger import BillRank
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL
from meterlake.stores.state.core.transaction import Transaction

# Who marks bills that is no job.
NO_JOB = "-"


def mark_outdated(
    transaction: Transaction,
    ranks: Mapping[str, BillRank],
    but: Collection[str] = (),
    job_id: str | None = None,
) -> None:
    """Mark the bills of accounts that come after those of which the draws changed.

    Args:
        transaction: The one that changes what is drawn.
        ranks: The first bill that draws something else, by the id of its account.
        but: The ids of bills that were calculated after it already.
        job_id: The job that does it.
    """
    columns = (BILL.c.bill_date, BILL.c.frequency, BILL.c.interval, BILL.c.grouping_key)
    for ids in chunks_of(ranks):
        query = select(BILL.c.id, BILL.c.account_id, *columns).where(
            BILL.c.org == transaction.org_id,
            BILL.c.account_id.in_(ids),
            BILL.c.bill_date >= min(ranks[each].bill_date for each in ids),
        )
        found = transaction.connection.execute(query)
        later = {row.id for row in found if BillRank.of(*row[2:]) > ranks[row.account_id]}
        values = {"outdated_by": job_id or NO_JOB}
        for chunk in chunks_of(sorted(later - set(but))):
            transaction.connection.execute(update(BILL).where(BILL.c.id.in_(chunk)).values(values))


def mark_bills_from(transaction: Transaction, account_id: str, first: date) -> None:
    """Mark the bills of an account that may change and are dated on a day or later.

    Args:
        transaction: The one that changes what a source of theirs has.
        account_id: The account that is billed.
        first: The first bill date that the change counts for.
    """
    closed_until = closed_before(transaction)
    conditions = [
        BILL.c.org == transaction.org_id,
        BILL.c.account_id == account_id,
        BILL.c.bill_date >= first,
        BILL.c.locked.is_(False),
    ]
    if closed_until is not None:
        conditions.append(BILL.c.bill_date > closed_until)
    marked = update(BILL).where(*conditions).values(outdated_by=NO_JOB)
    transaction.connection.execute(marked)


def outdated_bills(reader: Reader, job_id: str, account_ids: Iterable[str] | None) -> list[str]:
    """The ids of the bills of accounts that a job is to calculate again, by bill date.

    A locked bill that differs keeps the mark: only the job that set it looks at it.
    """
    query = select(BILL.c.id, BILL.c.account_id).where(
        BILL.c.org == reader.org_id,
        BILL.c.outdated_by.is_not(None),
        or_(BILL.c.outdated_by == job_id, BILL.c.locked.is_(False)),
    )
    rows = reader.connection.execute(query.order_by(BILL.c.bill_date, BILL.c.id)).all()
    known = None if account_ids is None else set(account_ids)
    return [row.id for row in rows if known is None or row.account_id in known]
