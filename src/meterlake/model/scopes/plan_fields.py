"""Custom fields of the plans that an account is on: account plan, plan, plan template, contract."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, NamedTuple

from meterlake.model.calculation import CalculationError, Value
from meterlake.model.catalog.plans import Plan, PlanGroupLink, PlanTemplate
from meterlake.model.configuration.organization import CustomFields, custom_value
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.customers.contracts import Contract
from meterlake.model.values.entity import Configuration, Entity
from meterlake.model.values.money import plain
from meterlake.model.values.period import Period

# Whose custom fields depend on the plans that an account is on, as `CustomFields` names them.
PLAN_KINDS: Final = ("account_plan", "plan", "plan_template", "contract")
_FOREVER: Final = datetime.max.replace(tzinfo=UTC)


class OnPlan(NamedTuple):
    """An account on one plan, with all that carries custom fields for it."""

    account_plan: AccountPlan
    plan: Plan
    plan_template: PlanTemplate
    contract: Contract | None


class PlanFields:
    """What custom fields of plans are worth to accounts.

    Those of the account plans count that hold at some time of a period, for plans of one product
    or of any. Whoever is on none has the organization's values.
    """

    def __init__(self, configuration: Configuration, product_id: str | None) -> None:
        """Say which plans count.

        Args:
            configuration: The plans and what leads to them, with the account plans of who is asked for.
            product_id: The product of the plans; None if any counts.
        """
        self.configuration = configuration
        self.product_id = product_id
        record = next(configuration.all(CustomFields), None)
        self._defaults = record.entity if record else CustomFields()

    def named(
        self, names: Mapping[str, tuple[str, str]], account_id: str, period: Period
    ) -> dict[str, Value]:
        """The values of custom fields.

        Args:
            names: By the name that they are to have: one of `PLAN_KINDS`, and the field.
            account_id: Whose plans count.
            period: When.

        Raises:
            CalculationError: Plans that hold in the period have different values.
        """
        if not names:
            return {}
        plans = list(self.of(account_id, period))
        return {name: self._one(name, *path, plans) for name, path in names.items() if plans}

    def of(self, account_id: str, period: Period) -> Iterator[OnPlan]:
        """The plans that an account is on at some time of a period."""
        for record in self.configuration.where(AccountPlan, "account_id", account_id):
            entity = record.entity
            end = entity.end_date or _FOREVER
            if end > entity.start_date and period.intersection(entity.start_date, end):
                get = self.configuration.get
                contract = get(Contract, entity.contract_id).entity if entity.contract_id else None
                for plan in plans_of(entity, self.configuration):
                    template = get(PlanTemplate, plan.plan_template_id).entity
                    if self.product_id in {None, template.product_id}:
                        yield OnPlan(entity, plan, template, contract)

    def _one(self, name: str, kind: str, field: str, plans: list[OnPlan]) -> Value:
        values = {self._value(kind, field, getattr(each, kind)): None for each in plans}
        if len(values) > 1:
            shown = " and ".join(
                sorted(plain(each) if isinstance(each, Decimal) else f'"{each}"' for each in values)
            )
            raise CalculationError(
                f"`{name}` is {shown} in one period: the account is on plans that differ in it"
            )
        return next(iter(values))

    def _value(self, kind: str, field: str, entity: Entity | None) -> Value:
        if entity is None:
            found: Value = getattr(self._defaults, kind).get(field)
            return found
        return custom_value(field, entity, self._defaults)


def plans_of(entity: AccountPlan, configuration: Configuration) -> Iterator[Plan]:
    """The plan of an account plan, or those of its plan group."""
    for plan_id in plan_ids_of(entity, configuration):
        yield configuration.get(Plan, plan_id).entity


def plan_ids_of(entity: AccountPlan, configuration: Configuration) -> list[str]:
    """The id of the plan of an account plan, or those of its plan group."""
    if entity.plan_group_id is None:
        return [entity.plan_id] if entity.plan_id else []
    links = configuration.where(PlanGroupLink, "plan_group_id", entity.plan_group_id)
    return [link.entity.plan_id for link in links]
