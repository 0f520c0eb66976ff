"""What must hold between an entity and the others around it, as named functions.

Each rule looks at one proposed entity and raises when it breaks; `resources.RESOURCES` says which
rules a kind has. What this version does not calculate is refused by one table, `availability`.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any, Generic

from pydantic.alias_generators import to_snake

from meterlake.model import wire
from meterlake.model.access import SYSTEM, PermissionPolicy
from meterlake.model.accounts import Account, AccountPlan
from meterlake.model.catalog import Aggregation, Meter, Reduce
from meterlake.model.entity import Configuration, E, Record
from meterlake.model.errors import Invalid
from meterlake.model.organization import Currency, CustomFields, OrganizationConfig
from meterlake.model.period import format_instant, zone
from meterlake.model.pricing import Plan, PlanTemplate, Pricing


@dataclass(frozen=True, slots=True)
class Proposed(Generic[E]):
    """An entity as it is about to be.

    Attributes:
        id: Its id.
        entity: Its fields after the change.
        before: Its fields before, None for a new one.
        around: All entities of the organization as they will be, the entity itself among them.
    """

    id: str
    entity: E
    before: E | None
    around: Configuration


Rule = Callable[[Proposed[Any]], None]

# Organization.


def timezone_exists(new: Proposed[OrganizationConfig]) -> None:
    """The time zone is one that we know."""
    zone(new.entity.timezone)


def one_rate_per_pair(new: Proposed[OrganizationConfig]) -> None:
    """Two rates for the same pair of currencies would leave the bill to chance."""
    seen = set()
    for index, conversion in enumerate(new.entity.currency_conversions):
        pair = (conversion.from_, conversion.to)
        if pair in seen or conversion.from_ == conversion.to:
            text = f"{conversion.from_} to {conversion.to}"
            raise Invalid(f"currencyConversions[{index}]", text, "one rate per pair of currencies")
        seen.add(pair)


def currency_code_stays(new: Proposed[Currency]) -> None:
    """A currency that something names by its code keeps the code."""
    if new.before is None or new.before.code in {None, new.entity.code}:
        return
    for user in _users_of_currency(new.around, new.before.code):
        rule = f"{new.before.code!r} as long as {user} is in it"
        raise Invalid("code", new.entity.code, rule)


def _users_of_currency(around: Configuration, code: str | None) -> Iterable[str]:
    for config in around.all(OrganizationConfig):
        pairs = {(c.from_, c.to) for c in config.entity.currency_conversions}
        if code in {config.entity.currency, *(name for pair in pairs for name in pair)}:
            yield "the organization's configuration"
    yield from (f"account {a.entity.code!r}" for a in around.where(Account, "currency", code))
    templates = around.where(PlanTemplate, "currency", code)
    yield from (f"plan template {t.entity.name!r}" for t in templates)


def custom_fields_not_in_use_stay(new: Proposed[CustomFields]) -> None:
    """A custom field that an entity carries is not taken away from its kind."""
    if new.before is None:
        return
    for kind, attribute in _custom_field_kinds(new.around):
        gone = set(getattr(new.before, attribute)) - set(getattr(new.entity, attribute))
        for record in new.around.all(kind) if gone else ():
            carried = sorted(gone & set(record.entity.custom_fields))
            if carried:
                who = f"{kind.__name__} {getattr(record.entity, 'code', None) or record.id!r}"
                raise Invalid(_camel(attribute), carried[0], f"kept as long as {who} carries it")


def _custom_field_kinds(around: Configuration) -> Iterable[tuple[type[Any], str]]:
    for kind in around.kinds():
        attribute = to_snake(kind.__name__)
        if "custom_fields" in kind.model_fields and attribute in CustomFields.model_fields:
            yield kind, attribute


def _camel(attribute: str) -> str:
    return CustomFields.model_fields[attribute].alias or attribute


def custom_fields_known(new: Proposed[Any]) -> None:
    """A custom field exists on the organization before an entity carries it."""
    attribute = to_snake(type(new.entity).__name__)
    if not new.entity.custom_fields or attribute not in CustomFields.model_fields:
        return
    known: set[str] = set()
    for record in new.around.all(CustomFields):
        known |= set(getattr(record.entity, attribute))
    for name, value in new.entity.custom_fields.items():
        if name not in known:
            rule = f"a field of customFields.{_camel(attribute)} first"
            raise Invalid(f"customFields.{name}", value, rule)


# Catalog.


def field_codes_differ(new: Proposed[Meter]) -> None:
    """Field codes are unique in all categories together, whatever the case of their letters."""
    seen: dict[str, str] = {}
    for index, data_field in enumerate(new.entity.data_fields):
        other = seen.get(data_field.code.casefold())
        if other is not None:
            rule = f"different from field {other!r}, letter case apart"
            raise Invalid(f"dataFields[{index}].code", data_field.code, rule)
        seen[data_field.code.casefold()] = data_field.code


def aggregated_fields_stay(new: Proposed[Meter]) -> None:
    """A field that an aggregation reads is not removed and keeps its category."""
    if new.before is None:
        return
    for record in new.around.where(Aggregation, "meter_id", new.id):
        field = record.entity.target_field
        before, after = new.before.category(field), new.entity.category(field)
        if before is not None and after is not before:
            name = record.entity.code or record.entity.name
            rule = f"a field of category {before} as long as aggregation {name!r} reads it"
            raise Invalid("dataFields", field, rule)


def target_field_fits(new: Proposed[Aggregation]) -> None:
    """The field exists; COUNT reads every field, UNIQUE texts, all others numbers."""
    meter = new.around.get(Meter, new.entity.meter_id).entity
    category = meter.category(new.entity.target_field)
    if category is None:
        raise Invalid(
            "targetField", new.entity.target_field, f"a data field of meter {meter.code!r}"
        )
    reduce = new.entity.aggregation
    if reduce is not Reduce.COUNT and category.numeric is (reduce is Reduce.UNIQUE):
        wanted = "text" if reduce is Reduce.UNIQUE else "numbers"
        rule = f"a field of {wanted} for {reduce}; it is a {category} field"
        raise Invalid("targetField", new.entity.target_field, rule)


# Pricing.


def plan_product(record: Record[Plan], around: Configuration) -> dict[str, Any]:
    """The product of a plan: its template's."""
    return {"productId": product_of_plan(record.entity, around)}


def account_plan_product(record: Record[AccountPlan], around: Configuration) -> dict[str, Any]:
    """The product of an account plan: its plan's; a plan group has none."""
    if record.entity.plan_id is None:
        return {}
    return {"productId": product_of_plan(around.get(Plan, record.entity.plan_id).entity, around)}


def product_of_plan(plan: Plan, around: Configuration) -> str:
    """The id of the product that a plan belongs to."""
    return around.get(PlanTemplate, plan.plan_template_id).entity.product_id


def pricing_aggregation_type(record: Record[Pricing], around: Configuration) -> dict[str, Any]:
    """Which kind of aggregation is priced, and the segment as text."""
    del around
    simple = record.entity.aggregation_id is not None
    segment = record.entity.segment
    text = {"segmentString": wire.dumps_sorted(segment)} if segment else {}
    return {"aggregationType": "SIMPLE" if simple else "COMPOUND", **text}


def policy_managed(record: Record[PermissionPolicy], around: Configuration) -> dict[str, Any]:
    """Whether meterlake itself made the policy."""
    del around
    return {"managedPolicy": record.created_by == SYSTEM}


def one_plan_or_template(new: Proposed[Pricing]) -> None:
    """A pricing belongs to a plan or to a template."""
    _exactly_one(new.entity, "planId", "planTemplateId")


def one_aggregation(new: Proposed[Pricing]) -> None:
    """A pricing prices one aggregation, simple or compound."""
    _exactly_one(new.entity, "aggregationId", "compoundAggregationId")


def one_plan_or_group(new: Proposed[AccountPlan]) -> None:
    """An account is put on a plan or on a group of plans."""
    _exactly_one(new.entity, "planId", "planGroupId")


def _exactly_one(entity: Any, first: str, second: str) -> None:
    values = [getattr(entity, to_snake(name)) for name in (first, second)]
    if (values[0] is None) is (values[1] is None):
        raise Invalid(first, values[0], f"exactly one of {first} and {second}")


def bands_rise(new: Proposed[Pricing]) -> None:
    """Bands begin at 0 and rise, so that no quantity is without a price or has two."""
    lowers = [band.lower_limit for band in new.entity.pricing_bands]
    if lowers[0] != 0:
        raise Invalid("pricingBands[0].lowerLimit", lowers[0], "0 in the first band")
    for index, (lower, upper) in enumerate(pairwise(lowers), start=1):
        if upper <= lower:
            raise Invalid(f"pricingBands[{index}].lowerLimit", upper, f"more than {lower}")


def ends_after_start(new: Proposed[Pricing] | Proposed[AccountPlan]) -> None:
    """An end comes after its start."""
    start, end = new.entity.start_date, new.entity.end_date
    if end is not None and end <= start:
        raise Invalid("endDate", format_instant(end), f"after startDate {format_instant(start)}")


def aggregation_in_product_scope(new: Proposed[Pricing]) -> None:
    """An aggregation of a product's meter prices only that product's plans."""
    if new.entity.aggregation_id is None:
        return
    aggregation = new.around.get(Aggregation, new.entity.aggregation_id).entity
    product_id = new.around.get(Meter, aggregation.meter_id).entity.product_id
    if product_id not in {None, _product_of_pricing(new.entity, new.around)}:
        name = aggregation.code or aggregation.name
        raise Invalid(
            "aggregationId", name, "an aggregation of the plan's product, or a global one"
        )


def _product_of_pricing(pricing: Pricing, around: Configuration) -> str | None:
    if pricing.plan_id is not None:
        return product_of_plan(around.get(Plan, pricing.plan_id).entity, around)
    assert pricing.plan_template_id is not None
    return around.get(PlanTemplate, pricing.plan_template_id).entity.product_id


def one_price_at_a_time(new: Proposed[Pricing]) -> None:
    """Two pricings of one aggregation in one place never hold at the same time."""
    pricing = new.entity
    for other in new.around.where(Pricing, "aggregation_id", pricing.aggregation_id):
        same = _place(other.entity) == _place(pricing) and other.id != new.id
        if same and _overlap(other.entity, pricing):
            start = format_instant(pricing.start_date)
            rule = f"outside the time of the pricing that begins {_span(other.entity)}"
            raise Invalid("startDate", start, rule)


def _place(pricing: Pricing) -> tuple[object, ...]:
    return pricing.plan_id, pricing.plan_template_id, pricing.type, pricing.segment


def _overlap(one: Pricing | AccountPlan, other: Pricing | AccountPlan) -> bool:
    return _before(one.start_date, other.end_date) and _before(other.start_date, one.end_date)


def _before(start: datetime, end: datetime | None) -> bool:
    return end is None or start < end


def _span(entity: Pricing | AccountPlan) -> str:
    end = format_instant(entity.end_date) if entity.end_date else "never"
    return f"{format_instant(entity.start_date)} and ends {end}"


# Accounts.


def bespoke_account_stays(new: Proposed[Plan]) -> None:
    """A plan made for one account is not moved to another."""
    before = new.before.account_id if new.before else None
    if before is not None and new.entity.account_id != before:
        raise Invalid("accountId", new.entity.account_id, "the account that the plan was made for")


def bespoke_plan_for_its_account(new: Proposed[AccountPlan]) -> None:
    """A plan made for one account is only for that account."""
    if new.entity.plan_id is None:
        return
    plan = new.around.get(Plan, new.entity.plan_id).entity
    if plan.account_id not in {None, new.entity.account_id}:
        raise Invalid("planId", plan.code, "a plan for everyone, or one made for this account")


def one_plan_per_product(new: Proposed[AccountPlan]) -> None:
    """An account is on one plan per product at a time, unless the organization allows more."""
    if any(c.entity.allow_overlapping_plans for c in new.around.all(OrganizationConfig)):
        return
    product = _product_of_account_plan(new.entity, new.around)
    for other in new.around.where(AccountPlan, "account_id", new.entity.account_id):
        if other.id == new.id or not _overlap(other.entity, new.entity):
            continue
        if _product_of_account_plan(other.entity, new.around) == product:
            rule = f"outside the time of the account plan that begins {_span(other.entity)}"
            raise Invalid("startDate", format_instant(new.entity.start_date), rule)


def _product_of_account_plan(account_plan: AccountPlan, around: Configuration) -> str | None:
    if account_plan.plan_id is None:
        return None
    return product_of_plan(around.get(Plan, account_plan.plan_id).entity, around)
