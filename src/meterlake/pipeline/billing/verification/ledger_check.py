"""Whether the ledger of balances and commitments is right, and the ledger as a file."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from meterlake.model.bills.bill import DRAWING_TYPES
from meterlake.model.bills.ledger import LedgerAccount, LedgerAccountType, Leftover, Posting
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.contracts import Commitment
from meterlake.model.values.entity import Entity
from meterlake.model.values.money import ZERO, exact, plain
from meterlake.stages.bill.credits.balances import correct_leftovers, count_ends, find_leftovers
from meterlake.stages.bill.credits.books import (
    Books,
    ConsumptionLine,
    LedgerDifference,
    compare_lines,
    compare_totals,
    compare_views,
)
from meterlake.stages.export.beancount import beancount_lines
from meterlake.stores import Organization
from meterlake.stores.files.durable import disk, write_durably
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.credits.balances import amounts, one_by_one
from meterlake.stores.state.billing.credits.ledger import (
    DrawingLine,
    all_postings,
    drawing_lines,
    read_movements,
    returning_bills,
)
from meterlake.stores.state.billing.credits.leftovers import standing_leftovers, unsettled_balances
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.postings import amounts_spent

# After everything that may ever be applied.
_EVER: Final = datetime(9999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class LedgerCheck:
    """What a look at the ledger found.

    Attributes:
        accounts: What the accounts of each type have together, by type and currency.
    """

    postings: int
    accounts: Mapping[tuple[LedgerAccountType, str], Decimal]
    differences: tuple[LedgerDifference, ...]


def check_ledger(organization: Organization) -> LedgerCheck:
    """Add up the ledger of an organization, and compare it with what is shown of it.

    All accounts add up to zero. Amounts of balances, their transactions and what is spent of
    commitments are the sums of their postings. Lines of bills that draw from a source say what was
    posted for the bill. What balances left at their ends is what was posted.

    Raises:
        Unavailable: State cannot be reached.
    """
    books = Books()
    with (
        organization.reading() as reader,
        closing(all_postings(reader)) as postings,
        closing(drawing_lines(reader)) as lines,
        closing(returning_bills(reader)) as returning,
    ):
        for posting in postings:
            books.add(posting)
        drawn = (
            _consumption_of(each) for each in lines if each.body["lineItemType"] in DRAWING_TYPES
        )
        # What bills give back: it is drawn less.
        returned = (
            ConsumptionLine(
                bill.bill_id,
                LedgerAccount.parse(each["source"]).id,
                Decimal(each["posted"]).copy_negate(),
            )
            for bill in returning
            for each in bill.returns
        )
        differences = [
            *books.differences,
            *compare_totals(books),
            *_compare_views(reader, books),
            *compare_lines(books, chain(drawn, returned)),
            *_compare_leftovers(reader, organization.now()),
        ]
    found: dict[tuple[LedgerAccountType, str], Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for (account, currency), amount in sorted(books.sums.items()):
            found[account.type, currency] += amount
    by_type = dict(found)
    return LedgerCheck(books.postings, by_type, tuple(differences))


def write_beancount(organization: Organization, file: Path) -> int:
    """Write the ledger of an organization as a file of beancount, in place of one of that name.

    Returns:
        How many postings there are.

    Raises:
        Unavailable: State or the disk failed.
    """
    count = 0
    with (
        organization.reading() as reader,
        closing(all_postings(reader)) as postings,
        write_durably(file) as target,
        target.open("w", encoding="utf-8") as stream,
    ):
        for line in beancount_lines(postings, organization.name):
            count += line.startswith("  id: ")
            stream.write(f"{line}\n")
    return count


def read_beancount(organization: Organization) -> bytes:
    """The ledger of an organization as a file of beancount.

    Raises:
        Unavailable: State or the disk failed.
    """
    with TemporaryDirectory(prefix="meterlake-ledger-") as folder:
        file = Path(folder) / "ledger.beancount"
        write_beancount(organization, file)
        with disk():
            return file.read_bytes()


def _compare_views(reader: Reader, books: Books) -> Iterator[LedgerDifference]:
    sums = books.source_sums()
    held = _of_kind(reader, Balance, sums)
    shown: dict[str, Decimal] = {}
    for ids in chunks_of(held):
        shown |= amounts(reader, ids, _EVER)
    yield from compare_views("the amount of a balance", held, shown)
    found: dict[str, Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for balance_id, booked in one_by_one(reader, None, _EVER):
            found[balance_id] += booked.amount
    booked_amounts = dict(found)
    yield from compare_views("the transactions of a balance", held, booked_amounts)
    with exact():
        drawn = _of_kind(reader, Commitment, sums)
        spent = {id_: -amount for id_, amount in drawn.items()}
    yield from compare_views("amountSpent of a commitment", spent, amounts_spent(reader, drawn))


def _compare_leftovers(reader: Reader, now: datetime) -> Iterator[LedgerDifference]:
    """Balances of which something else was posted at their ends; without those still to settle."""
    late = set(unsettled_balances(reader, now))
    ended = {
        each.id: each.entity
        for each in reader.all(Balance)
        if each.id not in late and count_ends(each.entity, now)
    }
    for ids in chunks_of(ended):
        movements, standing = read_movements(reader, ids), standing_leftovers(reader, ids)
        for id_ in ids:
            due = find_leftovers(id_, ended[id_], movements.get(id_, []), now)
            changes = correct_leftovers(standing[id_], due)
            if changes.wrong or changes.missing:
                what = "what a balance leaves at its end"
                yield LedgerDifference(what, id_, _in_words(standing[id_]), _in_words(due))


def _in_words(found: Iterable[Posting | Leftover]) -> str:
    return ", ".join(sorted(f"{each.kind} {plain(each.amount)}" for each in found)) or "nothing"


def _of_kind(reader: Reader, kind: type[Entity], sums: Mapping[str, Decimal]) -> dict[str, Decimal]:
    ids = {each.id for each in reader.all(kind)}
    return {id_: amount for id_, amount in sums.items() if id_ in ids}


def _consumption_of(line: DrawingLine) -> ConsumptionLine:
    """What a line draws; in another currency than the bill's, what it was made from says it."""
    body = line.body
    source_id = body.get("commitmentId") or body.get("balanceId") or ""
    posted = line.pins.get("posted")
    if posted is None:
        posted = Decimal(body["convertedSubtotal"]).copy_negate()
    return ConsumptionLine(line.bill_id, source_id, Decimal(posted))
