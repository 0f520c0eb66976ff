"""The step of standing charges: what a plan costs by the day, whatever is used."""

from collections.abc import Iterator
from typing import Final

from meterlake.model.billing import LineItemType
from meterlake.model.money import ONE, exact
from meterlake.model.period import share
from meterlake.stages.bill.currencies import Amount
from meterlake.stages.bill.line_draft import BillDraft, LineDraft
from meterlake.stages.bill.terms import PlanPeriod

UNIT: Final = "standing charge"


def standing_charges(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge for the days of each service period on which a plan holds."""
    for plan_period in draft.bill.plan_periods:
        if plan_period.terms.standing_charge:
            yield from _of_plan(draft, plan_period)


def _of_plan(draft: BillDraft, plan_period: PlanPeriod) -> Iterator[LineDraft]:
    terms = plan_period.terms
    in_advance, every = terms.standing_charge_in_advance, terms.standing_charge_every
    for active, whole in plan_period.time.services(in_advance=in_advance, every=every):
        active_days, period_days = share(active, whole, draft.inputs.zone)
        if not active_days:
            continue
        with exact():
            amount = Amount(terms.standing_charge * active_days, period_days)
        yield LineDraft(
            type=LineItemType.STANDING_CHARGE,
            description=terms.standing_charge_description,
            service_period=active,
            quantity=ONE,
            units=ONE,
            unit=UNIT,
            amount=amount,
            accounting_product=terms.standing_charge_product,
            plan_period=plan_period,
            pins={"active_days": active_days, "period_days": period_days},
        )
