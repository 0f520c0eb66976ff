"""What is charged by number: counters, their pricings and adjustments."""

from typing import Final

from meterlake.model.catalog.catalog import Product
from meterlake.model.catalog.counters import Counter, CounterAdjustment, CounterPricing
from meterlake.model.catalog.pricing import Plan, PlanTemplate
from meterlake.model.customers.accounts import Account
from meterlake.model.resources.resource import CODES, IDS, Filter, Resource
from meterlake.model.rules.catalog.bands import bands_rise, one_plan_or_template
from meterlake.model.rules.counters import (
    counter_in_product_scope,
    one_adjustment_per_day,
    one_counter_price_at_a_time,
)
from meterlake.model.rules.spans import ends_after_start

ROWS: Final = (
    Resource(
        name="counters",
        path="counters",
        entity=Counter,
        label_key=("product_id", "name"),
        refs={"product_id": Product},
        schema="Counter",
        permission="counter",
        event="configuration.counter",
        filters=(IDS, CODES, Filter("productId", several=True)),
        page_max=200,
    ),
    Resource(
        name="counterPricings",
        path="counterpricings",
        entity=CounterPricing,
        refs={
            "plan_id": Plan,
            "plan_template_id": PlanTemplate,
            "counter_id": Counter,
            "accounting_product_id": Product,
        },
        key=("plan_id", "plan_template_id", "counter_id", "start_date"),
        rules=(
            one_plan_or_template,
            bands_rise,
            ends_after_start,
            counter_in_product_scope,
            one_counter_price_at_a_time,
        ),
        schema="CounterPricing",
        permission="counterpricing",
        event="configuration.counterpricing",
        filters=(
            IDS,
            Filter("date", kind="date", active=("startDate", "endDate")),
            Filter("planId"),
            Filter("planTemplateId"),
        ),
        page_max=200,
    ),
    Resource(
        name="counterAdjustments",
        path="counteradjustments",
        entity=CounterAdjustment,
        refs={"counter_id": Counter, "account_id": Account},
        key=("account_id", "counter_id", "date"),
        rules=(one_adjustment_per_day,),
        schema="CounterAdjustment",
        permission="counteradjustment",
        event="billing.counteradjustment",
        filters=(
            Filter("counterId"),
            Filter("accountId"),
            Filter("date", kind="date", needs="accountId"),
            Filter("dateStart", field="date", op=">=", kind="date", needs="accountId"),
            Filter("dateEnd", field="date", op="<", kind="date", needs="accountId"),
            Filter("endDateStart", field="date", op=">=", kind="date"),
            Filter("endDateEnd", field="date", op="<", kind="date"),
        ),
    ),
)
