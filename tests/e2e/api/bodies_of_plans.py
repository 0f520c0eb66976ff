"""What is measured, what it costs, and who pays: bodies of requests."""

from tests.e2e.api.row import Body, Row
from tests.e2e.api.world import (
    BANDS,
    CUSTOM,
    END,
    END_DAY,
    FIELDS,
    MIDDLE,
    RISING,
    START,
    START_DAY,
    World,
)

# A plan that was made for an account stays with it.
_ACCOUNT = frozenset({"account_id"})


def _accounting(world: World) -> Body:
    return {
        "minimum_spend": 10.5,
        "minimum_spend_description": "At least",
        "standing_charge_description": "For being there",
        "standing_charge_bill_in_advance": True,
        "minimum_spend_bill_in_advance": False,
        "minimum_spend_accounting_product_id": world.product,
        "standing_charge_accounting_product_id": world.product,
    }


def _contract_and_account(world: World) -> Body:
    return {"account_id": world.account, "contract_id": world.contract}


ROWS = (
    Row(
        "products",
        lambda w: {"name": "Storage", "code": w.code()},
        lambda _: {"custom_fields": CUSTOM},
        {"name": "Store"},
    ),
    Row(
        "meters",
        lambda w: {
            "name": "Egress",
            "code": w.code(),
            "data_fields": FIELDS[:1],
            "derived_fields": [],
        },
        lambda w: {
            "data_fields": FIELDS,
            "derived_fields": [
                {
                    "category": "MEASURE",
                    "code": "mb",
                    "name": "Sent",
                    "unit": "MB",
                    "calculation": "gb * 1000",
                }
            ],
            "product_id": w.product,
            "group_id": w.meter_group,
            "custom_fields": CUSTOM,
        },
        {"name": "Ingress"},
    ),
    Row(
        "aggregations",
        lambda w: {
            "name": "Sent",
            "meter_id": w.meter,
            "aggregation": "SUM",
            "target_field": "gb",
            "rounding": "UP",
            "quantity_per_unit": 0.5,
            "unit": "GB",
        },
        lambda w: {
            "code": w.code(),
            "accounting_product_id": w.product,
            "custom_fields": CUSTOM,
            "default_value": 0,
            "segmented_fields": ["region"],
            "segments": [{"region": "eu"}, {"region": "us"}],
        },
        {"rounding": "NEAREST"},
    ),
    Row(
        "compound_aggregations",
        lambda w: {
            "name": "Twice",
            "calculation": f"aggregation.{w.sdk.aggregations.retrieve(w.aggregation).code} * 2",
            "rounding": "NONE",
            "quantity_per_unit": 1,
            "unit": "GB",
        },
        lambda w: {
            "code": w.code(),
            "accounting_product_id": w.product,
            "product_id": w.product,
            "custom_fields": CUSTOM,
            "evaluate_null_aggregations": True,
        },
        {"unit": "TB"},
    ),
    Row(
        "plan_templates",
        lambda w: {
            "product_id": w.product,
            "name": "Monthly",
            "currency": "USD",
            "standing_charge": 0,
            "bill_frequency": "MONTHLY",
        },
        lambda w: {
            "code": w.code(),
            "custom_fields": CUSTOM,
            "standing_charge": 12.25,
            "standing_charge_description": "For being there",
            "standing_charge_interval": 3,
            "standing_charge_offset": 1,
            "bill_frequency_interval": 2,
            "ordinal": 7,
            "minimum_spend": 10.5,
            "minimum_spend_description": "At least",
            "standing_charge_bill_in_advance": True,
            "minimum_spend_bill_in_advance": False,
        },
        {"name": "Every month"},
    ),
    Row(
        "plans",
        lambda w: {"name": "Basic", "code": w.code(), "plan_template_id": w.template},
        lambda w: {
            **_accounting(w),
            "custom_fields": CUSTOM,
            "standing_charge": 5,
            "ordinal": 2,
            "bespoke": True,
            "account_id": w.account,
        },
        {"name": "Standard"},
        kept=_ACCOUNT,
    ),
    Row(
        "plan_groups",
        lambda _: {"name": "Bundle", "currency": "USD"},
        lambda w: {
            **_accounting(w),
            "code": w.code(),
            "custom_fields": CUSTOM,
            "standing_charge": 5,
            "account_id": w.account,
        },
        {"name": "Package"},
        kept=_ACCOUNT,
    ),
    Row(
        "plan_group_links",
        lambda w: {"plan_group_id": w.new_group(), "plan_id": w.plan},
        lambda _: {},
        {},
    ),
    Row(
        "pricings",
        lambda w: {
            "plan_id": w.new_plan(),
            "aggregation_id": w.aggregation,
            "start_date": START,
            "pricing_bands": BANDS,
        },
        lambda w: {
            "aggregation_id": w.segmented_aggregation,
            "code": w.code(),
            "cumulative": True,
            "tiers_span_plan": False,
            "end_date": END,
            "description": "Traffic",
            "accounting_product_id": w.product,
            "type": "PRODUCT_CREDIT",
            "segment": {"region": "eu"},
            "pricing_bands": RISING,
            "overage_pricing_bands": RISING,
            "minimum_spend": 1.5,
            "minimum_spend_description": "At least",
            "minimum_spend_bill_in_advance": True,
        },
        {"description": "Transfer"},
    ),
    Row(
        "pricings",
        lambda w: {
            "plan_template_id": w.new_template(w.product),
            "compound_aggregation_id": w.compound,
            "start_date": START,
            "pricing_bands": BANDS,
        },
        lambda _: {"end_date": MIDDLE},
        {"description": "Transfer"},
        other="template",
    ),
    Row(
        "counters",
        lambda _: {"name": "Seats", "unit": "seats"},
        lambda w: {"code": w.code(), "product_id": w.product},
        {"name": "Chairs"},
    ),
    Row(
        "counter_pricings",
        lambda w: {
            "counter_id": w.counter,
            "plan_id": w.new_plan(),
            "start_date": START,
            "pricing_bands": BANDS,
        },
        lambda w: {
            "code": w.code(),
            "cumulative": True,
            "end_date": END,
            "description": "Seats",
            "accounting_product_id": w.product,
            "running_total_bill_in_advance": False,
            "pro_rate_running_total": False,
            "pro_rate_adjustment_debit": False,
            "pro_rate_adjustment_credit": False,
            "pricing_bands": RISING,
        },
        {"description": "Chairs"},
    ),
    Row(
        "counter_adjustments",
        lambda w: {
            "account_id": w.account,
            "counter_id": w.counter,
            "date": START_DAY,
            "value": 5,
        },
        lambda _: {"purchase_order_number": "PO 1"},
        {"value": 6},
    ),
    Row(
        "accounts",
        lambda w: {"name": "Acme", "code": w.code(), "email_address": "bills@acme.example"},
        lambda w: {
            "custom_fields": CUSTOM,
            "address": {
                "address_line1": "1 High Street",
                "address_line2": "Floor 2",
                "address_line3": "Door 3",
                "address_line4": "Desk 4",
                "locality": "Bath",
                "region": "Somerset",
                "post_code": "BA1",
                "country": "UK",
            },
            "parent_account_id": w.account,
            "bill_epoch": START_DAY,
            "purchase_order_number": "PO 1",
            "currency": "USD",
            "statement_definition_id": w.statement_definition,
            "auto_generate_statement_mode": "JSON_AND_CSV",
            "credit_application_order": ["BALANCE", "PREPAYMENT"],
            "days_before_bill_due": 30,
        },
        {"name": "Acme Ltd"},
    ),
    Row(
        "contracts",
        lambda w: {
            "account_id": w.account,
            "name": "Yearly",
            "start_date": START_DAY,
            "end_date": END_DAY,
        },
        lambda w: {
            "code": w.code(),
            "custom_fields": CUSTOM,
            "description": "Signed",
            "purchase_order_number": "PO 1",
            "apply_contract_period_limits": True,
            "usage_filters": [{"dimension_code": "region", "mode": "INCLUDE", "value": "eu"}]
            if w.meter
            else [],
        },
        {"name": "Annual"},
    ),
    Row(
        "account_plans",
        lambda w: {"account_id": w.new_account(), "plan_id": w.plan, "start_date": START},
        lambda w: {
            **_contract_and_account(w),
            "code": w.code(),
            "custom_fields": CUSTOM,
            "end_date": END,
            "bill_epoch": START_DAY,
            "child_billing_mode": "CHILD",
        },
        {"end_date": MIDDLE},
    ),
    Row(
        "account_plans",
        lambda w: {
            "account_id": w.new_account(),
            "plan_group_id": w.new_group(w.plan),
            "start_date": START,
        },
        lambda _: {},
        {"end_date": MIDDLE},
        other="group",
    ),
    Row(
        "commitments",
        lambda w: {
            "account_id": w.account,
            "currency": "USD",
            "amount": 1000.5,
            "start_date": START_DAY,
            "end_date": END_DAY,
        },
        lambda w: {
            "contract_id": w.contract,
            "billing_plan_id": w.plan,
            "billing_interval": 2,
            "billing_offset": 1,
            "product_ids": [w.product],
            "amount_pre_paid": 100,
            "amount_first_bill": 50.25,
            "overage_surcharge_percent": 10,
            "separate_overage_usage": False,
            "commitment_fee_description": "Fee",
            "commitment_usage_description": "Used",
            "overage_description": "Over",
            "commitment_fee_bill_in_advance": True,
            "bill_epoch": START_DAY,
            "accounting_product_id": w.product,
            "fees_accounting_product_id": w.product,
            "drawdowns_accounting_product_id": w.product,
            "child_billing_mode": "PARENT_SUMMARY",
            "line_item_types": ["USAGE", "STANDING_CHARGE"],
        },
        {"amount": 2000},
    ),
    Row(
        "commitments",
        lambda w: {
            "account_id": w.account,
            "currency": "USD",
            "amount": 1000,
            "start_date": START_DAY,
            "end_date": END_DAY,
        },
        lambda _: {
            "fee_dates": [
                {
                    "date": START_DAY,
                    "amount": 500.5,
                    "service_period_start_date": START,
                    "service_period_end_date": MIDDLE,
                }
            ],
        },
        {"amount": 2000},
        other="fees",
    ),
)
