"""Why bills cannot be calculated, in a line, and batches of accounts of which one fails alone."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from meterlake.model.bills.bill import Failure
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Busy, MeterlakeError, StaleVersion, Unavailable
from meterlake.model.values.entity import Record
from meterlake.pipeline.jobs.attempt import Cancelled, GivenUp
from meterlake.stores.state.core.reader import DamagedRow

if TYPE_CHECKING:
    from meterlake.pipeline.billing.calculation.account_bills import AccountBills

# Characters of an unexpected error in the reason of a failure.
_SHOWN_MAX: Final = 300
_log: Final = logging.getLogger("meterlake.worker")
StoredBatch: TypeAlias = tuple[list[Any], set[str]]
# These concern every account: the world, the job and its executor, not what is stored.
END_THE_RUN: Final = (Unavailable, Busy, StaleVersion, Cancelled, GivenUp, MemoryError)


def unexpected_failure(account: Record[Account], error: Exception) -> Failure:
    """Why an account has no bill if a program or a database failed in a way that nobody foresaw.

    The log has the whole error, the failure its first line.
    """
    code = account.entity.code
    _log.error("account %s cannot be billed: an unexpected error", code, exc_info=error)
    return Failure(account.id, code, unexpected_reason(error))


def unexpected_reason(error: Exception) -> str:
    """What is said of an error that nobody foresaw; a damaged row says itself what is wrong."""
    if isinstance(error, DamagedRow):
        return str(error)
    what = ": ".join(filter(None, ("an unexpected error", describe_error(error))))
    return f"{what}; mend it if you see how; otherwise report it, with what the log says of it"


def describe_error(error: Exception) -> str:
    """The first line of an error, after its kind if it is none of meterlake's own."""
    text = str(error).strip().split("\n", 1)[0][:_SHOWN_MAX]
    name = "" if isinstance(error, MeterlakeError) else type(error).__name__
    return ": ".join(filter(None, (name, text)))


def store_in_parts(
    store: Callable[[Sequence["AccountBills"]], StoredBatch], batch: Sequence["AccountBills"]
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
