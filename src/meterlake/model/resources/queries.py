"""Saved questions about usage."""

from typing import Final

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.queries import UsageSavedQuery
from meterlake.model.customers.accounts import Account
from meterlake.model.resources.resource import Resource
from meterlake.model.rules.queries import saved_query_fits

ROWS: Final = (
    Resource(
        name="usageSavedQueries",
        path="usage/savedqueries",
        entity=UsageSavedQuery,
        refs={
            "usage_query.meter_ids": Meter,
            "usage_query.account_ids": Account,
            "usage_query.dimension_filters.meter_id": Meter,
            "usage_query.aggregations.meter_id": Meter,
            "usage_query.groups.meter_id": Meter,
        },
        key=("name",),
        rules=(saved_query_fits,),
        schema="UsageSavedQuery",
        permission="savedquery",
        operations={
            "create": "CreateUsageSavedQuery",
            "list": "ListUsageSavedQueries",
            "update": "UpdateUsageSavedQuery",
        },
    ),
)
