"""The ledger as text for beancount, so that a program of somebody else adds it up again.

What a posting takes from an account is a debit there, as accountants see it: money of customers is
an asset, what balances hold is owed to them, and what bills draw is income.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, timedelta
from decimal import Decimal
from hashlib import sha256
from typing import Final

from meterlake.model.bills.ledger import LedgerAccount, LedgerAccountType, Posting
from meterlake.model.values.money import ZERO, exact, plain

_ROOTS: Final = {
    LedgerAccountType.CUSTOMER: "Assets:Customer",
    LedgerAccountType.BALANCE: "Liabilities:Balance",
    LedgerAccountType.ROLLOVER: "Liabilities:Rollover",
    LedgerAccountType.COMMITMENT: "Liabilities:Commitment",
    LedgerAccountType.EXPIRED: "Income:Expired",
    LedgerAccountType.REVENUE: "Income:Revenue",
}
_COMMODITY: Final = re.compile(r"[A-Z][A-Z0-9'._-]{0,22}[A-Z0-9]")
_NAME: Final = re.compile(r"[A-Z0-9][A-Z0-9-]*")
_OPENED: Final = date(1900, 1, 1)


def beancount_lines(postings: Iterable[Posting], title: str) -> Iterator[str]:
    """The lines of a file: postings as transactions, then what every account has.

    Args:
        postings: In their order.
        title: What the file is called in beancount.
    """
    yield f'option "title" {_quote(title)}'
    last = _OPENED
    sums: dict[tuple[LedgerAccount, str], Decimal] = {}
    for posting in postings:
        day = posting.created.astimezone(UTC).date()
        last = max(last, day)
        yield ""
        yield f"{day} * {_quote(posting.kind.value)}"
        yield f"  id: {_quote(posting.id)}"
        for name, value in (("bill", posting.bill_id), ("reverses", posting.reverses)):
            if value is not None:
                yield f"  {name}: {_quote(value)}"
        debit = _money(posting.amount, posting.currency)
        credit = _money(posting.amount.copy_negate(), posting.currency)
        yield f"  {_account_name(posting.from_account)}  {debit}"
        yield f"  {_account_name(posting.to_account)}  {credit}"
        accounts = (posting.from_account, posting.to_account)
        taken, given = ((account, posting.currency) for account in accounts)
        with exact():
            sums[taken] = sums.get(taken, ZERO) + posting.amount
            sums[given] = sums.get(given, ZERO) - posting.amount
    for account in sorted({account for account, _ in sums}):
        yield f"{_OPENED} open {_account_name(account)}"
    for (account, currency), amount in sorted(sums.items()):
        after = last + timedelta(days=1)
        yield f"{after} balance {_account_name(account)} {_money(amount, currency)}"


def _money(amount: Decimal, currency: str) -> str:
    return f"{plain(amount)} {_clean(currency, _COMMODITY)}"


def _account_name(account: LedgerAccount) -> str:
    return f"{_ROOTS[account.type]}:{_clean(account.id or 'NONE', _NAME)}"


def _clean(text: str, pattern: re.Pattern[str]) -> str:
    """A text as a name of beancount; different texts have different names."""
    # Ids in small letters are the same ids in capital ones; other texts may not be.
    upper = text.upper() if pattern is _NAME else text
    if pattern.fullmatch(upper):
        return upper
    rest = re.sub(r"[^A-Z0-9]+", "-", text.upper()).strip("-")[:12]
    return f"X{rest}-{sha256(text.encode()).hexdigest()[:8].upper()}"


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'
