"""The organization: its settings, its custom fields, the lists that it picks from, and its features."""

from typing import Final

from meterlake.model.catalog.catalog import Features, Meter
from meterlake.model.configuration.organization import (
    BillConfig,
    BillGroupingKey,
    CreditReason,
    Currency,
    CustomFields,
    DebitReason,
    OrganizationConfig,
    TransactionType,
)
from meterlake.model.configuration.statements import StatementDefinition
from meterlake.model.resources.resource import CODES, IDS, SINGLETON, Filter, Resource
from meterlake.model.rules.accounts import overlaps_are_allowed
from meterlake.model.rules.catalog.compound import compounds_keep_custom_fields
from meterlake.model.rules.catalog.derived import calculations_keep_custom_fields
from meterlake.model.rules.contracts import exclusive_key_is_of_one_contract
from meterlake.model.rules.organization import (
    currency_code_stays,
    custom_fields_not_in_use_stay,
    expected_files_name_their_time,
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
        *("expected_files", "two_person_approval", "bill_letter_subject", "bill_letter_text"),
    }
)
PICKLIST_FILTERS: Final = (IDS, CODES, Filter("archived", kind="flag"))


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
            expected_files_name_their_time,
            hour_of_daily_bills,
            grace_period_has_a_unit,
            overlaps_are_allowed,
        ),
        keep_unset=lambda _, __: _OWN,
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
    Resource(
        name="creditReasons",
        path="picklists/creditreasons",
        entity=CreditReason,
        label_key=("name",),
        schema="CreditReason",
        permission="creditreason",
        event="configuration.creditreason",
        filters=PICKLIST_FILTERS,
        operations={"create": "CreateCreditReason", "update": "UpdateCreditReason"},
    ),
    Resource(
        name="debitReasons",
        path="picklists/debitreasons",
        entity=DebitReason,
        label_key=("name",),
        schema="DebitReason",
        permission="debitreason",
        filters=PICKLIST_FILTERS,
        operations={"create": "CreateDebitReason", "update": "UpdateDebitReason"},
    ),
    Resource(
        name="transactionTypes",
        path="picklists/transactiontypes",
        entity=TransactionType,
        label_key=("name",),
        schema="TransactionType",
        permission="transactiontype",
        event="configuration.transactiontype",
        filters=PICKLIST_FILTERS,
        operations={"create": "CreateTransactionType", "update": "UpdateTransactionType"},
    ),
    Resource(
        name="billGroupingKeys",
        path="picklists/billgroupingkeys",
        entity=BillGroupingKey,
        label_key=("name",),
        rules=(exclusive_key_is_of_one_contract,),
        schema="BillGroupingKey",
        permission="billgroupingkey",
        filters=PICKLIST_FILTERS,
        operations={"create": "CreateBillGroupingKey", "update": "UpdateBillGroupingKey"},
    ),
    Resource(
        name="statementDefinitions",
        path="statementdefinitions",
        entity=StatementDefinition,
        key=("name",),
        refs={"dimensions.meter_id": Meter, "measures.meter_id": Meter},
        schema="StatementDefinition",
        permission="statementdefinition",
        filters=(),
    ),
    Resource(
        name="features",
        path="features",
        entity=Features,
        singleton=True,
        verbs=SINGLETON,
        schema="Features",
        permission="features",
        operations={"update": "UpdateFeatures"},
    ),
)
