"""Who pays: accounts, their contracts, and the plans that they are on."""

from typing import Final

from meterlake.model.catalog.plans import Plan, PlanGroup
from meterlake.model.configuration.organization import BillGroupingKey, Currency
from meterlake.model.configuration.statements import StatementDefinition
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.contracts import Contract
from meterlake.model.resources.resource import CODES, IDS, VERBS, Filter, Resource
from meterlake.model.rules.accounts import (
    account_plan_product,
    bespoke_plan_for_its_account,
    child_has_no_children,
    children_fit,
    contract_of_its_account,
    one_plan_or_group,
    one_plan_per_product,
    parent_is_no_child,
)
from meterlake.model.rules.contracts import (
    exclusive_key_has_one_contract,
    filtered_dimensions_exist,
)
from meterlake.model.rules.organization import custom_fields_known
from meterlake.model.rules.spans import ends_after_start

ROWS: Final = (
    Resource(
        name="accounts",
        path="accounts",
        entity=Account,
        refs={"parent_account_id": Account, "statement_definition_id": StatementDefinition},
        codes={"currency": Currency},
        rules=(custom_fields_known, parent_is_no_child, child_has_no_children, children_fit),
        schema="Account",
        permission="account",
        event="configuration.account",
        verbs=VERBS | {"search"},
        searchable=frozenset(
            {"name", "code", "codes", "currency", "purchaseOrderNumber", "parentAccountId"}
        ),
        filters=(IDS, CODES),
        account="id",
    ),
    Resource(
        name="contracts",
        path="contracts",
        entity=Contract,
        refs={"account_id": Account, "bill_grouping_key_id": BillGroupingKey},
        key=("account_id", "name", "start_date"),
        rules=(
            custom_fields_known,
            ends_after_start,
            filtered_dimensions_exist,
            exclusive_key_has_one_contract,
        ),
        schema="Contract",
        permission="contract",
        event="configuration.contract",
        filters=(IDS, CODES, Filter("accountId")),
    ),
    # What its filters mean together stands in `pipeline.account_plans`.
    Resource(
        name="accountPlans",
        path="accountplans",
        entity=AccountPlan,
        refs={
            "account_id": Account,
            "plan_id": Plan,
            "plan_group_id": PlanGroup,
            "contract_id": Contract,
        },
        key=("account_id", "plan_id", "plan_group_id", "start_date"),
        rules=(
            custom_fields_known,
            one_plan_or_group,
            ends_after_start,
            bespoke_plan_for_its_account,
            contract_of_its_account,
            one_plan_per_product,
        ),
        computed=account_plan_product,
        schema="AccountPlan",
        permission="accountplan",
        event="configuration.accountplan",
        filters=(
            IDS,
            Filter("account", field="accountId"),
            Filter("plan", field="planId"),
            Filter("contract", field="contractId"),
            Filter("product", field="productId", needs="account"),
            Filter("date", kind="date", active=("startDate", "endDate")),
            Filter("includeall", kind="flag"),
        ),
    ),
)
