"""Prices that customers have are not changed by one person alone, where the organization wants two.

What people and nameless commands change waits for a review: they propose it. Programs change prices
by themselves: whoever keeps configuration in files has them reviewed where the files are kept.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from meterlake.model.catalog.counters import CounterPricing
from meterlake.model.catalog.plans import Plan, PlanGroup, PlanGroupLink, PlanTemplate, Pricing
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.errors import Forbidden
from meterlake.model.rules.proposed import display_name
from meterlake.model.values.entity import Entity, Record
from meterlake.model.values.ids import UNNAMED
from meterlake.stores import Organization
from meterlake.stores.state import Reader

_PRICES: Final = (Pricing, CounterPricing)
# What has charges of its own: new ones are nobody's yet, and what customers have is not deleted.
_CHARGED: Final = (Plan, PlanTemplate, PlanGroup)
# What of a price, or of a plan, no customer pays.
_FREE: Final = frozenset(
    {"name", "code", "ordinal", "custom_fields", "description", "accounting_product_id"}
    | {"standing_charge_description", "minimum_spend_description"}
    | {"standing_charge_accounting_product_id", "minimum_spend_accounting_product_id"}
)


class EntityEdit(NamedTuple):
    """An entity before and after; None where there is none."""

    before: Record[Any] | None
    after: Record[Any] | None


def refuse_lone_changes(reader: Reader, author: str, changes: Iterable[EntityEdit]) -> None:
    """Refuse changes of prices that customers have, by a person where the organization wants two.

    Raises:
        Forbidden: There is such a change.
    """
    if not _needs_another(author):
        return
    for each in changes:
        if not _is_priced_otherwise(each):
            continue
        if not _wants_two_persons(reader):
            return
        # A price may move from one plan to another.
        sold = (record for record in each if record is not None and _is_sold(reader, record))
        record = next(sold, None)
        if record is not None:
            who = "" if author != UNNAMED else "; say with `--as` who you are"
            raise Forbidden(
                f"{display_name(record)} is of a plan that customers have, and the organization wants"
                " two persons (`twoPersonApproval`): nobody changes its prices alone; make a"
                f" change proposal, and a colleague approves it{who}"
            )


def must_propose(organization: Organization, author: str, prices: Iterable[Record[Any]]) -> bool:
    """Whether somebody may only propose to change prices."""
    with organization.reading() as reader:
        try:
            refuse_lone_changes(reader, author, (EntityEdit(each, None) for each in prices))
        except Forbidden:
            return True
    return False


def must_propose_price(organization: Organization, author: str, id: str) -> bool:
    """Whether somebody may only propose to change one price.

    Raises:
        NotFound: There is no such price.
    """
    with organization.reading() as reader:
        price = reader.get(Pricing, id)
    return must_propose(organization, author, (price,))


def _needs_another(author: str) -> bool:
    return author == UNNAMED or author.startswith("USER_")


def _wants_two_persons(reader: Reader) -> bool:
    return any(each.entity.two_person_approval for each in reader.all(OrganizationConfig))


def _is_priced_otherwise(edit: EntityEdit) -> bool:
    """Whether a change is one of what customers pay."""
    before, after = edit
    entity = (after or before).entity  # type: ignore[union-attr]
    if before is None or after is None:
        return isinstance(entity, _PRICES)
    return isinstance(entity, (*_PRICES, *_CHARGED)) and any(
        getattr(before.entity, name) != getattr(after.entity, name)
        for name in type(entity).model_fields
        if name not in _FREE
    )


def _is_sold(reader: Reader, record: Record[Any]) -> bool:
    """Whether a customer has, or had, the plan of a price, or one of the template."""
    entity: Entity = record.entity
    match entity:
        case Pricing() | CounterPricing():
            plan_ids = [entity.plan_id] if entity.plan_id else []
            template_id = entity.plan_template_id
        case PlanGroup():
            return _has_customer(reader, PlanGroup, record.id)
        case Plan():
            plan_ids, template_id = [record.id], None
        case _:
            plan_ids, template_id = [], record.id
    if template_id:
        plan_ids += [each.id for each in reader.referring(Plan, PlanTemplate, template_id)]
    return any(_is_plan_sold(reader, id_) for id_ in plan_ids)


def _is_plan_sold(reader: Reader, id: str) -> bool:
    groups = (each.entity.plan_group_id for each in reader.referring(PlanGroupLink, Plan, id))
    return _has_customer(reader, Plan, id) or any(
        _has_customer(reader, PlanGroup, group_id) for group_id in groups
    )


def _has_customer(reader: Reader, kind: type[Entity], id: str) -> bool:
    return bool(reader.referring(AccountPlan, kind, id, most=1))
