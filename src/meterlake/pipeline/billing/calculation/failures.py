"""Why bills cannot be calculated, in a line."""

import logging
from typing import Final

from meterlake.model.bills.bill import Failure
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import MeterlakeError
from meterlake.model.values.entity import Record
from meterlake.stores.state.core.reader import DamagedRow

# Characters of an unexpected error in the reason of a failure.
_SHOWN_MAX: Final = 300
_log: Final = logging.getLogger("meterlake.worker")


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
