"""Account plans: replacing one by another, and what the filters of their list mean together."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.errors import Invalid
from meterlake.model.resources import BY_ENTITY, Filter
from meterlake.model.resources.listing import FilterValues
from meterlake.model.resources.resource import IDS
from meterlake.model.scopes.products import products_of_account_plan
from meterlake.model.values.entity import Record
from meterlake.model.values.period import format_instant
from meterlake.pipeline.config.entities import (
    Document,
    create_in,
    entity_document,
    envelope,
    parse,
    update_in,
)
from meterlake.stores import Stores
from meterlake.stores.state import Reader
from meterlake.stores.state.core.listing import list_entities
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

_ACTIVE: Final = Filter("active", kind="instant", active=("startDate", "endDate"))
# With one of these, the list holds what is active now; with `includeall` all, with `date` what is
# active then.
_ACTIVE_ONLY: Final = frozenset({"account", "plan", "contract"})
_OTHER_TIME: Final = frozenset({"includeall", "date"})


def replace_account_plan(
    stores: Stores, org_id: str, author: str, id: str, document: Document
) -> Document:
    """End an account plan at the start of another one, and create that one; both or none.

    The document is that of the new account plan, which is for the same account.

    Raises:
        NotFound: There is no such account plan.
        Invalid: A rule is broken, or the new one does not start while the old one is active.
    """
    resource = BY_ENTITY[AccountPlan]
    new: AccountPlan = parse(resource, document, {})
    with stores.state.transaction(org_id, author) as transaction:
        before = transaction.get(AccountPlan, id)
        _refuse_misfit(before.entity, new)
        original: Record[AccountPlan] = before
        if before.entity.end_date != new.start_date:
            ended = before.entity.model_copy(update={"end_date": new.start_date})
            original = update_in(transaction, stores, before, before.version, ended)
        created = create_in(transaction, stores, new)
        return {
            "originalAccountPlan": entity_document(original, transaction),
            "newAccountPlan": entity_document(created, transaction),
        }


def _refuse_misfit(old: AccountPlan, new: AccountPlan) -> None:
    if new.account_id != old.account_id:
        raise Invalid(
            "accountId", new.account_id, "it must be the account of the replaced account plan"
        )
    late = old.end_date is not None and new.start_date > old.end_date
    if new.start_date <= old.start_date or late:
        end = format_instant(old.end_date) if old.end_date else "ever"
        start = format_instant(old.start_date)
        rule = f"the replaced account plan must be active then: after {start}, until {end}"
        raise Invalid("startDate", format_instant(new.start_date), rule)


def list_account_plans(
    stores: Stores, org_id: str, criteria: Sequence[FilterValues], page: Page
) -> Document:
    """One page of account plans, the newest first.

    The filters `account`, `plan` and `contract` find what is active now, unless there is
    `includeall` or a `date`; `product` and `contract` find no plan groups.
    """
    with stores.state.reading(org_id) as reader:
        narrowed = _narrow_filters(reader, criteria, stores.now())
        records, token = list_entities(reader, BY_ENTITY[AccountPlan], narrowed, page)
        return envelope([entity_document(record, reader) for record in records], token)


def _narrow_filters(
    reader: Reader, criteria: Sequence[FilterValues], now: datetime
) -> list[FilterValues]:
    values = {each.filter.name: each.values[0] for each in criteria if each.values}
    if values.get("includeall") is False:
        del values["includeall"]
    found = [each for each in criteria if each.filter.name not in {"includeall", "product"}]
    if values.keys() & _ACTIVE_ONLY and not values.keys() & _OTHER_TIME:
        found.append(FilterValues(_ACTIVE, (format_instant(now),)))
    if "contract" in values:
        found.append(FilterValues(IDS, _without_groups(reader, "contract_id", values["contract"])))
    if "product" in values:
        found.append(FilterValues(IDS, _of_product(reader, values["account"], values["product"])))
    return found


def _without_groups(reader: Reader, field: str, value: object) -> tuple[str, ...]:
    records = StoredConfiguration(reader).where(AccountPlan, field, value)
    return tuple(record.id for record in records if record.entity.plan_id is not None)


def _of_product(reader: Reader, account_id: object, product_id: object) -> tuple[str, ...]:
    configuration = StoredConfiguration(reader)
    return tuple(
        record.id
        for record in configuration.where(AccountPlan, "account_id", account_id)
        if record.entity.plan_id is not None
        and product_id in products_of_account_plan(record.entity, configuration)
    )
