"""Batches of accounts of which one may not be storable: it fails alone, the others are stored.

A batch is one transaction. Where an unexpected error rolls it back, its halves are stored one after
the other, until the account that raises it is alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from meterlake.model.errors import Busy, StaleVersion, Unavailable
from meterlake.pipeline.billing.calculation.account_bills import AccountBills
from meterlake.pipeline.billing.calculation.failures import unexpected_failure
from meterlake.pipeline.jobs.attempt import Cancelled, GivenUp

StoredBatch: TypeAlias = tuple[list[Any], set[str]]

# These concern every account: the world, the job and its executor, not what is stored.
END_THE_RUN: Final = (Unavailable, Busy, StaleVersion, Cancelled, GivenUp, MemoryError)


def store_in_parts(
    store: Callable[[Sequence[AccountBills]], StoredBatch], batch: Sequence[AccountBills]
) -> StoredBatch:
    """Store a batch; an account that cannot be stored fails, and the others are stored.

    Args:
        store: Stores some accounts in one transaction, or none of them and raises.
        batch: The accounts.

    Returns:
        What `store` answers of the parts together, with the failures.
    """
    try:
        return store(batch)
    except END_THE_RUN:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, it is of one account
        if len(batch) == 1:
            return [*batch[0].refused, unexpected_failure(batch[0].account, error)], set()
    middle = len(batch) // 2
    first, left = store_in_parts(store, batch[:middle])
    second, also_left = store_in_parts(store, batch[middle:])
    return [*first, *second], left | also_left
