"""Balances, picklists, tables, exports, integrations and access: bodies of requests."""

from tests.e2e.api.row import Row
from tests.e2e.api.world import CUSTOM, END, END_DAY, START, START_DAY

_AFTER_END = "2027-06-01T00:00:00Z"
STATEMENT = [{"effect": "ALLOW", "action": ["CONFIG_RETRIEVE"], "resource": ["config:meter/*"]}]
_REVISION_FIELDS = [
    {"type": "STRING", "name": "region"},
    {"type": "NUMBER", "name": "factor"},
]


def _picklist(api: str) -> Row:
    return Row(
        api,
        lambda _: {"name": "Goodwill"},
        lambda w: {"code": w.code(), "archived": True},
        {"name": "Error"},
    )


ROWS = (
    Row(
        "balances",
        lambda w: {
            "account_id": w.account,
            "code": w.code(),
            "name": "Prepaid",
            "currency": "USD",
            "start_date": START,
            "end_date": END,
        },
        lambda w: {
            "contract_id": w.contract,
            "custom_fields": CUSTOM,
            "description": "Paid ahead",
            "rollover_amount": 10.5,
            "rollover_end_date": _AFTER_END,
            "balance_draw_down_description": "Drawn",
            "overage_surcharge_percent": 5,
            "overage_description": "Over",
            "product_ids": [w.product],
            "line_item_types": ["USAGE", "AD_HOC"],
            "consumptions_accounting_product_id": w.product,
            "fees_accounting_product_id": w.product,
            "allow_overdraft": True,
        },
        {"name": "Credit"},
    ),
    Row(
        "balances.charge_schedules",
        lambda w: {
            "name": "Fee",
            "code": w.code(),
            "currency": "USD",
            "service_period_start_date": START,
            "service_period_end_date": END,
            "bill_frequency": "MONTHLY",
            "bill_frequency_interval": 1,
            "bill_in_advance": False,
            "charge_description": "Monthly fee",
            "units": 2,
            "unit_price": 1.25,
        },
        lambda _: {"custom_fields": CUSTOM, "bill_epoch": START_DAY},
        {"name": "Fees"},
        lambda w: {"balance_id": w.balance},
    ),
    Row(
        "balances.transaction_schedules",
        lambda w: {
            "name": "Top-up",
            "code": w.code(),
            "amount": 10.5,
            "transaction_description": "Monthly",
            "transaction_type_id": w.transaction_type,
            "start_date": START,
            "end_date": END,
            "frequency": "MONTHLY",
            "frequency_interval": 1,
        },
        lambda _: {"custom_fields": CUSTOM, "paid": 9.5, "currency_paid": "USD"},
        {"name": "Refill"},
        lambda w: {"balance_id": w.balance},
    ),
    Row(
        "charges",
        lambda w: {
            "account_id": w.account,
            "name": "Setup",
            "code": w.code(),
            "currency": "USD",
            "entity_type": "AD_HOC",
            "line_item_type": "AD_HOC",
            "service_period_start_date": START,
            "service_period_end_date": START,
            "amount": -10.5,
        },
        lambda w: {
            "contract_id": w.contract,
            "bill_date": END_DAY,
            "description": "Once",
            "notes": "Agreed",
            "accounting_product_id": w.product,
            "entity_type": "BALANCE",
            "line_item_type": "BALANCE_FEE",
            "entity_id": w.balance,
        },
        {"name": "Set-up"},
    ),
    _picklist("credit_reasons"),
    _picklist("debit_reasons"),
    _picklist("transaction_types"),
    Row(
        "currencies",
        lambda _: {"name": "Euro"},
        lambda w: {
            "code": w.code(),
            "archived": True,
            "max_decimal_places": 4,
            "rounding_mode": "HALF_EVEN",
        },
        {"name": "The euro"},
    ),
    Row(
        "statements.statement_definitions",
        lambda _: {"aggregation_frequency": "DAY"},
        lambda w: {
            "name": "Daily",
            "include_price_per_unit": True,
            "generate_slim_statements": True,
            "dimensions": [
                {
                    "name": "region",
                    "filter": ["*"],
                    "meter_id": w.meter,
                    "attributes": ["name"],
                }
            ],
            "measures": [{"meter_id": w.meter, "name": "gb", "aggregations": ["SUM", "MAX"]}],
        },
        {"aggregation_frequency": "WHOLE_PERIOD"},
    ),
    Row(
        "lookup_tables",
        lambda w: {"name": "Factors", "code": w.code()},
        lambda _: {"custom_fields": CUSTOM},
        {"name": "Weights"},
    ),
    Row(
        "lookup_tables.lookup_table_revisions",
        lambda w: {"name": w.code(), "fields": _REVISION_FIELDS, "keys": ["region"]},
        lambda _: {"start_date": START, "custom_fields": CUSTOM},
        {"name": "Second"},
        lambda w: {"lookup_table_id": w.table},
    ),
    Row(
        "data_exports.destinations",
        lambda w: {
            "bucket_name": "bucket",
            "iam_role_arn": "arn:aws:iam::123456789012:role/export",
            "extra_body": {"name": "Bucket", "code": w.code()},
        },
        lambda _: {"destination_type": "S3", "prefix": "in", "partition_order": "TYPE_FIRST"},
        {"bucket_name": "bucket2"},
        other="S3",
    ),
    Row(
        "data_exports.destinations",
        lambda w: {
            "bucket_name": "bucket",
            "project_number": "1",
            "pool_id": "pool",
            "provider_id": "provider",
            "extra_body": {"name": "Bucket", "code": w.code()},
        },
        lambda _: {
            "destination_type": "GCS",
            "prefix": "in",
            "partition_order": "TYPE_FIRST",
            "service_account_email": "export@project.example",
        },
        {"bucket_name": "bucket2"},
        other="GCS",
    ),
    Row(
        "data_exports.schedules",
        lambda w: {
            "source_type": "OPERATIONAL",
            "operational_data_types": ["BILLS", "ACCOUNTS"],
            "extra_body": {
                "name": "Nightly",
                "code": w.code(),
                "destinationIds": [w.destination],
                "scheduleType": "DAY",
                "period": 1,
                "offset": 3,
                "exportFileFormat": "JSONL",
            },
        },
        lambda _: {},
        {"operational_data_types": ["METERS"]},
        other="operational",
    ),
    Row(
        "data_exports.schedules",
        lambda w: {
            "source_type": "USAGE",
            "time_period": "YESTERDAY",
            "extra_body": {
                "name": "Usage",
                "code": w.code(),
                "cronExpression": "0 3 * * *",
            },
        },
        lambda w: {
            "meter_ids": [w.meter],
            "account_ids": [w.account],
            "dimension_filters": [{"meter_id": w.meter, "field_code": "region", "values": ["eu"]}],
            "aggregations": [
                {
                    "meter_id": w.meter,
                    "field_code": "gb",
                    "field_type": "MEASURE",
                    "function": "SUM",
                }
            ],
            "groups": [{"group_type": "ACCOUNT"}],
        },
        {"time_period": "TODAY"},
        other="usage",
    ),
    Row(
        "notification_configurations",
        lambda w: {
            "name": "Overdue",
            "code": w.code(),
            "description": "Tells",
            "event_name": "configuration.commitment.updated",
        },
        lambda _: {
            "active": False,
            "always_fire_event": True,
            "calculation": "new.amountSpent >= new.amount",
        },
        {"name": "Late"},
    ),
    Row(
        "scheduled_event_configurations",
        lambda w: {
            "name": f"scheduled.contract.{w.code()}",
            "entity": "Contract",
            "field": "endDate",
            "offset": -5,
        },
        lambda _: {},
        {"offset": 5},
    ),
    Row(
        "webhooks",
        lambda _: {
            "name": "Hook",
            "description": "Tells",
            "url": "https://hooks.example.com/in",
            "credentials": {
                "type": "M3TER_SIGNED_REQUEST",
                "api_key": "key",
                "secret": "secret",
            },
        },
        lambda w: {"active": False, "code": w.code()},
        {"url": "https://hooks.example.com/out"},
        hidden=frozenset({"credentials"}),
    ),
    Row(
        "integration_configurations",
        lambda w: {
            "entity_type": "Notification",
            "destination": "WEBHOOK",
            "destination_id": w.webhook,
        },
        lambda w: {
            "entity_id": w.notification,
            "name": "Tell",
            "config_data": {"usersToNotify": []},
            "integration_credentials_id": "one",
            "credentials": {"type": "M3TER_SIGNED_REQUEST", "name": "Signed"},
        },
        {"name": "Others"},
        hidden=frozenset({"credentials", "integration_credentials_id"}),
    ),
    Row(
        "external_mappings",
        lambda w: {
            "external_id": w.code(),
            "external_system": "CRM",
            "external_table": "Accounts",
            "m3ter_entity": "Account",
            "m3ter_id": w.account,
        },
        lambda w: {"integration_config_id": w.integration},
        {"external_table": "Customers"},
    ),
    Row(
        "permission_policies",
        lambda w: {"name": w.code(), "permission_policy": STATEMENT},
        lambda _: {},
        {"name": "Meters"},
    ),
    Row(
        "resource_groups",
        lambda w: {"name": w.code()},
        lambda _: {},
        {"name": "Others"},
        lambda _: {"type": "meter"},
    ),
)
