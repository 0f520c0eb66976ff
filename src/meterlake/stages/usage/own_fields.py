"""The custom fields that compound aggregations read of accounts, and of the plans they are on."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from meterlake.model.bills.billed_usage import UsageOwners
from meterlake.model.calculation import Value
from meterlake.model.scopes.compound import plan_fields_of
from meterlake.model.scopes.plan_fields import PlanFields
from meterlake.model.values.entity import Configuration
from meterlake.stages.usage.compound import Compound, Group
from meterlake.stages.usage.cycles import MeterCycles

# The custom fields that accounts carry themselves, by account id.
AccountFields = Mapping[str, Mapping[str, Value]]


class OwnFields:
    """The custom fields of an account in a period that a compound aggregation names."""

    def __init__(
        self,
        entities: Configuration,
        account_fields: AccountFields,
        compound: Compound,
        cycles: Iterable[MeterCycles] = (),
        owners: UsageOwners = MappingProxyType({}),
    ) -> None:
        self._accounts = account_fields
        self._plan_fields = plan_fields_of(compound.names & compound.own_defaults.keys())
        self._plans = PlanFields(entities, compound.record.entity.product_id)
        self._owners = owners
        self._parents = {pool.child_id: pool.parent_id for each in cycles for pool in each.pools}

    def __call__(self, group: Group) -> Mapping[str, Value]:
        """The custom fields of an account in a period, by name.

        Raises:
            CalculationError: Plans that hold in the period have different values.
        """
        usage_id, period = group
        account_id, planned_id = self._owners.get(usage_id, (usage_id, usage_id))
        found = self._plans.named(self._plan_fields, planned_id, period)
        if not found and account_id in self._parents:
            # Whom the plans of the parent count for.
            found = self._plans.named(self._plan_fields, self._parents[account_id], period)
        return {**self._accounts.get(account_id, {}), **found}
