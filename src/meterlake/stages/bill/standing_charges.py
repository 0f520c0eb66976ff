"""The step of standing charges: what a plan costs by the day, whatever is used."""

from collections.abc import Iterator
from typing import Final

from meterlake.model.billing import LineItemType
from meterlake.model.money import ONE, exact
from meterlake.model.period import Period, share
from meterlake.stages.bill.currencies import Amount
from meterlake.stages.bill.line_draft import Charged, LineDraft
from meterlake.stages.bill.terms import PlanPeriod

UNIT: Final = "standing charge"


def standing_charges(charged: Charged) -> Iterator[LineDraft]:
    """Charge for the days of each regular period on which the plan holds."""
    terms = charged.plan_period.terms
    for active, whole in _active_parts(charged.plan_period):
        active_days, period_days = share(active, whole, charged.zone)
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
            pins={"active_days": active_days, "period_days": period_days},
        )


def _active_parts(plan_period: PlanPeriod) -> Iterator[tuple[Period, Period]]:
    """For which parts of which regular periods the standing charge is due."""
    if plan_period.terms.standing_charge:
        for whole in plan_period.regular:
            active = whole.intersection(plan_period.period.start, plan_period.period.end)
            if active is not None:
                yield active, whole
