"""Takes memos of late usage back of which the bill itself has by now what they carry.

A bill that is calculated again has all usage that is known, or comes out without what was
retracted. What memos had carried of it would be charged twice: opposite memos follow, whatever the
policy for late usage is. Of a bill that is deleted nothing is charged, and so nothing of it is
carried.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Final

from meterlake.model.bills.late_usage import (
    LateLine,
    LateSource,
    LateSourceKind,
    LateUsage,
    LateUsageStatus,
    total_of,
)
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.money import ZERO, exact
from meterlake.pipeline.billing.late_usage.carrying import CarriedAmount, carry_to_next_bill
from meterlake.pipeline.billing.late_usage.undecided import note_damaged, read_undecided
from meterlake.pipeline.billing.run import BillResult, BillRun
from meterlake.stages.bill.late_usage import ChargedLine, LineDifference, charged_lines
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.versions import keys_of
from meterlake.stores.state.billing.late_usage.carried import (
    CarriedLine,
    find_deleted,
    find_superseded,
    mark_taken_back,
    superseded_lines,
)
from meterlake.stores.state.billing.late_usage.findings import (
    LateDecision,
    LateFinding,
    decide_late_usage,
    insert_finding,
)
from meterlake.stores.state.billing.late_usage.late_bills import LateBill, late_bills_by_id
from meterlake.stores.state.billing.late_usage.lists import (
    find_correction,
    find_late_usage,
)
from meterlake.stores.state.billing.memos.memos import MemoLine, line_id, memo_lines
from meterlake.stores.state.core.reader import DamagedRow
from meterlake.stores.state.core.transaction import Transaction

AUTHOR: Final = "late usage"


def take_back_memos(
    run: BillRun, result: BillResult, account_ids: Collection[str] | None = None
) -> None:
    """Take back what memos carry of bills that were calculated again, or deleted, since.

    Args:
        run: Of the job that does it.
        result: What the job came to; accounts of which a row is damaged fail, by name.
        account_ids: Only bills of these accounts; of all if None.

    Raises:
        Unavailable: A store failed; run it again.
    """
    with run.organization.reading() as reader:
        waiting = read_undecided(reader, result, account_ids)
        ids = [
            *find_superseded(reader, account_ids),
            *(each.bill_id for each in waiting if each.is_correction),
        ]
    for id_ in dict.fromkeys(ids):
        try:
            with run.organization.transaction(AUTHOR) as transaction:
                run.watch.store(transaction, 0)
                take_back_memos_of(transaction, id_)
        except DamagedRow as error:
            with run.organization.reading() as reader:
                key = keys_of(reader, [id_])[id_]
                note_damaged(reader, result, {key.account_id: error})
        mark_step("late.taken_back")


def take_back_memos_of(transaction: Transaction, bill_id: str) -> None:
    """Take back what memos carry of one bill and the bill has itself; all of it if it is deleted."""
    late = find_correction(transaction, bill_id)
    stored = late_bills_by_id(transaction, [bill_id]).get(bill_id)
    bill = stored or find_deleted(transaction, bill_id)
    if bill is None:
        if late is not None:
            _close(transaction, late, reason="the bill was deleted and made again")
        return
    carried = superseded_lines(transaction, bill)
    lines = bills.get(transaction, bill.id).content.lines if stored else ()
    billed = charged_lines((each.key, each.body) for each in lines)
    amounts = list(_amounts_of(transaction, bill, billed, carried))
    if not amounts:
        if carried:
            mark_taken_back(transaction, carried, carried[0].late_usage_id)
        if late is not None:
            _close(transaction, late)
        return
    if late is None:
        # Write down that memos of a bill are to be taken back.
        name = (
            f"the bill itself, {'deleted' if stored is None else f'version {bill.content_version}'}"
        )
        now, snapshot = transaction.now, bill.snapshot or 0
        source = LateSource(LateSourceKind.BILL, bill.id, name, None, now, now)
        finding = LateFinding(bill, snapshot, snapshot, [source])
        late = find_late_usage(transaction, insert_finding(transaction, finding))
        assert late is not None
    made = carry_to_next_bill(transaction, bill, amounts)
    decision = LateDecision(
        status=made.status,
        until=bill.snapshot or 0,
        bill_version=bill.content_version,
        ledger_at=bill.ledger_at,
        difference=total_of(made.lines),
        lines=made.lines,
        reason=made.reason,
    )
    decide_late_usage(transaction, late, decision)
    if made.status is LateUsageStatus.CARRIED:
        mark_taken_back(transaction, carried, late.id)


def _close(transaction: Transaction, late: LateUsage, reason: str | None = None) -> None:
    """Nothing is to be taken back any more."""
    decision = LateDecision(
        status=LateUsageStatus.UNCHANGED,
        until=late.until,
        bill_version=late.bill_version,
        ledger_at=None,
        difference=None if reason else ZERO,
        reason=reason,
    )
    decide_late_usage(transaction, late, decision)


def _amounts_of(
    transaction: Transaction,
    bill: LateBill,
    billed: Mapping[str, ChargedLine],
    carried: Sequence[CarriedLine],
) -> Iterator[CarriedAmount]:
    """What memos charge by now, line by line and with the opposite sign; what comes to 0 is left out.

    A memo that a person has changed is taken back as it stands. One that was deleted charges nothing.
    """
    ids = {each.line.memo_bill_id for each in carried if each.line.memo_bill_id}
    found = memo_lines(transaction, sorted(ids))
    there = {line_id(id_, each.key): each for id_, lines in found.items() for each in lines}
    by_key: dict[str, list[tuple[LateLine, MemoLine]]] = defaultdict(list)
    for each in carried:
        if each.line.memo_id in there:
            by_key[each.line.key].append((each.line, there[each.line.memo_id]))
    for key, lines in by_key.items():
        amounts: dict[str, Decimal] = defaultdict(lambda: ZERO)
        total = ZERO
        with exact():
            for line, memo in lines:
                amounts[memo.body["currency"]] -= memo.amount
                if memo.body["currency"] == bill.currency:
                    total -= memo.amount
                elif not line.memo_amount or memo.amount == line.memo_amount:
                    total -= line.amount
                else:
                    total -= (line.amount * memo.amount / line.memo_amount).quantize(line.amount)
        if any(amounts.values()):
            line, memo = lines[0]
            shown = {**memo.body, "description": line.description}
            about = billed.get(key, ChargedLine(key, shown))
            yield CarriedAmount(LineDifference(about, total, key in billed), amounts)
