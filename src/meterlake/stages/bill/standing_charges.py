"""The step of standing charges: what a plan costs by the day, whatever is used."""

from collections.abc import Iterator
from typing import Final

from meterlake.model.billing import LineItemType
from meterlake.model.money import ONE, exact
from meterlake.model.period import share
from meterlake.stages.bill.currencies import Amount
from meterlake.stages.bill.line_draft import Charged, LineDraft

UNIT: Final = "standing charge"


def standing_charges(charged: Charged) -> Iterator[LineDraft]:
    """Charge for the days of each service period on which the plan holds."""
    plan_period, terms = charged.plan_period, charged.plan_period.terms
    if not terms.standing_charge:
        return
    in_advance, every = terms.standing_charge_in_advance, terms.standing_charge_every
    for active, whole in plan_period.time.services(in_advance=in_advance, every=every):
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
