"""What is left at the ends of balances is posted: carried over, or expired.

Whoever looks settles what is not settled: balances that ended, and those of which anything changed
after that, such as a bill that was calculated later and draws for a time before.
"""

from contextlib import suppress
from typing import Final

from meterlake.model.customers.balances import Balance
from meterlake.model.errors import NotFound
from meterlake.model.values.failpoint import mark_step
from meterlake.stages.bill.credits.balances import correct_leftovers, count_ends, find_leftovers
from meterlake.stores import Organization
from meterlake.stores.state import Transaction
from meterlake.stores.state.billing.credits.ledger import lock_sources, read_movements
from meterlake.stores.state.billing.credits.leftovers import (
    AUTHOR,
    note_settled,
    post_leftovers,
    resettled_balances,
    standing_leftovers,
    unsettled_balances,
)
from meterlake.stores.state.billing.credits.source_events import (
    changed_sources,
    last_posting,
    note_source_changes,
)

# When very many balances end, others of the worker's tasks take turns.
_AT_ONCE: Final = 500


def settle_ended_balances(organization: Organization) -> int:
    """Post what is left of balances that ended, and correct what was posted before.

    Returns:
        How many balances were looked at.

    Raises:
        Unavailable: State cannot be reached.
    """
    with organization.reading() as reader:
        found = unsettled_balances(reader, organization.now())[:_AT_ONCE]
    for balance_id in found:
        _settle_alone(organization, balance_id)
        mark_step("leftovers.settled")
    return len(found)


def settle_if_ended(organization: Organization, balance_id: str) -> None:
    """Settle one balance, of which somebody just changed what it holds or when it ends.

    Whoever looks at it next sees what is left, before the worker's next round.
    """
    with organization.reading() as reader:
        is_settled = not unsettled_balances(reader, organization.now(), [balance_id])
    if not is_settled:
        _settle_alone(organization, balance_id)


def _settle_alone(organization: Organization, balance_id: str) -> None:
    """Settle a balance in a transaction of its own."""
    with suppress(NotFound), organization.transaction(AUTHOR) as transaction:
        since = last_posting(transaction)
        _settle(transaction, balance_id)
        note_source_changes(transaction, since)


def settle_draws(transaction: Transaction, since: int) -> None:
    """Note what bills draw now, and correct what was posted at the ends of their balances.

    Balances of which nothing was posted yet are left to who settles them.

    Args:
        transaction: The one that stores or deletes bills.
        since: The newest posting before it.
    """
    drawn = changed_sources(transaction, since)
    for balance_id in resettled_balances(transaction, drawn, transaction.now):
        _settle(transaction, balance_id)
    if drawn:
        note_source_changes(transaction, since)


def _settle(transaction: Transaction, balance_id: str) -> None:
    """Settle a balance, which may have changed or gone since somebody looked."""
    # Nobody draws from it meanwhile.
    lock_sources(transaction, [balance_id])
    balance, now = transaction.get(Balance, balance_id), transaction.now
    movements = read_movements(transaction, [balance_id]).get(balance_id, [])
    due = find_leftovers(balance_id, balance.entity, movements, now)
    standing = standing_leftovers(transaction, [balance_id])[balance_id]
    changes = correct_leftovers(standing, due)
    if changes.wrong or changes.missing:
        post_leftovers(transaction, balance, changes)
        mark_step("leftovers.posted")
    note_settled(transaction, balance, count_ends(balance.entity, now))
