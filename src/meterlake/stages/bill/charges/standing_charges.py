"""The step of standing charges: what a plan costs by the day, whatever is used."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final

from meterlake.model.bills.bill import LineItemType
from meterlake.model.values.money import exact
from meterlake.model.values.period import share
from meterlake.stages.bill.charges.line_draft import BillDraft, LineAmount, LineDraft
from meterlake.stages.bill.periods.service_periods import ServicePeriod
from meterlake.stages.bill.pricing.currencies import Amount
from meterlake.stages.bill.terms.terms import PlanPeriod

UNIT: Final = "standing charge"


def standing_charges(draft: BillDraft) -> Iterator[LineDraft]:
    """Charge for the days of each service period on which a plan holds.

    The charge of a plan group takes the place of those of its plans.
    """
    for plan_period in draft.bill.plan_periods:
        group = plan_period.group
        if plan_period.terms.standing_charge and (group is None or group.standing_charge is None):
            terms = plan_period.terms
            in_advance, every = terms.standing_charge_in_advance, terms.standing_charge_every
            services = plan_period.time.services(in_advance=in_advance, every=every)
            for drafted in _prorated(draft, terms.standing_charge, services):
                yield drafted._replace(
                    description=terms.standing_charge_description,
                    accounting_product=terms.standing_charge_product,
                    plan_period=plan_period,
                )
    for plan_periods in draft.plans_of_groups():
        yield from _of_group(draft, plan_periods[0])


def _of_group(draft: BillDraft, plan_period: PlanPeriod) -> Iterator[LineDraft]:
    group = plan_period.group
    if group is None or not group.standing_charge:
        return
    services = plan_period.time.services(in_advance=group.standing_charge_in_advance)
    for drafted in _prorated(draft, group.standing_charge, services):
        yield drafted._replace(
            description=group.standing_charge_description,
            accounting_product=group.standing_charge_product,
            account_plan=plan_period.account_plan,
            charged=drafted.charged._replace(currency=group.currency),
            members={"planGroupId": group.group.id},
        )


def _prorated(
    draft: BillDraft, charge: Decimal, services: Iterable[ServicePeriod]
) -> Iterator[LineDraft]:
    """A charge for each service period, by the days on which the plan holds."""
    for active, whole in services:
        active_days, period_days = share(active, whole, draft.inputs.zone)
        if not active_days:
            continue
        with exact():
            amount = Amount(charge * active_days, period_days)
        yield LineDraft(
            type=LineItemType.STANDING_CHARGE,
            description="",
            service_period=active,
            charged=LineAmount(amount, UNIT),
            accounting_product=None,
            pins={"active_days": active_days, "period_days": period_days},
        )
