"""Whether the ledger is right: accounts add up, views show them, and bills draw what is posted."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple

from meterlake.model.bills.ledger import SOURCES, LedgerAccount, Posting, PostingKind
from meterlake.model.values.money import ZERO, exact


class LedgerDifference(NamedTuple):
    """Something that should be equal, and is not.

    Attributes:
        what: Which rule is broken.
        id: Of the posting, balance, commitment or bill.
        ledger: What the ledger says.
        found: What stands elsewhere.
    """

    what: str
    id: str
    ledger: str
    found: str


class ConsumptionLine(NamedTuple):
    """What a line of a bill draws from a source, in the currency of the source."""

    bill_id: str
    source_id: str
    amount: Decimal


_BillSource = tuple[str, str]
_NOTHING: Final = "nothing"
_REVERSIBLE: Final = {PostingKind.CONSUMPTION, PostingKind.EXPIRY, PostingKind.ROLLOVER}


@dataclass
class Books:
    """The sums of a ledger, which are added up posting by posting.

    Attributes:
        postings: How many there are.
        sums: What every account has by currency.
        drawn: What bills draw from sources, by their ids.
        differences: What is wrong with single postings.
    """

    postings: int = 0
    sums: dict[tuple[LedgerAccount, str], Decimal] = field(default_factory=dict)
    drawn: dict[_BillSource, Decimal] = field(default_factory=dict)
    differences: list[LedgerDifference] = field(default_factory=list)
    _standing: dict[str, Posting] = field(default_factory=dict)

    def add(self, posting: Posting) -> None:
        """Add one posting to the sums; those that it takes back come before it."""
        self.postings += 1
        self.differences += _faults(posting, self._standing.get(posting.reverses or ""))
        with exact():
            for account, amount in (
                (posting.from_account, posting.amount.copy_negate()),
                (posting.to_account, posting.amount),
            ):
                key = (account, posting.currency)
                self.sums[key] = self.sums.get(key, ZERO) + amount
            if posting.bill_id is not None:
                drawn = (posting.bill_id, posting.source_id)
                self.drawn[drawn] = self.drawn.get(drawn, ZERO) - posting.change
        if posting.kind in _REVERSIBLE:
            self._standing[posting.id] = posting
        elif posting.reverses is not None:
            self._standing.pop(posting.reverses, None)

    @property
    def totals(self) -> dict[str, Decimal]:
        """What all accounts have together, by currency: always 0."""
        found: dict[str, Decimal] = defaultdict(lambda: ZERO)
        with exact():
            for (_, currency), amount in self.sums.items():
                found[currency] += amount
        return dict(found)

    def source_sums(self) -> dict[str, Decimal]:
        """What every source has, by its id: what is left of a balance, without what it is owed."""
        found: dict[str, Decimal] = defaultdict(lambda: ZERO)
        with exact():
            for (account, _), amount in self.sums.items():
                if account.type in SOURCES:
                    found[account.id] += amount
        return dict(found)


def compare_totals(books: Books) -> Iterator[LedgerDifference]:
    """Every currency in which the accounts do not add up to 0."""
    for currency, total in books.totals.items():
        if total:
            yield LedgerDifference("all accounts add up to 0", currency, str(total), "0")


def compare_views(
    what: str, ledger: Mapping[str, Decimal], shown: Mapping[str, Decimal]
) -> Iterator[LedgerDifference]:
    """Every id for which a view shows something else than the ledger has.

    Args:
        what: Which view it is.
        ledger: By id; what is not in it is 0.
        shown: The same.
    """
    for id_ in sorted({*ledger, *shown}):
        expected, found = ledger.get(id_, ZERO), shown.get(id_, ZERO)
        if expected != found:
            yield LedgerDifference(what, id_, str(expected), str(found))


def compare_lines(books: Books, lines: Iterable[ConsumptionLine]) -> Iterator[LedgerDifference]:
    """Every bill that draws something else than its lines say."""
    found: dict[_BillSource, Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for line in lines:
            found[line.bill_id, line.source_id] += line.amount
    for bill_id, source_id in sorted({*found, *books.drawn}):
        posted = books.drawn.get((bill_id, source_id), ZERO)
        shown = found.get((bill_id, source_id), ZERO)
        if posted != shown:
            what = f"lines of bill {bill_id} that draw"
            yield LedgerDifference(what, source_id, str(posted), str(shown))


def _faults(posting: Posting, taken_back: Posting | None) -> Iterator[LedgerDifference]:
    """What is wrong with a posting by itself."""
    if posting.amount < 0:
        yield LedgerDifference("an amount is not below 0", posting.id, str(posting.amount), "0")
    accounts_of = (posting.from_account, posting.to_account)
    own = {each.id for each in accounts_of if each.type in SOURCES}
    if own != {posting.source_id}:
        accounts = f"{posting.from_account} to {posting.to_account}"
        yield LedgerDifference(
            "a posting is about its source", posting.id, accounts, posting.source_id
        )
    if posting.reverses is not None and not _mirrors(posting, taken_back):
        what = "a reversal takes back one posting that stands"
        yield LedgerDifference(what, posting.id, posting.reverses, _NOTHING)


def _mirrors(posting: Posting, other: Posting | None) -> bool:
    return other is not None and (
        posting.from_account,
        posting.to_account,
        posting.amount,
        posting.currency,
    ) == (other.to_account, other.from_account, other.amount, other.currency)
