"""STEPS: the lines of a bill, one kind of charge after the other, and what ends each line.

A new kind of line is a module with a step and a row of STEPS. Every step sees the rounded lines of
the steps before it; within a step, lines are in the order of the bill's plans.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.bills.bill import Line, LineItemType, MadeFrom
from meterlake.model.bills.ledger import Consumption
from meterlake.model.customers.accounts import Account
from meterlake.stages.bill.charges.ad_hoc_charges import (
    ad_hoc_charges,
    advance_memos,
    commitment_charges,
)
from meterlake.stages.bill.charges.counter_charges import counter_charges
from meterlake.stages.bill.charges.credit_consumption import consumed_credits, consumption_of
from meterlake.stages.bill.charges.line_draft import (
    BillDraft,
    BillInputs,
    BillStep,
    FinishedLine,
    LineDraft,
)
from meterlake.stages.bill.charges.minimum_spends import minimum_spends
from meterlake.stages.bill.charges.overage_charges import overage_charges
from meterlake.stages.bill.charges.standing_charges import standing_charges
from meterlake.stages.bill.charges.usage_charges import usage_charges
from meterlake.stages.bill.charges.usage_credits import usage_credits
from meterlake.stages.bill.pricing.currencies import Amount, CannotBill, Conversion, Currencies
from meterlake.stages.bill.terms.terms import DueBill

STEPS: Final[tuple[BillStep, ...]] = (
    usage_charges,
    counter_charges,
    standing_charges,
    minimum_spends,
    commitment_charges,
    ad_hoc_charges,
    usage_credits,
    consumed_credits,
    overage_charges,
    advance_memos,
)
# What may be charged for a time to come.
_BY_TIME: Final = (counter_charges, standing_charges, minimum_spends)
_IN_ADVANCE: Final = (*_BY_TIME, commitment_charges)


class MadeLines(NamedTuple):
    """The lines of a bill in their order, and what they draw from commitments and balances."""

    lines: tuple[Line, ...]
    draws: tuple[Consumption, ...]


def make_lines(draft: BillDraft) -> MadeLines:
    """Make the lines of a bill, step by step; what it has after each is in the draft.

    The overage cuts lines of usage that stood there before; all other steps only add.

    Raises:
        CannotBill: One of them cannot be made.
    """
    for step in STEPS:
        draft.lines += finish_step(draft, list(step(draft)))
    return MadeLines(tuple(_number(draft.lines)), consumption_of(draft))


def _number(lines: Iterable[FinishedLine]) -> Iterator[Line]:
    """Number the lines without a gap: one that is all overage is gone."""
    for number, (_, line) in enumerate(lines, start=1):
        yield line if line.sequence_number == number else line._replace(sequence_number=number)


def has_lines_in_advance(bill: DueBill, currency: str, inputs: BillInputs) -> bool:
    """Whether anything stands on a bill before any usage; also if it cannot be calculated."""
    draft = BillDraft(bill, currency, inputs)
    try:
        return any(finish_step(draft, list(step(draft))) for step in _IN_ADVANCE)
    except CannotBill:
        return True


def lines_in_advance(bill: DueBill, currency: str, inputs: BillInputs) -> tuple[Line, ...]:
    """What a bill charges by the days on which plans hold; nothing of it depends on usage.

    Lines of a time before the bill date are not what the bill has: they may depend on usage.

    Raises:
        CannotBill: One of them cannot be made.
    """
    draft = BillDraft(bill, currency, inputs)
    found = (each.line for step in _BY_TIME for each in finish_step(draft, list(step(draft))))
    return tuple(line for line in found if line.service_period.end > bill.period.end)


def finish_step(draft: BillDraft, drafts: Sequence[LineDraft]) -> list[FinishedLine]:
    """The lines of a step; without those, but for usage, of which rounding leaves nothing.

    Args:
        draft: The bill, with the lines of the steps before.
        drafts: All that the step drafted: each line of it saw the same lines before.
    """
    found: list[FinishedLine] = []
    number = max((each.line.sequence_number for each in draft.lines), default=0)
    for drafted in drafts:
        finished = _finish(draft, drafted, number + 1)
        if finished.amount or drafted.type is LineItemType.USAGE:
            number += 1
            found.append(finished)
    return found


def _finish(draft: BillDraft, drafted: LineDraft, number: int) -> FinishedLine:
    """Convert, round, number and pin a line."""
    inputs, plan_period = draft.inputs, drafted.plan_period
    charged, subject = drafted.charged, drafted.subject
    terms = None if plan_period is None else plan_period.terms
    source = charged.currency or (draft.currency if terms is None else terms.currency)
    conversion = inputs.currencies.conversion(source, draft.currency)
    subtotal, converted = charged.rounded or _round(inputs.currencies, charged.amount, conversion)
    average = charged.average_unit_price
    line = Line(
        type=drafted.type,
        sequence_number=number,
        description=drafted.description,
        plan_id=None if terms is None else terms.plan.id,
        service_period=drafted.service_period,
        quantity=charged.quantity,
        units=charged.units,
        unit=charged.unit,
        currency=source,
        subtotal=subtotal,
        conversion_rate=conversion.rate,
        converted_subtotal=converted,
        average_unit_price=subtotal if average is None else average,
        product=None if terms is None else terms.product,
        accounting_product=drafted.accounting_product,
        subject=subject.id,
        aggregation_id=subject.aggregation_id,
        meter_id=subject.meter_id,
        pricing_id=subject.pricing_id,
        segment=subject.segment,
        bands=charged.bands,
        members=_members(draft, drafted),
        apart=_apart(drafted),
        made_from=_made_from(inputs, drafted),
    )
    return FinishedLine(drafted, line)


def _apart(drafted: LineDraft) -> tuple[str, ...]:
    """What tells lines apart: an account plan of a group charges by several plans."""
    plan_period = drafted.plan_period
    found = [] if drafted.place.apart is None else [drafted.place.apart]
    if plan_period is not None and plan_period.group is not None:
        found.append(plan_period.terms.plan.id)
    return tuple(found)


def _members(draft: BillDraft, drafted: LineDraft) -> Mapping[str, Any]:
    """What only some lines say, the child on whose plan they are, and the contract of the plan."""
    plan_period = drafted.plan_period
    account_plan = drafted.account_plan if plan_period is None else plan_period.account_plan
    if account_plan is None:
        return drafted.members
    added: dict[str, Any] = {}
    account = draft.inputs.configuration.get(Account, account_plan.entity.account_id)
    if account.entity.parent_account_id == draft.bill.key.account_id:
        added = {"childAccountId": account.id, "childAccountCode": account.entity.code}
    if account_plan.entity.contract_id is not None:
        added["contractId"] = account_plan.entity.contract_id
    return {**drafted.members, **added} if added else drafted.members


def _made_from(inputs: BillInputs, drafted: LineDraft) -> MadeFrom:
    plan_period, account_plan = drafted.plan_period, drafted.account_plan
    if plan_period is not None:
        account_plan = plan_period.account_plan
    return MadeFrom(
        snapshot=inputs.snapshot,
        account_plan_id=None if account_plan is None else account_plan.id,
        account_plan_version=None if account_plan is None else account_plan.version,
        plan_version=None if plan_period is None else plan_period.terms.plan.version,
        **drafted.pins,
    )


def _round(
    currencies: Currencies, amount: Amount, conversion: Conversion
) -> tuple[Decimal, Decimal]:
    """The amount in the pricing currency for the eye, and in the billing currency to pay."""
    subtotal = currencies.round(amount, conversion.source)
    if conversion.source == conversion.target:
        return subtotal, subtotal
    return subtotal, currencies.round(amount.times(conversion.rate), conversion.target)
