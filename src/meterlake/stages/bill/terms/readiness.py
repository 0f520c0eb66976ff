"""What an account uses that this version does not bill: then it gets no bill, and a reason."""

from collections.abc import Iterable, Iterator
from typing import Any

from meterlake.model.accounts import Account, AccountPlan
from meterlake.model.availability import not_available
from meterlake.model.entity import Configuration, Record
from meterlake.model.period import Period
from meterlake.model.plan_fields import plan_ids_of
from meterlake.model.pricing import Plan, PlanTemplate, Pricing


class Readiness:
    """Finds what cannot be billed; what a plan uses is looked at once a period, not once an account."""

    def __init__(self, configuration: Configuration) -> None:
        """Read all of an organization's entities."""
        self.configuration = configuration
        self._of_plans: dict[tuple[str, Period], tuple[str, ...]] = {}

    def billing_blockers(
        self, account: Record[Account], held: Iterable[tuple[Record[AccountPlan], Period]]
    ) -> Iterator[str]:
        """Everything of an account that cannot be billed, as sentences; nothing if all can.

        Args:
            account: The account.
            held: Its account plans, each with the period that is to be billed.
        """
        yield from _of(account)
        for record, period in held:
            yield from _of(record)
            for plan_id in plan_ids_of(record.entity, self.configuration):
                yield from self._of_plan(plan_id, period)

    def _of_plan(self, plan_id: str, period: Period) -> tuple[str, ...]:
        key = (plan_id, period)
        if key not in self._of_plans:
            self._of_plans[key] = tuple(_of_plan(plan_id, period, self.configuration))
        return self._of_plans[key]


def _of_plan(plan_id: str, period: Period, configuration: Configuration) -> Iterator[str]:
    plan = configuration.get(Plan, plan_id)
    template = configuration.get(PlanTemplate, plan.entity.plan_template_id)
    yield from _of(plan)
    yield from _of(template)
    for field, id_ in (("plan_id", plan.id), ("plan_template_id", template.id)):
        yield from _of_prices(field, id_, period, configuration)


def _of_prices(field: str, id: str, period: Period, configuration: Configuration) -> Iterator[str]:
    for pricing in configuration.where(Pricing, field, id):
        if period.intersection(pricing.entity.start_date, pricing.entity.end_date) is not None:
            yield from _of(pricing)


def _of(record: Record[Any]) -> Iterator[str]:
    for error in not_available(record.entity):
        yield f"{type(record.entity).__name__} {error}"
