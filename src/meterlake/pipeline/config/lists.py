"""Lists whose filters look further than at the fields of the listed entities."""

from collections.abc import Sequence
from typing import Any, Final

from meterlake.model.catalog.catalog import Aggregation, Meter
from meterlake.model.catalog.counters import CounterAdjustment
from meterlake.model.catalog.plans import Plan, PlanTemplate
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.resources import BY_ENTITY, Filter, Resource
from meterlake.model.resources.listing import Comparator, FilterValues, Search, Term
from meterlake.model.resources.resource import IDS
from meterlake.model.scopes.products import products_of_account_plan
from meterlake.model.values.entity import Entity
from meterlake.model.values.period import format_instant
from meterlake.pipeline.config.entities import (
    Document,
    entity_document,
    envelope,
    list_page,
)
from meterlake.stores import Organization
from meterlake.stores.state.core.listing import list_entities, search_entities
from meterlake.stores.state.core.pages import Page, position_of, position_token
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

PRODUCT: Final = "productId"
# Kinds whose product is that of another entity: the field that names it, and its kind.
_BY_PRODUCT: Final[dict[type[Entity], tuple[str, type[Any]]]] = {
    Plan: ("planTemplateId", PlanTemplate),
    Aggregation: ("meterId", Meter),
}
_COMPARATORS: Final[dict[str, Comparator]] = {"=": ":", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_ACTIVE: Final = Filter("active", kind="instant", active=("startDate", "endDate"))
# With one of these, the list holds what is active now; with `includeall` all, with `date` what is
# active then.
_ACTIVE_ONLY: Final = frozenset({"account", "plan", "contract"})
_OTHER_TIME: Final = frozenset({"includeall", "date"})


def list_children(organization: Organization, account_id: str, page: Page) -> Document:
    """One page of the children of an account.

    Raises:
        NotFound: There is no such account.
    """
    with organization.reading() as reader:
        reader.get(Account, account_id)
    children = FilterValues(Filter("parentAccountId"), (account_id,))
    return list_page(organization, BY_ENTITY[Account], [children], page)


def list_by_product(
    organization: Organization, resource: Resource, criteria: Sequence[FilterValues], page: Page
) -> Document:
    """One page of plans or aggregations; `productId` looks at what their product comes from."""
    with organization.reading() as reader:
        looked_up: list[FilterValues] = []
        field, kind = _BY_PRODUCT[resource.entity]
        configuration = StoredConfiguration(reader)
        for each in criteria:
            if each.filter.name != PRODUCT:
                looked_up.append(each)
                continue
            owners = [
                o.id
                for value in each.values
                for o in configuration.where(kind, "product_id", value)
            ]
            looked_up.append(FilterValues(Filter(field, several=True), tuple(owners)))
        records, token = list_entities(reader, resource, looked_up, page)
        return envelope([entity_document(record, reader) for record in records], token)


def list_adjustments(
    organization: Organization, criteria: Sequence[FilterValues], page: Page, *, ascending: bool
) -> Document:
    """One page of counter adjustments by their day, from the first one or from the last one on."""
    terms = tuple(
        Term(each.filter.column, _COMPARATORS[each.filter.op], str(each.values[0]))
        for each in criteria
    )
    start = position_of(page.token)
    query = Search(terms, True, "date", ascending, start, page.size)
    with organization.reading() as reader:
        records, more = search_entities(reader, BY_ENTITY[CounterAdjustment], query)
        token = position_token(start + len(records)) if more else None
        return envelope([entity_document(record, reader) for record in records], token)


def list_account_plans(
    organization: Organization, criteria: Sequence[FilterValues], page: Page
) -> Document:
    """One page of account plans, the newest first.

    The filters `account`, `plan` and `contract` find what is active now, unless there is
    `includeall` or a `date`; `product` and `contract` find no plan groups.
    """
    with organization.reading() as reader:
        now = organization.now()
        values = {each.filter.name: each.values[0] for each in criteria if each.values}
        if values.get("includeall") is False:
            del values["includeall"]
        narrowed = [each for each in criteria if each.filter.name not in {"includeall", "product"}]
        if values.keys() & _ACTIVE_ONLY and not values.keys() & _OTHER_TIME:
            narrowed.append(FilterValues(_ACTIVE, (format_instant(now),)))
        if "contract" in values:
            of_contract = tuple(
                record.id
                for record in StoredConfiguration(reader).where(
                    AccountPlan, "contract_id", values["contract"]
                )
                if record.entity.plan_id is not None
            )
            narrowed.append(FilterValues(IDS, of_contract))
        if "product" in values:
            account_id = values["account"]
            product_id = values["product"]
            configuration = StoredConfiguration(reader)
            of_product = tuple(
                record.id
                for record in configuration.where(AccountPlan, "account_id", account_id)
                if record.entity.plan_id is not None
                and product_id in products_of_account_plan(record.entity, configuration)
            )
            narrowed.append(FilterValues(IDS, of_product))
        records, token = list_entities(reader, BY_ENTITY[AccountPlan], narrowed, page)
        return envelope([entity_document(record, reader) for record in records], token)
