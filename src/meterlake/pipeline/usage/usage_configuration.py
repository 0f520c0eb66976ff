"""What quantities depend on: without most of the accounts, which are by far the most."""

from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any, Final

from meterlake.model.calculation import Value
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter, Product
from meterlake.model.catalog.plans import BillingFrequency, Plan, PlanGroupLink, PlanTemplate
from meterlake.model.configuration.organization import CustomFields, OrganizationConfig
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.customers.contracts import Contract
from meterlake.model.customers.recurring_period import PeriodSpec
from meterlake.model.scopes.compound import ACCOUNT, CUSTOM_FIELDS
from meterlake.model.values.entity import Configuration, Entity, Record
from meterlake.model.values.version import code_version
from meterlake.stages.usage.cycles import UsageConfiguration
from meterlake.stores.state import Reader, State
from meterlake.stores.state.billing.accounts.usage_accounts import accounts_apart
from meterlake.stores.state.core.account_names import account_fields

_KINDS: Final[tuple[type[Entity], ...]] = (
    *(OrganizationConfig, CustomFields, Product, Meter, Aggregation, CompoundAggregation),
    *(PlanTemplate, Plan, PlanGroupLink),
)


def read(state: State, org_id: str, request: PeriodSpec) -> UsageConfiguration:
    """The configuration of a run.

    Raises:
        Invalid: There is no such period.
        NotFound: There is no such organization.
    """
    with state.reading(org_id) as reader:
        return read_with(reader, request)


def read_with(
    reader: Reader,
    request: PeriodSpec,
    known: Configuration | None = None,
    accounts: Reader | None = None,
) -> UsageConfiguration:
    """The same, for a reader that reads other things, too.

    Args:
        reader: The organization.
        request: The period.
        known: All that the reader sees, if it has been read already.
        accounts: Where account plans are read if not there.
    """
    records = _records(known or reader)
    configuration = Configuration(records)
    run = request.of(configuration.single(OrganizationConfig).entity)
    apart = _apart(reader, configuration, {run.frequency})
    # If accounts may have quantities without any usage, then all that are on a plan count.
    defaults = (each.entity.default_value for each in configuration.all(Aggregation))
    if any(each is not None for each in defaults) or any(configuration.all(CompoundAggregation)):
        apart = [record for record in apart if not isinstance(record.entity, AccountPlan)]
        apart += (accounts or known or reader).all(AccountPlan)
    records += apart
    fields: dict[str, Mapping[str, Value]] = {}
    compounds = configuration.all(CompoundAggregation)
    if any(CUSTOM_FIELDS in each.entity.calculation for each in compounds):
        fields = {
            each.id: {f"{ACCOUNT}{name}": value for name, value in each.values.items()}
            for each in account_fields(reader)
        }
        records += reader.all(Contract)
    return UsageConfiguration(Configuration(records), run, fields)


def calculated_with(configuration: UsageConfiguration) -> str:
    """What tells whether quantities would be calculated in the same way again."""
    return sha256(f"{code_version()} {configuration.digest()}".encode()).hexdigest()


def cycles_configuration(reader: Reader) -> Configuration:
    """What the periods of accounts depend on, in runs of any frequency."""
    records = _records(reader)
    configuration = Configuration(records)
    every = {each.entity.bill_frequency for each in configuration.all(PlanTemplate)}
    return Configuration([*records, *_apart(reader, configuration, every)])


def _records(source: Reader | Configuration) -> list[Record[Any]]:
    return [each for kind in _KINDS for each in source.all(kind)]


def _apart(
    reader: Reader, configuration: Configuration, frequencies: Collection[BillingFrequency]
) -> list[Record[Any]]:
    """The accounts that may have periods of their own or pools, with their account plans."""
    with_intervals = {
        template.id
        for template in configuration.all(PlanTemplate)
        if template.entity.bill_frequency in frequencies
        and template.entity.bill_frequency_interval > 1
    }
    plans = configuration.all(Plan)
    return accounts_apart(
        reader, [p.id for p in plans if p.entity.plan_template_id in with_intervals]
    )
