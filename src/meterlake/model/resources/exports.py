"""Saved questions about usage, and exports with their destinations and schedules."""

from typing import Final

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.exports import ExportDestination, ExportSchedule
from meterlake.model.configuration.queries import UsageSavedQuery
from meterlake.model.customers.accounts import Account
from meterlake.model.resources.resource import Resource
from meterlake.model.rules.exports import destination_complete, runs_by_one_clock, source_complete
from meterlake.model.rules.queries import saved_query_fits


def _keep_unset(update: ExportSchedule, stored: ExportSchedule) -> frozenset[str]:
    same = update.source_type is stored.source_type
    return frozenset({"enabled", "focus"} if same else {"enabled"})


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
    Resource(
        name="exportDestinations",
        path="dataexports/destinations",
        entity=ExportDestination,
        rules=(destination_complete,),
        page_max=200,
        schema="ExportDestination",
        permission="exportdestination",
        feature="preview",
        operations={
            "create": "PostDestination",
            "list": "ListDestinations",
            "update": "PutDestination",
            "delete": "DeleteDestination",
        },
    ),
    Resource(
        name="exportSchedules",
        path="dataexports/schedules",
        entity=ExportSchedule,
        refs={
            "destination_ids": ExportDestination,
            "meter_ids": Meter,
            "account_ids": Account,
            "dimension_filters.meter_id": Meter,
            "aggregations.meter_id": Meter,
            "groups.meter_id": Meter,
        },
        rules=(source_complete, runs_by_one_clock),
        keep_unset=_keep_unset,
        schema="DataExportConfiguration",
        permission="exportschedule",
        feature="preview",
        operations={
            "create": "CreateSchedule",
            "retrieve": "GetSchedule",
            "list": "listSchedules",
            "update": "UpdateSchedule",
            "delete": "DeleteSchedule",
        },
    ),
)
