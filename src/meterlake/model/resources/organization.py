"""The organization: its settings, its custom fields, and its picklists."""

from typing import Final

from meterlake.model.configuration.organization import (
    BillConfig,
    Currency,
    CustomFields,
    OrganizationConfig,
)
from meterlake.model.configuration.statements import StatementDefinition
from meterlake.model.resources.picklists import PICKLIST_FILTERS
from meterlake.model.resources.resource import SINGLETON, Resource
from meterlake.model.rules.account_plans import overlaps_are_allowed
from meterlake.model.rules.catalog.compound import compounds_keep_custom_fields
from meterlake.model.rules.catalog.derived import calculations_keep_custom_fields
from meterlake.model.rules.custom_fields import custom_fields_not_in_use_stay
from meterlake.model.rules.organization import (
    currency_code_stays,
    grace_period_has_a_unit,
    hour_of_daily_bills,
    one_rate_per_pair,
    timezone_exists,
)

# What the SDK does not know: its updates leave it alone.
_OWN: Final = frozenset(
    {
        *("late_usage", "review_unpriced_usage", "review_missing_bills", "review_total_percent"),
        *("review_total_periods", "review_rejected_rows", "review_files"),
    }
)


def _keep_own_settings(update: OrganizationConfig, stored: OrganizationConfig) -> frozenset[str]:
    del update, stored
    return _OWN


ROWS: Final = (
    Resource(
        name="currencies",
        path="picklists/currency",
        entity=Currency,
        label_key=("name",),
        rules=(currency_code_stays,),
        schema="Currency",
        permission="currency",
        filters=PICKLIST_FILTERS,
        operations={
            "create": "CreateCurrency",
            "list": "ListCurrencies",
            "update": "UpdateCurrency",
        },
    ),
    Resource(
        name="organizationConfig",
        path="organizationconfig",
        entity=OrganizationConfig,
        refs={"default_statement_definition_id": StatementDefinition},
        codes={
            "currency": Currency,
            "currency_conversions.from_": Currency,
            "currency_conversions.to": Currency,
        },
        singleton=True,
        rules=(
            timezone_exists,
            one_rate_per_pair,
            hour_of_daily_bills,
            grace_period_has_a_unit,
            overlaps_are_allowed,
        ),
        keep_unset=_keep_own_settings,
        schema="OrganizationConfig",
        permission="organizationconfig",
        event="configuration.organizationconfig",
        verbs=SINGLETON,
        operations={"update": "UpdateOrganizationConfig"},
    ),
    Resource(
        name="customFields",
        path="customfields",
        entity=CustomFields,
        singleton=True,
        rules=(
            custom_fields_not_in_use_stay,
            calculations_keep_custom_fields,
            compounds_keep_custom_fields,
        ),
        schema="CustomFields",
        permission="customfield",
        event="configuration.customfield",
        verbs=SINGLETON,
        operations={"retrieve": "GetCustomField", "update": "UpdateCustomFields"},
    ),
    Resource(
        name="billConfig",
        path="billconfig",
        entity=BillConfig,
        singleton=True,
        schema="BillConfig",
        permission="billconfig",
        event="billing.billconfig",
        verbs=SINGLETON,
        operations={"update": "UpdateBillConfig"},
    ),
)
