"""What is measured: products, meters, aggregations."""

from typing import Final

from meterlake.model.catalog import Aggregation, Meter, Product
from meterlake.model.resources.resource import CODES, IDS, Filter, Resource
from meterlake.model.rules.catalog import (
    aggregated_fields_stay,
    field_codes_differ,
    target_field_fits,
)
from meterlake.model.rules.custom_fields import custom_fields_known

ROWS: Final = (
    Resource(
        name="products",
        path="products",
        entity=Product,
        rules=(custom_fields_known,),
        schema="Product",
        permission="product",
        event="configuration.product",
        page_max=200,
    ),
    Resource(
        name="meters",
        path="meters",
        entity=Meter,
        refs={"product_id": Product},
        rules=(
            custom_fields_known,
            field_codes_differ,
            aggregated_fields_stay,
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
        refs={"meter_id": Meter, "accounting_product_id": Product},
        rules=(custom_fields_known, target_field_fits),
        schema="Aggregation",
        permission="aggregation",
        event="configuration.aggregation",
        filters=(IDS, CODES),
    ),
)
