"""Every field that a caller may write is read somewhere, or it is told that nothing reads it."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import pytest

import meterlake
from meterlake.model.catalog.plans import BillingFrequency, PlanTemplate
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.contracts import Contract
from meterlake.model.customers.recurring_period import RECURRING
from meterlake.model.resources import RESOURCES
from meterlake.model.resources.unused import UNUSED, without_effect
from meterlake.model.values.entity import Value

SOURCE = Path(meterlake.__file__).parent
PAGE = Path(__file__).parents[4] / "docs" / "api.md"
# What declares fields, describes them or copies all of them reads none in particular.
DECLARING = (
    *("model/resources", "model/rules", "model/resources/unused.py"),
    *(
        "model/configuration/field_descriptions.py",
        "model/configuration/examples.py",
        "model/resources/event_fields.py",
        "stores/publish",
    ),
    *("stages/publish", "stages/export/exported_columns.py", "stages/reference"),
    *("api/openapi", "api/responses"),
)
# People read them: in answers, lists, exports and the published file.
FOR_PEOPLE = {
    *("name", "description", "code", "notes", "email_address", "address", "custom_fields"),
    *("ordinal", "minimum_spend_description", "empty", "bespoke", "id", "unit", "m3ter_user"),
    *(f"address_line{number}" for number in range(1, 5)),
    *("locality", "region", "post_code", "country"),
    *("m3ter_entity", "m3ter_id", "external_system", "external_table", "external_id"),
}
# Read where their class is not named: the module, in which the field is.
_BILLS, _CURRENCIES = "stages/bill/bills.py", "stages/bill/pricing/currencies.py"
_PLANS, _COMPOUND = "model/scopes/plan_fields.py", "model/scopes/compound.py"
_QUESTIONS, _QUERIES = "pipeline/explorer/usage_questions.py", "model/rules/queries.py"
_QUESTIONS = "pipeline/explorer/usage_questions.py"
READ_IN = {
    "DataExplorerAggregation.meter_id": _QUESTIONS,
    "DataExplorerAggregation.field_code": _QUESTIONS,
    "DataExplorerAggregation.function": _QUESTIONS,
    "BillGroupingKey.archived": "model/resources/organization.py",
    "Currency.archived": "model/resources/organization.py",
    "TransactionType.archived": "model/rules/balances.py",
    "CreditReason.archived": "model/rules/memos.py",
    "DebitReason.archived": "model/rules/memos.py",
    "OrganizationConfig.days_before_bill_due": "model/bills/billing_dates.py",
    "OrganizationConfig.external_invoice_date": _BILLS,
    "OrganizationConfig.suppressed_empty_bills": _BILLS,
    "OrganizationConfig.commitment_fee_bill_in_advance": "stages/bill/terms/bill_items.py",
    "OrganizationConfig.allow_overlapping_plans": "model/rules/accounts.py",
    "Commitment.commitment_fee_description": "stages/bill/charges/ad_hoc_charges.py",
    "Commitment.fees_accounting_product_id": "stages/bill/charges/ad_hoc_charges.py",
    "Charge.entity_type": "model/rules/balances.py",
    "PlanGroup.account_id": "model/rules/catalog/plans.py",
    "CurrencyConversion.from_": _CURRENCIES,
    "CurrencyConversion.to": _CURRENCIES,
    "CurrencyConversion.multiplier": _CURRENCIES,
    "CustomFields.account_plan": _PLANS,
    "CustomFields.plan": _PLANS,
    "CustomFields.plan_template": _PLANS,
    "CustomFields.contract": _PLANS,
    "CustomFields.aggregation": _COMPOUND,
    "CustomFields.compound_aggregation": _COMPOUND,
    "SignedRequestCredentials.api_key": "pipeline/integrations/connectors/webhook.py",
    "SignedRequestCredentials.secret": "pipeline/integrations/destinations.py",
    "Features.beta": "api/server/call.py",
    "Meter.group_id": "model/resources/catalog.py",
    "Aggregation.percentile": "stages/usage/aggregate/queries.py",
    "CompoundAggregation.accounting_product_id": "stages/bill/pricing/applicable_pricing.py",
    "Account.purchase_order_number": _BILLS,
    "Account.days_before_bill_due": "model/bills/billing_dates.py",
    "LookupTableRevisionState.item_count": "model/rules/lookups.py",
    "UsageQuery.start_date": _QUERIES,
    "UsageQuery.end_date": _QUERIES,
    "UsageQuery.limit": "pipeline/explorer/explore.py",
    "UsageQuery.time_period": "pipeline/explorer/explore.py",
    "DataExplorerDimensionFilter.meter_id": _QUESTIONS,
    "DataExplorerDimensionFilter.field_code": _QUESTIONS,
    "DataExplorerDimensionFilter.values": _QUESTIONS,
    "DataExplorerAggregation.field_type": _QUERIES,
    "ExportSchedule.meter_ids": _QUESTIONS,
    "ExportSchedule.account_ids": _QUESTIONS,
    "ExportSchedule.dimension_filters": _QUESTIONS,
    "ExportSchedule.aggregations": _QUESTIONS,
    "ExportSchedule.groups": _QUESTIONS,
    **{
        f"BalanceChargeSchedule.{name}": "model/customers/schedules.py"
        for name in ("bill_frequency", "bill_frequency_interval", "bill_in_advance", "bill_epoch")
    },
    "IntegrationCredentials.role_arn": "pipeline/integrations/connectors/marketplace.py",
    "StatementDefinition.include_price_per_unit": "stages/export/statement_document.py",
    "ExternalMapping.integration_config_id": "model/resources/integrations.py",
}
# Told with a field of the entity that they are in.
TOLD_WITH = {
    "PricingBand.credit_type_id": "pricing_bands",
}


# The contract has them, and they have one value each, or a meaning for clients alone.
FOR_CLIENTS = {f"SignedRequestCredentials.{name}" for name in ("type", "version", "destination")}


class Module(NamedTuple):
    """What the code of a module names."""

    attributes: frozenset[str]
    names: frozenset[str]
    texts: frozenset[str]

    def has(self, field: str) -> bool:
        return field in self.attributes or field in self.texts


@cache
def modules() -> dict[str, Module]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text())))
        imported = {a.name for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names}
        found[path.relative_to(SOURCE).as_posix()] = Module(
            frozenset(node.attr for node in nodes if isinstance(node, ast.Attribute)),
            frozenset({node.id for node in nodes if isinstance(node, ast.Name)} | imported),
            frozenset(str(node.value) for node in nodes if isinstance(node, ast.Constant)),
        )
    return found


def kinds() -> list[type[Value]]:
    """The classes of all that a caller may write."""
    found: dict[type[Value], None] = {}
    for row in RESOURCES:
        found |= {row.entity: None} | dict.fromkeys(_nested(row.entity))
    return list(found)


def _nested(kind: type[Value]) -> list[type[Value]]:
    own = [
        each
        for field in kind.model_fields.values()
        for each in _types(field.annotation)
        if isinstance(each, type) and issubclass(each, Value)
    ]
    return [*own, *(inner for each in own for inner in _nested(each))]


def _types(annotation: Any) -> list[Any]:
    return [annotation, *(inner for each in get_args(annotation) for inner in _types(each))]


def told(kind: type[Value]) -> set[str]:
    return {row.field for row in UNUSED.get(kind, ())}


def read_by_name(kind: type[Value], field: str) -> bool:
    """Whether a module that names the class reads an attribute of the field's name."""
    return any(
        field in module.attributes and kind.__name__ in module.names
        for path, module in modules().items()
        if not path.startswith(DECLARING)
    )


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_every_field_is_read_somewhere_or_told(kind):
    known = {*READ_IN, *TOLD_WITH, *FOR_CLIENTS}
    silent = [
        field
        for field in kind.model_fields
        if f"{kind.__name__}.{field}" not in known
        and field not in FOR_PEOPLE | told(kind)
        and not read_by_name(kind, field)
    ]
    assert silent == [], (
        "nothing reads them: tell so in model/resources/unused.py, or say where in READ_IN"
    )


@pytest.mark.parametrize("name", sorted(READ_IN))
def test_what_is_read_elsewhere_is_read_there(name):
    field = name.partition(".")[2]
    found = modules()[READ_IN[name]]
    aliases = {field, "".join(w.title() if n else w for n, w in enumerate(field.split("_")))}
    assert any(map(found.has, aliases)), f"{READ_IN[name]} does not name {field}"
    kind = next(each for each in kinds() if each.__name__ == name.partition(".")[0])
    assert field in kind.model_fields


def test_what_is_told_is_a_field_and_is_not_read():
    for kind, rows in UNUSED.items():
        for row in rows:
            assert row.field in kind.model_fields
    everything = {each.entity for each in RESOURCES}
    assert {*UNUSED} <= everything


CONTRACT = {
    "accountId": "2054cfc5-18df-47ce-926c-5817033073b4",
    "name": "Gold",
    "startDate": "2026-01-01",
    "endDate": "2027-01-01",
    "purchaseOrderNumber": "PO 1",
}


def test_what_is_off_or_works_is_not_told():
    document = {
        "daysBeforeBillDue": 14,
        "scheduledBillInterval": 24,
        "scheduledBillOffset": 0,
        "autoApproveBillsGracePeriod": 3,
        "autoApproveBillsGracePeriodUnit": "DAYS",
        "autoGenerateStatementMode": "JSON",
        "defaultStatementDefinitionId": "2054cfc5-18df-47ce-926c-5817033073b4",
        "creditApplicationOrder": [],
        "commitmentFeeBillInAdvance": False,
        "minimumSpendBillInAdvance": True,
        "allowOverlappingPlans": True,
        "suppressedEmptyBills": True,
    }
    assert list(without_effect(OrganizationConfig.from_wire(document))) == []


@pytest.mark.parametrize("frequency", [*BillingFrequency])
def test_a_frequency_without_billing_periods_is_told(frequency):
    document = {
        "name": "Gold",
        "productId": "2054cfc5-18df-47ce-926c-5817033073b4",
        "currency": "USD",
        "standingCharge": 1,
        "billFrequency": frequency.value,
    }
    found = list(without_effect(PlanTemplate.from_wire(document)))

    assert bool(found) == (frequency not in RECURRING)
    assert all(each.startswith("billFrequency is stored and has no effect") for each in found)


def test_the_page_of_the_api_shows_a_warning_as_it_is():
    shown = re.findall(r'`Warning: 299 meterlake "(.*)"`', PAGE.read_text())
    [sentence] = without_effect(Contract.from_wire(CONTRACT))
    assert sentence in shown
