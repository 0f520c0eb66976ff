"""What is measured: products, meters, aggregations."""

from typing import Final

from meterlake.model.catalog.catalog import (
    Aggregation,
    CompoundAggregation,
    Meter,
    MeterGroup,
    Product,
)
from meterlake.model.catalog.lookups import LookupTable
from meterlake.model.resources.resource import CODES, IDS, Filter, Resource
from meterlake.model.rules.catalog.compound import (
    calculation_is_whole,
    compound_fits,
    compound_segments,
    compounds_keep_aggregation_fields,
    compounds_keep_product_fields,
)
from meterlake.model.rules.catalog.derived import calculations_fit, calculations_keep_product_fields
from meterlake.model.rules.catalog.meters import (
    aggregated_fields_stay,
    compounds_reach_aggregation,
    compounds_reach_meter,
    custom_sql_for_custom_sql,
    field_codes_differ,
    field_codes_keep_their_case,
    percentile_for_percentile,
    priced_segments_stay,
    referenced_code_stays,
    segmented_fields_fit,
    segments_fit,
    target_field_fits,
)
from meterlake.model.rules.contracts import filtered_dimensions_stay
from meterlake.model.rules.organization import custom_fields_known

ROWS: Final = (
    Resource(
        name="products",
        path="products",
        entity=Product,
        rules=(
            custom_fields_known,
            calculations_keep_product_fields,
            compounds_keep_product_fields,
        ),
        schema="Product",
        permission="product",
        event="configuration.product",
        page_max=200,
    ),
    Resource(
        name="meterGroups",
        path="metergroups",
        entity=MeterGroup,
        key=("name",),
        schema="MeterGroup",
        permission="metergroup",
        event="configuration.metergroup",
    ),
    Resource(
        name="meters",
        path="meters",
        entity=Meter,
        refs={"product_id": Product, "group_id": MeterGroup},
        codes={"lookup_tables": LookupTable},
        rules=(
            custom_fields_known,
            field_codes_differ,
            field_codes_keep_their_case,
            aggregated_fields_stay,
            filtered_dimensions_stay,
            compounds_reach_meter,
            calculations_fit,
        ),
        schema="Meter",
        permission="meter",
        event="configuration.meter",
        filters=(IDS, CODES, Filter("productId", several=True)),
    ),
    Resource(
        name="aggregations",
        path="aggregations",
        entity=Aggregation,
        label_key=("meter_id", "name"),
        refs={"meter_id": Meter, "accounting_product_id": Product},
        rules=(
            custom_fields_known,
            target_field_fits,
            custom_sql_for_custom_sql,
            percentile_for_percentile,
            segmented_fields_fit,
            segments_fit,
            compounds_reach_aggregation,
            priced_segments_stay,
            referenced_code_stays,
            compounds_keep_aggregation_fields,
        ),
        schema="Aggregation",
        permission="aggregation",
        event="configuration.aggregation",
        filters=(IDS, CODES, Filter("productId", several=True)),
    ),
    Resource(
        name="compoundAggregations",
        path="compoundaggregations",
        entity=CompoundAggregation,
        label_key=("product_id", "name"),
        refs={"product_id": Product, "accounting_product_id": Product},
        codes={"aggregation_codes": Aggregation},
        rules=(custom_fields_known, calculation_is_whole, compound_fits),
        computed=compound_segments,
        schema="CompoundAggregation",
        permission="compoundaggregation",
        event="configuration.compoundaggregation",
        filters=(IDS, CODES, Filter("productId", several=True)),
    ),
)
