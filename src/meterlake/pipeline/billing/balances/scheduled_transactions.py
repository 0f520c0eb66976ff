"""Transactions of balances that schedules make: each once, when it is due or as soon as it can be.

A run of a schedule is known by the instant at which it is due; whoever looks books what is due and
was not booked. So it does not matter who looks, how often, or after how long a time without a look.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import islice, takewhile
from typing import Any, Final

from meterlake.model.calendar.recurrence import instants_after
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.balances import (
    Balance,
    BalanceTransaction,
    BalanceTransactionSchedule,
    EntityType,
)
from meterlake.model.errors import NotFound
from meterlake.model.rules.balances import transaction_schedule_runs
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Period, zone
from meterlake.pipeline.billing.balances.balances import book
from meterlake.stores import Organization
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.billing.credits.balances import Cause
from meterlake.stores.state.billing.credits.ledger import lock_sources
from meterlake.stores.state.core.postings import newest_due
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

AUTHOR: Final = "balance schedules"
# After a long time without a look, transactions are booked bit by bit.
_AT_ONCE: Final = 100


def book_due_transactions(organization: Organization) -> int:
    """Book the transactions of all schedules that are due and were not booked.

    Each applies from the instant at which it was due, whenever it is booked.

    Returns:
        How many were booked.

    Raises:
        Unavailable: State cannot be reached.
    """
    with organization.reading() as reader:
        found = reader.all(BalanceTransactionSchedule)
        late = [each.id for each in found if next(_due(reader, each, organization.now()), None)]
    booked = 0
    for id_ in late:
        with suppress(NotFound), organization.transaction(AUTHOR) as transaction:
            booked += _book_due(transaction, id_)
    return booked


def _book_due(transaction: Transaction, schedule_id: str) -> int:
    """Book what is due of one schedule, which may have changed or gone since somebody looked."""
    schedule = transaction.get(BalanceTransactionSchedule, schedule_id)
    # Nobody else books the same meanwhile.
    lock_sources(transaction, [schedule.entity.balance_id])
    balance = transaction.get(Balance, schedule.entity.balance_id)
    cause = Cause(EntityType.SCHEDULER, schedule_id)
    due = list(islice(_due(transaction, schedule, transaction.now), _AT_ONCE))
    runs_before = _runs(transaction, schedule)
    for each in due:
        book(transaction, balance, _transaction(schedule.entity, each), cause, each)
    if due:
        transaction.journal.note_computed(schedule, _runs(transaction, schedule), runs_before)
    return len(due)


def _due(
    reader: Reader, schedule: Record[BalanceTransactionSchedule], now: datetime
) -> Iterator[datetime]:
    """The instants until now of which a schedule has no transaction, in their order."""
    entity = schedule.entity
    tz = zone(reader.all(OrganizationConfig)[0].entity.timezone)
    whole = Period(entity.start_date, entity.end_date)
    known = newest_due(reader, schedule.id)
    found = instants_after(known, whole, entity.frequency, entity.frequency_interval, tz)
    return takewhile(lambda instant: instant <= now, found)


def _runs(reader: Reader, schedule: Record[BalanceTransactionSchedule]) -> dict[str, Any]:
    return transaction_schedule_runs(schedule, StoredConfiguration(reader))


def _transaction(schedule: BalanceTransactionSchedule, due: datetime) -> BalanceTransaction:
    return BalanceTransaction(
        amount=schedule.amount,
        description=schedule.transaction_description,
        paid=schedule.paid,
        currency_paid=schedule.currency_paid,
        transaction_type_id=schedule.transaction_type_id,
        applied_date=due,
        transaction_date=due,
    )
