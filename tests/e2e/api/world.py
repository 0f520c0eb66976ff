"""What the bodies of requests refer to: a product with its meter, a plan, an account and so on."""

from collections.abc import Iterator
from functools import cached_property
from itertools import count
from typing import Any

from m3ter import M3ter

START = "2026-01-01T00:00:00Z"
MIDDLE = "2026-07-01T00:00:00Z"
END = "2027-01-01T00:00:00Z"
START_DAY, END_DAY = START[:10], END[:10]
CUSTOM = {"tier": "gold", "weight": 2.5}
BANDS = [{"lower_limit": 0, "fixed_price": 0, "unit_price": 0.25}]
RISING = [
    {"lower_limit": 0, "fixed_price": 0, "unit_price": 0.25},
    {"lower_limit": 100, "fixed_price": 1.5, "unit_price": 0.125},
]
FIELDS = [
    {"category": "MEASURE", "code": "gb", "name": "Sent", "unit": "GB"},
    {"category": "COST", "code": "own", "name": "Our cost"},
    {"category": "WHERE", "code": "region", "name": "Region"},
    {"category": "WHO", "code": "user", "name": "Who"},
    {"category": "METADATA", "code": "key", "name": "Key"},
]
_KINDS_WITH_CUSTOM_FIELDS = (
    "organization",
    "account",
    "account_plan",
    "aggregation",
    "compound_aggregation",
    "contract",
    "meter",
    "plan",
    "plan_template",
    "product",
)


def bands(*lowers: Any) -> list[dict[str, Any]]:
    """Bands that begin at these limits."""
    return [{"lower_limit": lower, "fixed_price": 0, "unit_price": 1} for lower in lowers]


class World:
    """Makes what is asked for: `world.plan` is the id of a plan, `world.new_plan()` that of another."""

    def __init__(self, sdk: M3ter, first: int = 1) -> None:
        self.sdk = sdk
        self._numbers: Iterator[int] = count(first)

    def code(self) -> str:
        """A code that nothing has."""
        return f"c{next(self._numbers)}"

    def allow_custom_fields(self) -> None:
        """Let every kind of entity carry the fields of `CUSTOM`."""
        known = self.sdk.custom_fields.retrieve()
        fields: dict[str, Any] = dict.fromkeys(_KINDS_WITH_CUSTOM_FIELDS, CUSTOM)
        self.sdk.custom_fields.update(version=known.version or 0, **fields)

    def new_product(self) -> str:
        return self.sdk.products.create(name="Storage", code=self.code()).id

    def new_meter(self, **changes: Any) -> str:
        body = {"name": "Egress", "data_fields": FIELDS, "derived_fields": [], **changes}
        return self.sdk.meters.create(code=self.code(), **body).id

    def new_aggregation(self, meter_id: str, **changes: Any) -> str:
        body: dict[str, Any] = {
            "name": "Sent",
            "code": self.code(),
            "meter_id": meter_id,
            "aggregation": "SUM",
            "target_field": "gb",
            "rounding": "NONE",
            "quantity_per_unit": 1,
            "unit": "GB",
        }
        return self.sdk.aggregations.create(**{**body, **changes}).id

    def new_compound(self, calculation: str, **changes: Any) -> str:
        body: dict[str, Any] = {
            "name": "Twice",
            "code": self.code(),
            "calculation": calculation,
            "rounding": "NONE",
            "quantity_per_unit": 1,
            "unit": "GB",
        }
        return self.sdk.compound_aggregations.create(**{**body, **changes}).id

    def new_template(self, product_id: str) -> str:
        return self.sdk.plan_templates.create(
            product_id=product_id,
            name="Monthly",
            currency="USD",
            standing_charge=0,
            bill_frequency="MONTHLY",
        ).id

    def new_plan(self, template_id: str | None = None, **changes: Any) -> str:
        template = template_id or self.template
        body: dict[str, Any] = {"name": "Basic", "code": self.code(), **changes}
        return self.sdk.plans.create(plan_template_id=template, **body).id

    def new_plan_of_another_product(self, **changes: Any) -> str:
        return self.new_plan(self.new_template(self.new_product()), **changes)

    def new_group(self, *plan_ids: str, **changes: Any) -> str:
        body: dict[str, Any] = {"name": "Bundle", "currency": "USD", **changes}
        group = self.sdk.plan_groups.create(**body).id
        for plan_id in plan_ids:
            self.sdk.plan_group_links.create(plan_group_id=group, plan_id=plan_id)
        return group

    def new_account(self, **changes: Any) -> str:
        code = self.code()
        body: dict[str, Any] = {"name": "Acme", "email_address": f"bills@{code}.example"}
        return self.sdk.accounts.create(code=code, **{**body, **changes}).id

    def put_on(self, account_id: str, **body: Any) -> str:
        """Put an account on a plan or plan group."""
        body = {"start_date": START, **body}
        return self.sdk.account_plans.create(account_id=account_id, **body).id

    def new_contract(self, account_id: str) -> str:
        return self.sdk.contracts.create(
            account_id=account_id, name="Yearly", start_date=START_DAY, end_date=END_DAY
        ).id

    def new_balance(self, account_id: str, **changes: Any) -> str:
        body: dict[str, Any] = {
            "name": "Prepaid",
            "currency": "USD",
            "start_date": START,
            "end_date": END,
        }
        return self.sdk.balances.create(
            account_id=account_id, code=self.code(), **{**body, **changes}
        ).id

    def new_counter(self, **changes: Any) -> str:
        return self.sdk.counters.create(name="Seats", unit="seats", **changes).id

    def new_revision(self, table_id: str) -> str:
        return self.sdk.lookup_tables.lookup_table_revisions.create(
            lookup_table_id=table_id,
            name=self.code(),
            fields=[{"type": "STRING", "name": "region"}, {"type": "NUMBER", "name": "factor"}],
            keys=["region"],
        ).id

    def new_table(self) -> str:
        return self.sdk.lookup_tables.create(name="Factors", code=self.code()).id

    @cached_property
    def product(self) -> str:
        return self.new_product()

    @cached_property
    def meter(self) -> str:
        return self.new_meter(product_id=self.product)

    @cached_property
    def global_meter(self) -> str:
        return self.new_meter()

    @cached_property
    def aggregation(self) -> str:
        return self.new_aggregation(self.meter)

    @cached_property
    def segmented_aggregation(self) -> str:
        return self.new_aggregation(
            self.meter, segmented_fields=["region"], segments=[{"region": "eu"}, {"region": "us"}]
        )

    @cached_property
    def compound(self) -> str:
        code = self.sdk.aggregations.retrieve(self.aggregation).code
        return self.new_compound(f"aggregation.{code} * 2", product_id=self.product)

    @cached_property
    def template(self) -> str:
        return self.new_template(self.product)

    @cached_property
    def plan(self) -> str:
        return self.new_plan()

    @cached_property
    def account(self) -> str:
        return self.new_account()

    @cached_property
    def contract(self) -> str:
        return self.new_contract(self.account)

    @cached_property
    def balance(self) -> str:
        return self.new_balance(self.account)

    @cached_property
    def counter(self) -> str:
        return self.new_counter(product_id=self.product)

    @cached_property
    def transaction_type(self) -> str:
        return self.sdk.transaction_types.create(name="Top-up", code=self.code()).id

    @cached_property
    def statement_definition(self) -> str:
        made = self.sdk.statements.statement_definitions.create(aggregation_frequency="DAY")
        return made.id

    @cached_property
    def destination(self) -> str:
        return self.sdk.data_exports.destinations.create(
            bucket_name="bucket",
            iam_role_arn="arn:aws:iam::123456789012:role/export",
            extra_body={"name": "Bucket", "code": self.code()},
        ).id

    @cached_property
    def notification(self) -> str:
        return self.sdk.notification_configurations.create(
            name="Due", code=self.code(), description="d", event_name="billing.bill.created"
        ).id

    @cached_property
    def webhook(self) -> str:
        return self.sdk.webhooks.create(
            name="Hook",
            code=self.code(),
            description="Tells",
            url="https://hooks.example.com/in",
            credentials={"type": "M3TER_SIGNED_REQUEST", "api_key": "key", "secret": "secret"},
        ).id

    @cached_property
    def integration(self) -> str:
        return self.sdk.integration_configurations.create(
            entity_type="Notification", destination="WEBHOOK", destination_id=self.webhook
        ).id

    @cached_property
    def meter_group(self) -> str:
        # The SDK has no methods for these.
        path = f"/organizations/{self.sdk.org_id}/metergroups"
        return str(self.sdk.post(path, body={"name": "Meters"}, cast_to=dict[str, object])["id"])

    @cached_property
    def table(self) -> str:
        return self.new_table()
