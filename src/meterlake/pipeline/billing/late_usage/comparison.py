"""What bills would charge with all usage that is known: calculated from what they pin, but for the lake.

So a new price, or a correction of the configuration, is no late usage. Where a bill came out the
same later, the configuration is that of the last time: an account that had no usage may have got a
price meanwhile. Such a bill, as one that other code made, differs by what is calculated with the
late usage and without.
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from meterlake.model.bills.bill import Failure
from meterlake.model.values.version import calculation_digest
from meterlake.pipeline.billing.calculation.failures import END_THE_RUN, unexpected_reason
from meterlake.pipeline.billing.calculation.recalculation import make_again, read_again
from meterlake.pipeline.billing.run import content_of
from meterlake.stages.bill.late_usage import ChargedLine, charged_lines, correct_lines
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills.versions import get_version
from meterlake.stores.state.billing.calculations.pins import (
    CalculationPins,
    read_calculations,
    transactions_at,
)
from meterlake.stores.state.billing.late_usage.late_bills import LateBill
from meterlake.stores.state.billing.stored_bills import BillKey

_Lines = dict[str, ChargedLine]
_log: Final = logging.getLogger("meterlake.worker")


@dataclass(frozen=True, slots=True)
class LateComparison:
    """A bill as it is, and as it would be with all usage that is known.

    Attributes:
        bill: As it was read.
        billed: The lines that it has.
        due: Those that it would have.
        failure: Why nobody can tell; then it has no lines.
    """

    bill: LateBill
    billed: Mapping[str, ChargedLine] = field(default_factory=dict)
    due: Mapping[str, ChargedLine] = field(default_factory=dict)
    failure: str | None = None


def compare_with_usage(
    organization: Organization,
    bills: Sequence[LateBill],
    snapshot: int,
    fresh: Collection[str] = (),
) -> Iterator[LateComparison]:
    """Compare bills with what they would charge with the usage of a snapshot.

    Args:
        organization: The organization.
        bills: The bills.
        snapshot: Of the lake.
        fresh: The ids of those that were made again just now, with the snapshot.

    Raises:
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        ids = {each.calculation_id for each in bills if each.calculation_id is not None}
        calculations = read_calculations(reader, ids)
        known = transactions_at(reader, {each.calculated for each in bills if each.calculated})
        billed = {each.id: _billed_lines(reader, each) for each in bills}
    groups: dict[CalculationPins, list[LateBill]] = defaultdict(list)
    for each in bills:
        if each.id in fresh or (each.snapshot or 0) >= snapshot:
            yield LateComparison(each, billed[each.id], billed[each.id])
        elif each.calculation_id in calculations:
            pins = calculations[each.calculation_id]
            # The configuration is that of the last time that the bill came out so.
            at = 0 if each.calculated is None else known[each.calculated]
            groups[replace(pins, at=at) if at > pins.at else pins].append(each)
        else:
            reason = "an older version of meterlake made the bill: make it again to compare it"
            yield LateComparison(each, failure=reason)
    for pins, group in groups.items():
        is_pinned = pins in calculations.values()
        comparison = _Comparison(organization, pins, snapshot, is_pinned=is_pinned)
        # An unexpected error is about the bills of that calculation alone.
        try:
            compared = list(comparison.compare(group, billed))
        except END_THE_RUN:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it stops no other bill
            _log.error("late usage cannot be compared: an unexpected error", exc_info=error)
            compared = [LateComparison(each, failure=unexpected_reason(error)) for each in group]
        yield from compared


def _billed_lines(reader: Reader, bill: LateBill) -> _Lines:
    found = get_version(reader, bill.id, bill.content_version)
    return charged_lines((each.key, each.body) for each in found.content.lines)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The bills of one calculation.

    Attributes:
        is_pinned: Whether the bills have just these pins.
    """

    organization: Organization
    pins: CalculationPins
    snapshot: int
    is_pinned: bool

    def compare(
        self, bills: Sequence[LateBill], billed: Mapping[str, _Lines]
    ) -> Iterator[LateComparison]:
        now = self._make(bills, self.snapshot)
        then: Mapping[BillKey, _Lines | str] = {}
        if not self.is_pinned or self.pins.digest != calculation_digest():
            then = self._make(bills, self.pins.snapshot)
        for bill in bills:
            due, before = now.get(bill.key), then.get(bill.key, {})
            if isinstance(due, dict) and isinstance(before, dict):
                if then:
                    due = correct_lines(billed[bill.id], before, due)
                yield LateComparison(bill, billed[bill.id], due)
            else:
                reason = next((each for each in (due, before) if isinstance(each, str)), None)
                yield LateComparison(
                    bill, failure=reason or "its calculation does not make the bill any more"
                )

    def _make(self, bills: Sequence[LateBill], snapshot: int) -> dict[BillKey, _Lines | str]:
        """The lines of the bills with the usage of a snapshot, or why there are none."""
        ids = {each.account_id for each in bills}
        reading = read_again(self.organization, self.pins, ids, snapshot)
        keys = {each.key for each in bills}
        found: dict[BillKey, _Lines | str] = {}
        for calculation in reading.calculations():
            for _, made in make_again(self.organization, calculation, bills):
                for account in made:
                    for each in account.made:
                        if isinstance(each, Failure):
                            own = (key for key in keys if key.account_id == each.account_id)
                            found |= dict.fromkeys(own, each.reason)
                            continue
                        key = content_of(each).key
                        if key in keys:
                            lines = ((line.key, line.to_wire()) for line in each.lines)
                            found[key] = charged_lines(lines)
        return found
