"""The events of balances and commitments of which postings have changed what is left.

They are noted in the transaction of the postings, all at once: a job draws from many accounts.

    since = last_posting(transaction)
    ...
    note_source_changes(transaction, since)
"""

from collections import defaultdict
from collections.abc import Collection
from decimal import Decimal
from typing import Final

from sqlalchemy import func, select

from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.contracts import Commitment
from meterlake.model.resources.events import Event, change, data
from meterlake.model.values.entity import E, Record
from meterlake.model.values.money import ZERO, exact
from meterlake.stores.state.billing.credits.balances import amounts
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.postings import (
    amounts_spent,
    posting_of,
    select_postings,
)
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import ENTITY, POSTING
from meterlake.stores.state.core.transaction import Transaction

_AMOUNT_EVENTS: Final = "billing.balanceamount"
_SPENT: Final = "amountSpent"


def last_posting(reader: Reader) -> int:
    """The sequence number of the newest posting; 0 before the first one."""
    return reader.connection.execute(select(func.max(POSTING.c.sequence))).scalar() or 0


def changed_sources(reader: Reader, since: int) -> list[str]:
    """The ids of balances and commitments that have postings since then."""
    query = select(POSTING.c.source_id).where(
        POSTING.c.org == reader.org_id, POSTING.c.sequence > since
    )
    return sorted(set(reader.connection.execute(query).scalars()))


def note_source_changes(transaction: Transaction, since: int) -> None:
    """Note one event of each balance and commitment of which something else is left now.

    Args:
        transaction: The one of the postings.
        since: The newest posting before it.
    """
    changes = _changes(transaction, since)
    for ids in chunks_of(sorted(changes)):
        balances = _records(transaction, Balance, ids)
        commitments = _records(transaction, Commitment, ids)
        held = amounts(transaction, [each.id for each in balances], transaction.now)
        accounts = _records(transaction, Account, {each.entity.account_id for each in balances})
        codes = {each.id: each.entity.code for each in accounts}
        with exact():
            for balance in balances:
                amount = held.get(balance.id, ZERO)
                sides = (amount, amount - changes[balance.id])
                _note(transaction, balance, codes[balance.entity.account_id], sides)
            spent = amounts_spent(transaction, [each.id for each in commitments])
            for commitment in commitments:
                now = spent.get(commitment.id, ZERO)
                before = now + changes[commitment.id]
                transaction.journal.note_computed(commitment, {_SPENT: now}, {_SPENT: before})


def note_amount(transaction: Transaction, balance: Record[Balance], before: Decimal | None) -> None:
    """Note the event of what a balance holds now; `before` is None for its first transaction."""
    code = transaction.get(Account, balance.entity.account_id).entity.code
    held = amounts(transaction, [balance.id], transaction.now).get(balance.id, ZERO)
    _note(transaction, balance, code, (held, before))


def _changes(reader: Reader, since: int) -> dict[str, Decimal]:
    """What postings add to sources, without those of which nothing changes."""
    found: dict[str, Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for row in reader.connection.execute(
            select_postings(reader).where(POSTING.c.sequence > since)
        ):
            found[row.source_id] += posting_of(row).change
    return {id_: amount for id_, amount in found.items() if amount}


def _records(reader: Reader, kind: type[E], ids: Collection[str]) -> list[Record[E]]:
    return sorted(reader.matching(kind, ENTITY.c.id.in_(ids)), key=lambda each: each.id)


def _note(
    transaction: Transaction,
    balance: Record[Balance],
    account_code: str | None,
    amounts: tuple[Decimal, Decimal | None],
) -> None:
    """Note what a balance holds, and what it held."""
    entity = balance.entity
    shared = {
        "orgId": transaction.org_id,
        "accountId": entity.account_id,
        "accountCode": account_code,
        "balanceId": balance.id,
        "code": entity.code,
        "name": entity.name,
        "currency": entity.currency,
    }
    new, old = (None if each is None else {**shared, "amount": each} for each in amounts)
    transaction.journal.add(
        Event(
            name=change(_AMOUNT_EVENTS, new, old),
            kind=Balance.__name__,
            resource_id=balance.id,
            data=data(new, old),
            account_id=balance.entity.account_id,
        )
    )
