"""What usage costs: plan templates, plans and groups of them, pricings."""

from typing import Final

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Product
from meterlake.model.catalog.plan_groups import PlanGroup, PlanGroupLink
from meterlake.model.catalog.pricing import Plan, PlanTemplate, Pricing
from meterlake.model.configuration.organization import Currency
from meterlake.model.customers.accounts import Account
from meterlake.model.resources.resource import IDS, Filter, Resource
from meterlake.model.rules.catalog.bands import bands_rise, one_plan_or_template
from meterlake.model.rules.catalog.plan_groups import (
    bespoke_plan_in_its_group,
    group_in_use_overlaps_nothing,
    one_billing_period_in_group,
    one_plan_per_product_in_group,
)
from meterlake.model.rules.catalog.plans import bespoke_account_stays, plan_product
from meterlake.model.rules.catalog.pricing import (
    aggregation_in_product_scope,
    compound_in_product_scope,
    one_aggregation,
    one_price_at_a_time,
    overage_bands_fit,
    pricing_aggregation_type,
    segment_exists,
)
from meterlake.model.rules.custom_fields import custom_fields_known
from meterlake.model.rules.spans import ends_after_start

ROWS: Final = (
    Resource(
        name="planTemplates",
        path="plantemplates",
        entity=PlanTemplate,
        label_key=("product_id", "name"),
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
        filters=(IDS, Filter("accountId", several=True), Filter("productId")),
    ),
    Resource(
        name="planGroups",
        path="plangroups",
        entity=PlanGroup,
        label_key=("account_id", "name"),
        refs={
            "account_id": Account,
            "minimum_spend_accounting_product_id": Product,
            "standing_charge_accounting_product_id": Product,
        },
        codes={"currency": Currency},
        rules=(bespoke_account_stays,),
        schema="PlanGroup",
        permission="plangroup",
        event="configuration.plangroup",
        filters=(IDS, Filter("accountId", several=True)),
        page_max=200,
    ),
    Resource(
        name="planGroupLinks",
        path="plangrouplinks",
        entity=PlanGroupLink,
        refs={"plan_group_id": PlanGroup, "plan_id": Plan},
        key=("plan_group_id", "plan_id"),
        rules=(
            bespoke_plan_in_its_group,
            one_plan_per_product_in_group,
            one_billing_period_in_group,
            group_in_use_overlaps_nothing,
        ),
        schema="PlanGroupLink",
        permission="plangrouplink",
        event="configuration.plangrouplink",
        filters=(
            IDS,
            Filter("planGroup", field="planGroupId"),
            Filter("plan", field="planId"),
        ),
    ),
    Resource(
        name="pricings",
        path="pricings",
        entity=Pricing,
        refs={
            "plan_id": Plan,
            "plan_template_id": PlanTemplate,
            "aggregation_id": Aggregation,
            "compound_aggregation_id": CompoundAggregation,
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
            overage_bands_fit,
            ends_after_start,
            aggregation_in_product_scope,
            compound_in_product_scope,
            segment_exists,
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
        ),
    ),
)
