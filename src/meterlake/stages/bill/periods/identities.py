"""Which bill something stands on: by bill date and period, and by what contracts and organizations say."""

from collections.abc import Collection
from datetime import date

from meterlake.model.catalog.pricing import BillingFrequency
from meterlake.model.configuration.organization import BillGroupingKey, OrganizationConfig
from meterlake.model.customers.contracts import Contract
from meterlake.model.values.entity import Configuration
from meterlake.stages.bill.periods.due_periods import BillIdentity, BillingPeriod
from meterlake.stages.bill.periods.selection import BillSelection

# How often, and every how many.
_Kind = tuple[BillingFrequency, int]


class BillIdentities:
    """Names the bills of plans, charges and fees."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.consolidated = configuration.single(OrganizationConfig).entity.consolidate_bills

    def of_plan(
        self, account_id: str, period: BillingPeriod, contract_id: str | None
    ) -> BillIdentity:
        """The bill of a plan's billing period."""
        kind = (period.frequency, period.interval)
        return self._identity(account_id, period.bill_date, kind, contract_id)

    def without_plan(
        self, account_id: str, bill_date: date, contract_id: str | None
    ) -> BillIdentity:
        """The bill of what has a date of its own and joins no other."""
        kind = (BillingFrequency.AD_HOC, 1)
        return self._identity(account_id, bill_date, kind, contract_id)

    def grouping_key(self, contract_id: str | None) -> str:
        """What tells bills of contracts apart: an exclusive key stands for its one contract."""
        if contract_id is None:
            return ""
        key_id = self.configuration.get(Contract, contract_id).entity.bill_grouping_key_id
        if key_id is None:
            return ""
        key = self.configuration.get(BillGroupingKey, key_id).entity
        return contract_id if key.exclusive else key_id

    def keeps(self, key: BillIdentity) -> bool:
        """Whether a bill is of the kind that is made now, consolidated or not."""
        return (key.frequency is BillingFrequency.MIXED) == self.consolidated

    def _identity(
        self, account_id: str, bill_date: date, kind: _Kind, contract_id: str | None
    ) -> BillIdentity:
        frequency, interval = (BillingFrequency.MIXED, 1) if self.consolidated else kind
        group = self.grouping_key(contract_id)
        return BillIdentity(account_id, bill_date, frequency, interval, group)


def is_asked_for(
    selection: BillSelection, key: BillIdentity, periods: Collection[BillingPeriod]
) -> bool:
    """Whether a run makes a bill; of a consolidated one, any of its periods may be asked for."""
    kinds = {(each.frequency, each.interval) for each in periods} or {(key.frequency, key.interval)}
    return selection.includes(key) and any(
        selection.frequency in {None, frequency} and selection.interval in {None, interval}
        for frequency, interval in kinds
    )
