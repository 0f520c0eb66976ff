"""Bills calculated again from what they pin: the one road of all who compare a bill with a calculation.

Configuration, locked bills and the ledger are read as they were. Measurements are those of the
snapshot that the bills pin, or of another one.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, Protocol

from meterlake.model.values import wire
from meterlake.pipeline.billing.calculation.account_bills import AccountBills, BillCalculation
from meterlake.pipeline.billing.calculation.reading import BillReading, read_bills
from meterlake.pipeline.usage.meter_rollup import MeterSource
from meterlake.pipeline.usage.period_usage import UNCHANGED
from meterlake.stages.bill import BillSelection
from meterlake.stages.bill.periods.selection import selection_from_wire
from meterlake.stores import Organization
from meterlake.stores.state.billing.calculations.pins import CalculationPins


class PinnedBill(Protocol):
    """A bill, as far as it says which calculation of its account made it."""

    @property
    def account_id(self) -> str:
        """Whose it is."""

    @property
    def ledger_at(self) -> int:
        """The last transaction that its ledger has."""


class LedgerBills(NamedTuple):
    """The bills of some accounts, as they come out with the ledger of a transaction."""

    ledger_at: int
    made: Iterator[AccountBills]


def read_again(
    organization: Organization,
    pins: CalculationPins,
    account_ids: Collection[str],
    snapshot: int | None = None,
) -> BillReading:
    """Read once more what the bills of a calculation depend on, as it was.

    Args:
        organization: The organization.
        pins: The calculation.
        account_ids: The accounts whose bills are made.
        snapshot: Of the lake; the one that the calculation pins if None.

    Raises:
        Unavailable: A store failed.
    """
    selection = select_again(pins, account_ids)
    at = pins.snapshot if snapshot is None else snapshot
    return replace(read_measured(organization.past(pins.at), selection, at), id=pins.id)


def select_again(pins: CalculationPins, account_ids: Collection[str]) -> BillSelection:
    """What a calculation was to make, of some of its accounts."""
    found = selection_from_wire(wire.loads(pins.selection))
    return replace(found, account_ids=frozenset(account_ids))


def read_measured(
    past: Organization,
    selection: BillSelection,
    snapshot: int,
    instead: Mapping[str, MeterSource] = UNCHANGED,
) -> BillReading:
    """Read what bills depend on, with all quantities of measurements.

    Args:
        past: The organization, as it is to be read.
        selection: Which bills.
        snapshot: Of the lake.
        instead: By the ids of meters, what is read in the place of their tables.

    Raises:
        Unavailable: A store failed.
    """
    reading = read_bills(past, selection, snapshot)
    # Stored quantities may be of another time than the snapshot.
    return replace(reading, is_stored_usage=False, instead=instead)


def make_again(
    organization: Organization, calculation: BillCalculation, bills: Iterable[PinnedBill]
) -> Iterator[LedgerBills]:
    """Make bills once more: those of one ledger after the other.

    Args:
        organization: The organization, as it is.
        calculation: Of a bucket of the reading.
        bills: The bills that are compared; those of other accounts are left out.
    """
    own = {each.account.id for each in calculation.maker.accounts}
    by_ledger: dict[int, set[str]] = defaultdict(set)
    for each in bills:
        if each.account_id in own:
            by_ledger[each.ledger_at].add(each.account_id)
    for ledger_at, account_ids in sorted(by_ledger.items()):
        then = replace(calculation, organization=organization.past(ledger_at))
        yield LedgerBills(ledger_at, then.made(isolated=True, account_ids=account_ids))
