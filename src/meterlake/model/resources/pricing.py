"""What usage costs: plan templates, plans, pricings."""

from typing import Final

from meterlake.model.accounts import Account
from meterlake.model.catalog import Aggregation, Product
from meterlake.model.organization import Currency
from meterlake.model.pricing import Plan, PlanTemplate, Pricing
from meterlake.model.resources.resource import IDS, Filter, Resource
from meterlake.model.rules.custom_fields import custom_fields_known
from meterlake.model.rules.pricing import (
    aggregation_in_product_scope,
    bands_rise,
    bespoke_account_stays,
    one_aggregation,
    one_plan_or_template,
    one_price_at_a_time,
    plan_product,
    pricing_aggregation_type,
)
from meterlake.model.rules.spans import ends_after_start

ROWS: Final = (
    Resource(
        name="planTemplates",
        path="plantemplates",
        entity=PlanTemplate,
        refs={"product_id": Product},
        codes={"currency": Currency},
        rules=(custom_fields_known,),
        schema="PlanTemplate",
        permission="plantemplate",
        event="configuration.plantemplate",
        filters=(IDS, Filter("productId")),
    ),
    Resource(
        name="plans",
        path="plans",
        entity=Plan,
        refs={
            "plan_template_id": PlanTemplate,
            "account_id": Account,
            "minimum_spend_accounting_product_id": Product,
            "standing_charge_accounting_product_id": Product,
        },
        rules=(custom_fields_known, bespoke_account_stays),
        computed=plan_product,
        schema="Plan",
        permission="plan",
        event="configuration.plan",
        filters=(IDS, Filter("accountId", several=True)),
    ),
    Resource(
        name="pricings",
        path="pricings",
        entity=Pricing,
        refs={
            "plan_id": Plan,
            "plan_template_id": PlanTemplate,
            "aggregation_id": Aggregation,
            "accounting_product_id": Product,
        },
        key=(
            "plan_id",
            "plan_template_id",
            "aggregation_id",
            "compound_aggregation_id",
            "start_date",
            "segment",
        ),
        rules=(
            one_plan_or_template,
            one_aggregation,
            bands_rise,
            ends_after_start,
            aggregation_in_product_scope,
            one_price_at_a_time,
        ),
        computed=pricing_aggregation_type,
        schema="Pricing",
        permission="pricing",
        event="configuration.pricing",
        filters=(
            IDS,
            Filter("date", kind="date", active=("startDate", "endDate")),
            Filter("planId"),
            Filter("planTemplateId"),
            Filter("aggregationId"),
            Filter("compoundAggregationId"),
        ),
    ),
)
