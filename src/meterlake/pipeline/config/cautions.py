"""What whoever saves an entity should know although nothing is wrong with it: in sentences.

The API tells it in the header `Warning`, `config apply` in notes.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any, Final, get_args

from meterlake.model.bills.response import BillResponse
from meterlake.model.calculation import InvalidCalculation, parse
from meterlake.model.catalog.plans import PlanGroup, PlanTemplate
from meterlake.model.configuration.integrations import IntegrationConfig
from meterlake.model.configuration.notifications import (
    NotificationConfiguration,
    ScheduledEventConfiguration,
)
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan, billed_account_id
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.contracts import Commitment
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.resources.events import (
    BILL,
    NEVER_HAPPEN,
    event_kind,
    fields_of,
    follows_from_another,
)
from meterlake.model.resources.unused import without_effect
from meterlake.model.scopes.plan_fields import plans_of
from meterlake.model.values.entity import Configuration, Entity
from meterlake.stages.events.never_true import why_never_true
from meterlake.stores import Organization
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

Caution = Callable[[Any, Configuration], Iterator[str]]


def cautions(entity: Entity, configuration: Configuration) -> Iterator[str]:
    """All that is to be said of an entity in its configuration."""
    yield from without_effect(entity)
    for caution in CAUTIONS.get(type(entity), ()):
        yield from caution(entity, configuration)


def read_cautions(organization: Organization, entity: Entity) -> list[str]:
    """All that is to be said of an entity that was just saved."""
    with organization.reading() as reader:
        return list(cautions(entity, StoredConfiguration(reader)))


def _never_goes_out(
    notification: NotificationConfiguration, configuration: Configuration
) -> Iterator[str]:
    """A notification that no event makes go out."""
    name, text = notification.event_name, (notification.calculation or "").strip()
    if name in NEVER_HAPPEN:
        yield f"it never goes out: {name} does not happen, as {NEVER_HAPPEN[name]}"
    elif follows_from_another(name):
        yield f"it never goes out: nothing follows from {name}, which follows from another event"
    elif notification.always_fire_event:
        return
    elif not text:
        yield "it never goes out: it has no calculation, and alwaysFireEvent is not set"
    else:
        yield from _never_true(name, text, configuration)


def _never_true(name: str, text: str, configuration: Configuration) -> Iterator[str]:
    scheduled = {
        each.entity.name: each.entity.entity
        for each in configuration.all(ScheduledEventConfiguration)
    }
    try:
        tree, fields = parse(text), fields_of(name, scheduled)
    except (InvalidCalculation, Invalid):
        return  # It was stored before the rule that refuses it.
    kind = BillResponse if name.rpartition(".")[0] == BILL else event_kind(name)
    reason = why_never_true(tree, fields, lambda key: _words(kind, key))
    if reason is not None:
        yield f"it never goes out: its calculation is never true: {reason}"


def _words(kind: Any, key: str) -> frozenset[str] | None:
    """The words that a field of an event can have: those of its enumeration."""
    wire_name = key.partition(".")[2]
    for name, field in ({} if kind is None else kind.model_fields).items():
        if (field.alias or name) != wire_name:
            continue
        for each in (field.annotation, *get_args(field.annotation)):
            if isinstance(each, type) and issubclass(each, StrEnum):
                return frozenset(each)
    return None


def _sends_nothing(integration: IntegrationConfig, configuration: Configuration) -> Iterator[str]:
    """An integration whose lists of accounts leave none."""
    del configuration
    allowed, denied = (
        {str(each).lower() for each in integration.config_data.get(name) or ()}
        for name in ("accountIds", "restrictedAccountIds")
    )
    if allowed and allowed <= denied:
        yield "it sends nothing: all accountIds are restrictedAccountIds, too"


def _plan_without_rate(attached: AccountPlan, configuration: Configuration) -> Iterator[str]:
    """A plan whose currency does not come onto the bills of its account."""
    try:
        account_id = billed_account_id(attached, configuration)
        currencies: list[str] = []
        if attached.plan_group_id is not None:
            currencies.append(configuration.get(PlanGroup, attached.plan_group_id).entity.currency)
        templates = {each.plan_template_id for each in plans_of(attached, configuration)}
        currencies.extend(
            {configuration.get(PlanTemplate, each).entity.currency for each in templates}
        )
        for source in sorted(currencies):
            yield from _without_rate("the plan", source, account_id, configuration)
    except NotFound:
        return


def _source_without_rate(
    source: Balance | Commitment | Charge, configuration: Configuration
) -> Iterator[str]:
    """A balance, commitment or charge whose currency does not come onto the bills of its account."""
    what = f"the {type(source).__name__.lower()}"
    try:
        yield from _without_rate(what, source.currency, source.account_id, configuration)
    except NotFound:
        return


def _account_without_rate(account: Account, configuration: Configuration) -> Iterator[str]:
    """An account onto whose bills its own plans do not come; new accounts have none."""
    if account.code is None:
        return
    record = configuration.find(Account, account.code)
    if record is None:
        return
    for attached in configuration.where(AccountPlan, "account_id", record.id):
        yield from _plan_without_rate(attached.entity, configuration)


def _without_rate(
    what: str, source: str, account_id: str, configuration: Configuration
) -> Iterator[str]:
    settings = configuration.single(OrganizationConfig).entity
    account = configuration.get(Account, account_id).entity
    target = account.currency or settings.currency
    known = {(each.from_, each.to) for each in settings.currency_conversions}
    if source != target and (source, target) not in known:
        yield (
            f"{what} is in {source}, account {account.code or account_id} is billed in {target},"
            f" and the organization has no conversion rate from {source} to {target}:"
            " what it charges cannot be billed. Add the rate to currencyConversions"
            " of the organization's configuration, or set the account's currency"
        )


CAUTIONS: Final[Mapping[type[Entity], tuple[Caution, ...]]] = {
    Account: (_account_without_rate,),
    AccountPlan: (_plan_without_rate,),
    Balance: (_source_without_rate,),
    Charge: (_source_without_rate,),
    Commitment: (_source_without_rate,),
    IntegrationConfig: (_sends_nothing,),
    NotificationConfiguration: (_never_goes_out,),
}
