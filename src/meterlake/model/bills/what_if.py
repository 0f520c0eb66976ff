"""What bills would come to with something else: amounts before and after, and what to know of them."""

from bisect import insort
from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NamedTuple

from meterlake.model.values.money import ZERO, exact, plain

# How many things of a kind are named; all are counted.
NAMED_MAX: Final = 1_000
# How many accounts are named that pay more, and how many that pay less.
MOVERS_MAX: Final = 15


class Side(StrEnum):
    """Which of the two calculations."""

    BEFORE = "before"
    AFTER = "after"


class AmountKey(NamedTuple):
    """What amounts are added up by.

    Attributes:
        product: The code of the product; empty for lines without one.
        month: That of the last day of the bills; empty if all months are added up.
    """

    account: str
    account_id: str
    product: str
    product_name: str
    line_item_type: str
    currency: str
    month: str = ""


class AmountChange(NamedTuple):
    """What the lines of an account, a product and a type come to, before and after."""

    key: AmountKey
    before: Decimal
    after: Decimal

    @property
    def difference(self) -> Decimal:
        """What they come to in addition."""
        with exact():
            return self.after - self.before

    def to_wire(self) -> dict[str, Any]:
        """The change under camelCase names."""
        key = self.key
        return {
            "account": key.account,
            "accountId": key.account_id,
            "product": key.product,
            "productName": key.product_name,
            "lineItemType": key.line_item_type,
            "currency": key.currency,
            **({"month": key.month} if key.month else {}),
            "before": self.before,
            "after": self.after,
            "difference": self.difference,
        }


class AmountTotal(NamedTuple):
    """The sums of a currency, or of an account in a currency."""

    before: Decimal = ZERO
    after: Decimal = ZERO

    @property
    def difference(self) -> Decimal:
        """What it comes to in addition."""
        with exact():
            return self.after - self.before

    def plus(self, change: AmountChange) -> "AmountTotal":
        """With one change more."""
        with exact():
            return AmountTotal(self.before + change.before, self.after + change.after)

    def to_wire(self) -> dict[str, str]:
        """The sums as exact text."""
        return {
            "before": plain(self.before),
            "after": plain(self.after),
            "difference": plain(self.difference),
        }


class NotPriced(NamedTuple):
    """An account that cannot be billed in a month on one of the sides, and why."""

    month: str
    account: str
    side: Side
    reason: str

    def to_wire(self) -> dict[str, Any]:
        """The refusal under camelCase names."""
        return {**self._asdict(), "side": self.side.value}


@dataclass(slots=True)
class StoredBills:
    """How the stored bills of the months stand to the calculation that is called before.

    Attributes:
        same: How many come to the same total.
        different: The ids of those that do not, the first ones.
        differing: How many that are.
        missing: How many bills are calculated that are not stored, and come to something.
        calculated_no_more: How many are stored, come to something, and are not calculated.
    """

    same: int = 0
    differing: int = 0
    missing: int = 0
    calculated_no_more: int = 0
    different: list[str] = field(default_factory=list)

    def to_wire(self) -> dict[str, Any]:
        """The counts under camelCase names."""
        return {
            "same": self.same,
            "differing": self.differing,
            "missing": self.missing,
            "calculatedNoMore": self.calculated_no_more,
            "different": list(self.different),
        }


@dataclass(slots=True)
class WhatIfSummary:
    """What there is to know of a comparison beside its amounts; whole when all of these were read.

    Attributes:
        months: The first and the last one.
        snapshot: That of the lake that both sides read.
        backfill: The backfill that would be applied; None if there is none.
        changed: How many entities would be others.
        added_accounts: The codes of parents that are calculated beside the chosen accounts.
        totals: By currency.
        not_priced: Which accounts are left out, in which month and why, the first ones.
        left_out: How many that are.
        unpriced: How much usage no bill charges for on each side: so many rows of the list.
        earlier: How many open bills before the first month would be made again, too.
        stored: How the stored bills stand to the side before.
    """

    months: tuple[str, str]
    snapshot: int
    backfill: str | None = None
    changed: int = 0
    added_accounts: tuple[str, ...] = ()
    totals: dict[str, AmountTotal] = field(default_factory=dict)
    accounts: int = 0
    rows: int = 0
    rows_changed: int = 0
    not_priced: list[NotPriced] = field(default_factory=list)
    left_out: int = 0
    unpriced: Counter[Side] = field(default_factory=Counter)
    earlier: int = 0
    stored: StoredBills = field(default_factory=StoredBills)

    def note(self, change: AmountChange) -> None:
        """Add an amount to the totals."""
        currency = change.key.currency
        self.totals[currency] = self.totals.get(currency, AmountTotal()).plus(change)
        self.rows += 1
        self.rows_changed += change.before != change.after

    def note_not_priced(self, found: NotPriced) -> None:
        """Count an account that is left out of a month."""
        self.left_out += 1
        if len(self.not_priced) < NAMED_MAX:
            self.not_priced.append(found)

    def to_wire(self) -> dict[str, Any]:
        """The summary under camelCase names."""
        first, last = self.months
        return {
            "months": {"first": first, "last": last},
            "snapshot": self.snapshot,
            **({} if self.backfill is None else {"backfill": self.backfill}),
            "changedEntities": self.changed,
            "addedAccounts": list(self.added_accounts),
            "accounts": self.accounts,
            "rows": self.rows,
            "rowsChanged": self.rows_changed,
            "totals": {code: each.to_wire() for code, each in sorted(self.totals.items())},
            "notPriced": [each.to_wire() for each in self.not_priced],
            "leftOut": self.left_out,
            "unpricedUsage": {side.value: self.unpriced[side] for side in Side},
            "earlierBills": self.earlier,
            "storedBills": self.stored.to_wire(),
        }


class Mover(NamedTuple):
    """An account that pays more, or less."""

    difference: Decimal
    account: str
    total: AmountTotal


@dataclass(slots=True)
class CurrencyMovers:
    """The accounts of a currency by what they pay in addition.

    Attributes:
        more: How many pay more.
        less: How many pay less.
        same: How many pay the same.
        rising: Those that pay most in addition, the first one most.
        falling: Those that save most, the first one most.
    """

    more: int = 0
    less: int = 0
    same: int = 0
    rising: list[Mover] = field(default_factory=list)
    falling: list[Mover] = field(default_factory=list)

    def add(self, account: str, total: AmountTotal) -> None:
        """Count an account, and name it if few others move as much."""
        found = Mover(total.difference, account, total)
        self.more += found.difference > 0
        self.less += found.difference < 0
        self.same += not found.difference
        if found.difference:
            named = self.rising if found.difference > 0 else self.falling
            insort(
                named,
                found,
                key=lambda mover: (mover.difference.copy_abs().copy_negate(), mover.account),
            )
            del named[MOVERS_MAX:]


class Movers:
    """Who pays more and who pays less; filled change by change, in the order of accounts."""

    def __init__(self) -> None:
        self._account = ""
        self._totals: dict[str, AmountTotal] = {}
        self._found: dict[str, CurrencyMovers] = {}

    def note(self, change: AmountChange) -> None:
        """Add an amount to its account."""
        if change.key.account != self._account:
            self._close()
            self._account = change.key.account
        currency = change.key.currency
        self._totals[currency] = self._totals.get(currency, AmountTotal()).plus(change)

    def by_currency(self) -> dict[str, CurrencyMovers]:
        """What was found, by currency."""
        self._close()
        return dict(sorted(self._found.items()))

    def _close(self) -> None:
        for currency, total in self._totals.items():
            self._found.setdefault(currency, CurrencyMovers()).add(self._account, total)
        self._totals = {}
