"""The step of draw-downs: commitments and balances pay for lines of the steps before.

One line says what a source pays. What it pays of which line is kept with it; what nobody pays stays
with the draft, for the overage.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Final

from meterlake.model.bills.bill import COUNTER_TYPES, LineItemType
from meterlake.model.bills.ledger import Consumption
from meterlake.model.configuration.organization import BillCreditType
from meterlake.model.values.money import ZERO, exact, plain
from meterlake.model.values.period import Period
from meterlake.stages.bill.charges.line_draft import (
    BillDraft,
    BilledQuantityKey,
    BillInputs,
    FinishedLine,
    LineAmount,
    LineDraft,
    LineSubject,
)
from meterlake.stages.bill.charges.quantities import has_usage
from meterlake.stages.bill.credits.credit_sources import (
    AccountSources,
    ledger_account,
    source_members,
)
from meterlake.stages.bill.credits.draw_downs import (
    DrawDowns,
    DrawTerms,
    PartKey,
    PayableLine,
    SourceDraw,
    draw_down,
)
from meterlake.stages.bill.pricing.currencies import Amount

UNIT: Final = "drawdown"
_TYPES: Final = {
    BillCreditType.PREPAYMENT: LineItemType.COMMITMENT_CONSUMED,
    BillCreditType.BALANCE: LineItemType.BALANCE_CONSUMED,
}
# Whose negative lines lower those of the same plan.
_OF_PLAN: Final = ((LineItemType.USAGE,), COUNTER_TYPES)


def consumed_credits(draft: BillDraft) -> Iterator[LineDraft]:
    """Let the sources of the account pay, each in a line of its own.

    Raises:
        CannotBill: A source has something to pay, and no rate to the billing currency.
    """
    owned = draft.sources
    if owned is None or not draft.credit_sources:
        return
    inputs = draft.inputs
    places, _ = inputs.currencies.rounding(draft.currency)
    terms = DrawTerms(places, inputs.zone, owned.order)
    draft.payable = [*_payable(draft), *_credited(draft)]
    draft.drawn = drawn = draw_down(draft.payable, draft.credit_sources, terms)
    for each in drawn.sources:
        if each.amount:
            yield _consumed(draft, owned, drawn, each)


def consumption_of(draft: BillDraft) -> tuple[Consumption, ...]:
    """What the ledger is told of the draw-downs of a bill."""
    if draft.sources is None or draft.drawn is None:
        return ()
    return tuple(
        Consumption(
            ledger_account(each.source),
            each.posted,
            draft.sources.records[each.source.id].entity.currency,
            draft.sources.texts(each.source).product_id,
        )
        for each in draft.drawn.sources
        if each.posted
    )


def drawn_period(drawn: DrawDowns, parts: Iterable[PartKey]) -> Period:
    """From the first to the last of some parts of lines."""
    keys = set(parts)
    periods = [each.period for each in drawn.parts if each.key in keys]
    return Period(min(each.start for each in periods), max(each.end for each in periods))


def _consumed(
    draft: BillDraft, owned: AccountSources, drawn: DrawDowns, paid: SourceDraw
) -> LineDraft:
    source, texts = paid.source, owned.texts(paid.source)
    draws = [each for each in drawn.draws if each.source == source.key]
    # The keys of the lines that a source pays for, and how much of each in the billing
    # currency.
    keys = {each.line.sequence_number: each.line.key for each in draft.lines}
    sums: dict[int, Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for each in drawn.draws:
            if each.source == source.key:
                sums[each.part.line] += each.amount
    by_line = tuple((keys[number], plain(amount)) for number, amount in sorted(sums.items()))
    return LineDraft(
        type=_TYPES[source.kind],
        description=texts.draw_down,
        service_period=drawn_period(drawn, (each.part for each in draws)),
        charged=LineAmount(Amount(paid.amount.copy_negate()), UNIT, currency=draft.currency),
        accounting_product=draft.inputs.catalog.product(texts.product_id),
        subject=LineSubject(source.id),
        members=source_members(source),
        pins={
            "posted": paid.posted,
            "draws": by_line,
            "source": str(ledger_account(source)),
            "source_currency": owned.records[source.id].entity.currency,
        },
        basis=paid,
    )


def _payable(draft: BillDraft) -> Iterator[PayableLine]:
    """The lines as sources see them; a negative one that lowers no line of the bill is left out."""
    for each in draft.lines:
        line, covers = each.line, _covered(draft, each) if each.amount < 0 else frozenset()
        if covers is None:
            continue
        yield PayableLine(
            number=line.sequence_number,
            type=line.type,
            amount=each.amount,
            period=line.service_period,
            product_id=None if line.product is None else line.product.id,
            contract_id=line.members.get("contractId"),
            units_of=_units_of(each.draft, draft.inputs),
            covers=covers,
        )


def _credited(draft: BillDraft) -> Iterator[PayableLine]:
    """What people credit on lines that cost something: behind all lines, and only about theirs."""
    last = max((each.line.sequence_number for each in draft.lines), default=0)
    for number, credit in enumerate(draft.credits, start=last + 1):
        for each in draft.lines:
            if each.amount > 0 and credit.is_about(each.line.key):
                yield PayableLine(
                    number=number,
                    type=LineItemType.CREDIT_MEMO,
                    amount=credit.amount,
                    period=each.line.service_period,
                    covers=frozenset({each.line.sequence_number}),
                )


def _units_of(drafted: LineDraft, inputs: BillInputs) -> Callable[[Period], Decimal | None] | None:
    """The units of a part of a line of usage; other lines are divided by days."""
    charge = drafted.subject.usage
    if charge is None:
        return None
    usage_id = drafted.subject.usage_id or charge.usage_id
    aggregation, segment = charge.applicable_pricing.aggregation, charge.applicable_pricing.segment
    selection = charge.plan_period.usage.selection

    def units(period: Period) -> Decimal | None:
        key = BilledQuantityKey(usage_id, aggregation.id, period, segment, selection)
        found = inputs.quantities.get(key)
        if found is None or not has_usage(charge, inputs, usage_id, period):
            return None
        return found.units

    return units


def _covered(draft: BillDraft, finished: FinishedLine) -> frozenset[int] | None:
    """The numbers of the lines that a negative one lowers; nothing for all, None for none of them."""
    counts = _counts(finished.draft)
    if counts is None:
        return frozenset()
    numbers = frozenset(
        each.line.sequence_number for each in draft.lines if each.amount > 0 and counts(each.draft)
    )
    return numbers or None


def _counts(drafted: LineDraft) -> Callable[[LineDraft], bool] | None:
    """Which lines a negative one lowers; None for all."""
    if drafted.place.covers is not None:
        return drafted.place.covers
    for types in _OF_PLAN:
        if drafted.type in types:
            return lambda other: other.type in types and other.plan_period is drafted.plan_period
    return None
