"""The policy of late usage as a job applies it.

Four steps, each of which whoever goes on may take again: what came late is found and written down;
unlocked bills are made again, if that is the policy; memos of what bills have themselves by now are
taken back; then one transaction for each bill decides what becomes of the rest. It reads what memos carry already, so a difference is carried once,
whatever is killed when.
"""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from meterlake.model.bills.late_usage import (
    UNDECIDED,
    LateLine,
    LateUsage,
    LateUsageStatus,
    total_of,
)
from meterlake.model.configuration.organization import LateUsagePolicy
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.money import ZERO, exact
from meterlake.pipeline.billing.calculation.failures import END_THE_RUN, unexpected_reason
from meterlake.pipeline.billing.late_usage.carrying import (
    CarriedAmount,
    carry_to_next_bill,
    line_to_carry,
)
from meterlake.pipeline.billing.late_usage.comparison import LateComparison, compare_with_usage
from meterlake.pipeline.billing.late_usage.findings import (
    LateSearch,
    find_late_usage,
    find_past_late_usage,
)
from meterlake.pipeline.billing.late_usage.policy import LateRules
from meterlake.pipeline.billing.late_usage.taking_back import AUTHOR, take_back_memos
from meterlake.pipeline.billing.late_usage.undecided import (
    note_damaged,
    read_undecided,
    with_readable_bills,
)
from meterlake.pipeline.billing.run import BillResult, BillRun, make_bills_again
from meterlake.stages.bill.late_usage import (
    LineDifference,
    charged_lines,
    charged_total,
    find_differences,
)
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills.versions import get_version
from meterlake.stores.state.billing.late_usage import lists
from meterlake.stores.state.billing.late_usage.carried import carried_amounts
from meterlake.stores.state.billing.late_usage.findings import (
    LateDecision,
    decide_late_usage,
    note_late_usage,
)
from meterlake.stores.state.billing.late_usage.late_bills import (
    LateBill,
    late_bills_by_id,
    next_pending_bill,
)
from meterlake.stores.state.core.transaction import Transaction

_log: Final = logging.getLogger("meterlake.worker")
# Bills that are compared together.
_COMPARED: Final = 1000
_LOCKED: Final = "the bill is locked"
_NO_BILL: Final = "the account has no later bill yet that is PENDING"
_NO_PLAN: Final = "the account has no later bill that is PENDING, and is on no plan any more"


def apply_late_policy(
    run: BillRun, result: BillResult, account_ids: Collection[str] | None = None
) -> None:
    """Find late usage of closed periods, and do about it what the organization has chosen.

    Args:
        run: Of the job that does it.
        result: What the job came to, to which bills are added that are made again.
        account_ids: Only bills of these accounts; of all if None.

    Raises:
        Unavailable: A store failed; run it again.
    """
    _Application(run, LateRules.read(run, result), account_ids).apply()


def note_before_bills(run: BillRun, snapshot: int, bill_ids: Collection[str]) -> None:
    """Write down what is late for bills that somebody has made again, before they are.

    Afterwards they have it, and nobody could say any more what became of it.

    Args:
        run: Of the job that makes them.
        snapshot: What the job knows of the lake.
        bill_ids: The bills.

    Raises:
        Unavailable: A store failed; run it again.
    """
    with run.organization.reading() as reader:
        accounts = {each.account_id for each in late_bills_by_id(reader, bill_ids, {}).values()}
    late = find_past_late_usage(run.organization, snapshot, accounts)
    if found := [each for each in late if each.bill.id in bill_ids]:
        with run.organization.transaction(AUTHOR) as transaction:
            run.watch.store(transaction, 0)
            note_late_usage(transaction, found)


def settle_late_usage(
    run: BillRun, result: BillResult, account_ids: Collection[str] | None = None
) -> None:
    """Close the late usage that bills have since a job calculated them, and take its memos back.

    That follows from the bills, not from the policy: so every job that makes bills does it.

    Args:
        run: Of the job that does it.
        result: What the job came to; accounts of which a row is damaged fail, by name.
        account_ids: Only bills of these accounts; of all if None.

    Raises:
        Unavailable: A store failed; run it again.
    """
    take_back_memos(run, result, account_ids)
    _Application(run, LateRules.read(run, result), account_ids).close_billed()


@dataclass(frozen=True, slots=True)
class _Application:
    run: BillRun
    rules: LateRules
    account_ids: Collection[str] | None
    # The ids of the bills that were made again.
    again: set[str] = field(default_factory=set)

    @property
    def snapshot(self) -> int:
        """What is known of the lake."""
        return self.rules.result.snapshot

    def apply(self) -> None:
        run = self.run
        search = LateSearch(run.organization, self.snapshot, self.rules.closed_on, self.account_ids)
        if findings := find_late_usage(search):
            with run.organization.transaction(AUTHOR) as transaction:
                run.watch.store(transaction, 0)
                note_late_usage(transaction, findings)
        with run.organization.reading() as reader:
            note_damaged(reader, self.rules.result, search.damaged)
        mark_step("late.found")
        if self.rules.policy is LateUsagePolicy.RECALCULATE:
            # Make the unlocked bills of late usage again.
            with self.run.organization.reading() as reader:
                late = read_undecided(reader, self.rules.result, self.account_ids)
                _, found = with_readable_bills(reader, self.rules.result, late)
            ids = [each.id for each in found.values() if not self.rules.is_closed_bill(each)]
            if ids:
                make_bills_again(self.run, ids, self.rules.result)
                self.again.update(ids)
            mark_step("late.made_again")
        take_back_memos(self.run, self.rules.result, self.account_ids)
        self._decide_all()

    def close_billed(self) -> None:
        """Decide late usage of which the job has made the bill."""
        with self.run.organization.reading() as reader:
            late = read_undecided(reader, self.rules.result, self.account_ids)
            late, found = with_readable_bills(reader, self.rules.result, late)
        read = {id_: each.snapshot or 0 for id_, each in found.items()}
        billed = [
            each
            for each in late
            if not each.is_correction
            and read.get(each.bill_id, 0) >= max(each.until, self.snapshot)
        ]
        self._decide_some(billed, found)

    def _decide_all(self) -> None:
        """Decide what is due, and then what could not be, because memos came onto its bill."""
        left = self._decide_due()
        while left:
            again = self._decide_due(left)
            if len(again) >= len(left):
                return
            left = again

    def _decide_due(self, ids: Collection[str] | None = None) -> set[str]:
        """Decide late usage, of these ids or all; the ids of that whose bill became another."""
        with self.run.organization.reading() as reader:
            late = [
                each
                for each in read_undecided(reader, self.rules.result, self.account_ids)
                if each.until <= self.snapshot
                and not each.is_correction
                and (ids is None or each.id in ids)
            ]
            late, found = with_readable_bills(reader, self.rules.result, late)
            chosen = [each for each in late if self._is_due(reader, each, found.get(each.bill_id))]
        left: set[str] = set()
        for start in range(0, len(chosen), _COMPARED):
            left |= self._decide_some(chosen[start : start + _COMPARED], found)
        return left

    def _is_due(self, reader: Reader, late: LateUsage, bill: LateBill | None) -> bool:
        """Whether there is something to decide, or to decide anew."""
        if late.status in {LateUsageStatus.OPEN, LateUsageStatus.FAILED} or bill is None:
            return True
        # One that came out the same may have read what is late, or that it went.
        if bill.content_version != late.bill_version or (bill.snapshot or 0) >= late.until:
            return True
        carries = self.rules.carries
        if late.status is LateUsageStatus.WAITING and carries:
            return next_pending_bill(reader, bill.key, self.rules.closed_until) is not None
        # Of what waits or is reported under another policy, something else becomes.
        was_carried = late.status is LateUsageStatus.WAITING
        return carries != was_carried or bill.id in self.again

    def _decide_some(self, late: Sequence[LateUsage], found: dict[str, LateBill]) -> set[str]:
        """Decide late usage; the ids of that whose bill is not the one that was compared."""
        run, left = self.run, set[str]()
        there = {each.bill_id: found[each.bill_id] for each in late if each.bill_id in found}
        compared = {
            each.bill.id: each
            for each in compare_with_usage(
                *(run.organization, list(there.values()), self.snapshot),
                fresh={
                    id_
                    for id_, each in there.items()
                    if (each.id in self.again and self.rules.find_refusal(each.account_id) is None)
                },
            )
        }
        for each in late:
            if not self._decide_one(each, compared.get(each.bill_id)):
                left.add(each.id)
            mark_step("late.decided")
        return left

    def _decide_one(self, late: LateUsage, comparison: LateComparison | None) -> bool:
        """Decide late usage; False if its bill is not the one that was compared."""
        try:
            return self._store_decision(late, comparison)
        except END_THE_RUN:
            raise
        except Exception as error:
            if comparison is None:
                raise
            _log.error("late usage of bill %s: an unexpected error", late.bill_id, exc_info=error)
            failed = LateComparison(comparison.bill, failure=unexpected_reason(error))
            return self._store_decision(late, failed)

    def _store_decision(self, late: LateUsage, comparison: LateComparison | None) -> bool:
        run = self.run
        with run.organization.transaction(AUTHOR) as transaction:
            run.watch.store(transaction, 0)
            return store_decision(transaction, self.rules, late, comparison)


def store_decision(
    transaction: Transaction, rules: LateRules, late: LateUsage, comparison: LateComparison | None
) -> bool:
    """Decide late usage, unless somebody else did so; False if its bill is not what was compared.

    Args:
        transaction: Of the organization.
        rules: What holds for its late usage.
        late: As it was read before.
        comparison: Of its bill; None if the bill was deleted.
    """
    return _Decision(rules, transaction, late, comparison).store()


@dataclass(frozen=True, slots=True)
class _Decision:
    """What becomes of the late usage of one bill, within one transaction."""

    rules: LateRules
    transaction: Transaction
    late: LateUsage
    comparison: LateComparison | None

    def store(self) -> bool:
        """Decide, unless somebody else did so; False if the bill is not what was compared."""
        transaction, late = self.transaction, self.late
        fresh = lists.find_late_usage(transaction, late.id)
        if fresh is None or fresh.until != late.until or fresh.status not in UNDECIDED:
            return True
        bill = late_bills_by_id(transaction, [late.bill_id]).get(late.bill_id)
        if bill is None:
            self._close(LateUsageStatus.UNCHANGED, late.bill_version, reason="the bill was deleted")
            return True
        comparison = self.comparison
        if comparison is None or comparison.bill.content_version != bill.content_version:
            return False
        if comparison.failure is not None:
            version = comparison.bill.content_version
            self._close(LateUsageStatus.FAILED, version, reason=comparison.failure)
        else:
            carried = carried_amounts(self.transaction, bill)
            found = find_differences(comparison.billed, comparison.due, carried)
            if found:
                self._decide(comparison, found)
            else:
                self._settle(comparison)
        return True

    def _settle(self, comparison: LateComparison) -> None:
        """Nothing is to be charged any more: the bill was made again, or nothing changed."""
        bill, late = comparison.bill, self.late
        if bill.content_version == late.bill_version:
            self._close(LateUsageStatus.UNCHANGED, bill.content_version, difference=ZERO)
            return
        before = get_version(self.transaction, bill.id, late.bill_version).content.lines
        old = charged_total(charged_lines((each.key, each.body) for each in before).values())
        with exact():
            difference = charged_total(comparison.billed.values()) - old
        self._close(
            LateUsageStatus.RECALCULATED,
            bill.content_version,
            difference=difference,
            new_version=bill.content_version,
        )

    def _decide(self, comparison: LateComparison, found: Sequence[LineDifference]) -> None:
        bill = comparison.bill
        if self.rules.carries:
            amounts = [CarriedAmount(each, {bill.currency: each.amount}) for each in found]
            carried = carry_to_next_bill(self.transaction, bill, amounts)
            self._close(
                carried.status, bill.content_version, lines=carried.lines, reason=carried.reason
            )
            return
        reason = None
        if self.rules.policy is LateUsagePolicy.RECALCULATE:
            is_closed = self.rules.is_closed_bill(bill)
            reason = _LOCKED if is_closed else self.rules.find_refusal(bill.account_id)
        lines = [line_to_carry(bill, each) for each in found]
        self._close(LateUsageStatus.REPORTED, bill.content_version, lines=lines, reason=reason)

    def _close(
        self,
        status: LateUsageStatus,
        version: int,
        *,
        difference: Decimal | None = None,
        lines: Sequence[LateLine] = (),
        new_version: int | None = None,
        reason: str | None = None,
    ) -> None:
        decision = LateDecision(
            status=status,
            until=self.rules.result.snapshot,
            bill_version=version,
            ledger_at=None if self.comparison is None else self.comparison.bill.ledger_at,
            difference=total_of(lines) if lines else difference,
            lines=lines,
            new_version=new_version,
            reason=reason,
        )
        decide_late_usage(self.transaction, self.late, decision)
