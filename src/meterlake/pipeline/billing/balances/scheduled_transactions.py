"""Transactions and charges that schedules of balances make: each once, when it is due or as soon as it can be.

A run of a schedule is known by the instant at which it is due, a charge by the start of its service;
whoever looks makes what is due and was not made. So it does not matter who looks, how often, or
after how long a time without a look. A charge that is deleted is not made again, and none is made
for a time that was charged before.
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from itertools import count, islice, takewhile
from typing import Any, Final, NamedTuple

from meterlake.model.calendar.recurrence import instants_after
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.balances import (
    Balance,
    BalanceChargeSchedule,
    BalanceTransaction,
    BalanceTransactionSchedule,
    EntityType,
)
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.schedules import billed_at, charge_of_part
from meterlake.model.errors import MeterlakeError, NotFound, Unavailable
from meterlake.model.rules.balances import (
    charge_schedule_runs,
    charged_parts,
    transaction_schedule_runs,
)
from meterlake.model.values.entity import Record
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.ids import CODE_MAX
from meterlake.model.values.period import Period, zone
from meterlake.pipeline.billing.balances.balances import book
from meterlake.pipeline.config.entities import create_in
from meterlake.stores import Organization, Stores
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.billing.credits.balances import BookingCause, note_charge
from meterlake.stores.state.billing.credits.ledger import lock_sources
from meterlake.stores.state.core.charges import charged_until
from meterlake.stores.state.core.postings import newest_due
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

AUTHOR: Final = "balance schedules"
# After a long time without a look, transactions and charges are made bit by bit.
_AT_ONCE: Final = 100
_log: Final = logging.getLogger("meterlake.worker")


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
            schedule = transaction.get(BalanceTransactionSchedule, id_)
            # Nobody else books the same meanwhile.
            lock_sources(transaction, [schedule.entity.balance_id])
            balance = transaction.get(Balance, schedule.entity.balance_id)
            cause = BookingCause(EntityType.SCHEDULER, id_)
            due = list(islice(_due(transaction, schedule, transaction.now), _AT_ONCE))
            runs_before = _runs(transaction, schedule)
            for each in due:
                book(
                    transaction,
                    balance,
                    BalanceTransaction(
                        amount=schedule.entity.amount,
                        description=schedule.entity.transaction_description,
                        paid=schedule.entity.paid,
                        currency_paid=schedule.entity.currency_paid,
                        transaction_type_id=schedule.entity.transaction_type_id,
                        applied_date=each,
                        transaction_date=each,
                    ),
                    cause,
                    each,
                )
            if due:
                transaction.journal.note_computed(
                    schedule, _runs(transaction, schedule), runs_before
                )
            booked += len(due)
    return booked


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


class _DueCharge(NamedTuple):
    """A charge of a schedule that is to be made; `number` counts from 0."""

    number: int
    service: Period
    due: datetime


def make_due_charges(organization: Organization) -> int:
    """Make the charges of all schedules that are due and were not made.

    Returns:
        How many were made.

    Raises:
        Unavailable: State cannot be reached.
    """
    with organization.reading() as reader:
        found = reader.all(BalanceChargeSchedule)
        late = [
            each.id for each in found if next(_due_charges(reader, each, organization.now()), None)
        ]
    return sum(_make_due_of(organization, each) for each in late)


def _make_due_of(organization: Organization, schedule_id: str) -> int:
    """Make what is due of one schedule; what keeps it from being made keeps no other."""
    made = 0
    try:
        with suppress(NotFound), organization.transaction(AUTHOR) as transaction:
            made = _make_due(transaction, organization.stores, schedule_id)
    except Unavailable:
        raise
    except MeterlakeError as error:
        _log.warning("charges of schedule %s cannot be made: %s", schedule_id, error)
        return 0
    mark_step("charges.made")
    return made


def _make_due(transaction: Transaction, stores: Stores, schedule_id: str) -> int:
    """Make what is due of one schedule, which may have changed or gone since somebody looked."""
    schedule = transaction.get(BalanceChargeSchedule, schedule_id)
    # Nobody else makes the same meanwhile.
    lock_sources(transaction, [schedule.entity.balance_id])
    balance = transaction.get(Balance, schedule.entity.balance_id).entity
    tz = zone(_settings(transaction).timezone)
    due = list(islice(_due_charges(transaction, schedule, transaction.now), _AT_ONCE))
    runs_before = _charge_runs(transaction, schedule)
    for each in due:
        charge = charge_of_part(schedule.entity, balance, each.service, tz, each.number)
        made = create_in(transaction, stores, _with_free_code(transaction, charge))
        note_charge(transaction, schedule_id, made.id, each.service, each.due)
        mark_step("charges.noted")
    if due:
        transaction.journal.note_computed(
            schedule, _charge_runs(transaction, schedule), runs_before
        )
    return len(due)


def _due_charges(
    reader: Reader, schedule: Record[BalanceChargeSchedule], now: datetime
) -> Iterator[_DueCharge]:
    """The charges until now that a schedule has not made, in their order."""
    config = _settings(reader)
    tz = zone(config.timezone)
    parts = charged_parts(schedule.entity, config, charged_until(reader, schedule.id))
    found = (
        _DueCharge(number, part, billed_at(schedule.entity, part, tz)) for number, part in parts
    )
    return takewhile(lambda each: each.due <= now, found)


def _charge_runs(reader: Reader, schedule: Record[BalanceChargeSchedule]) -> dict[str, Any]:
    return charge_schedule_runs(schedule, StoredConfiguration(reader))


def _settings(reader: Reader) -> OrganizationConfig:
    return reader.all(OrganizationConfig)[0].entity


def _with_free_code(reader: Reader, charge: Charge) -> Charge:
    """The charge with its code, or with the first one behind it that no other charge has."""
    if reader.find(Charge, charge.code) is None:
        return charge
    for number in count(2):
        suffix = f"-{number}"
        code = charge.code[: CODE_MAX - len(suffix)] + suffix
        if reader.find(Charge, code) is None:
            return charge.model_copy(update={"code": code})
    raise AssertionError(charge.code)
