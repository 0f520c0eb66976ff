"""Where the console has the page of an entity, by its kind."""

from typing import Final

# By the names of `RESOURCES`; every room that has pages of a kind has a line here.
ADDRESSES: Final = {
    "accounts": "/console/customers",
    "exportDestinations": "/console/data-out/destinations",
    "exportSchedules": "/console/data-out/schedules",
    "webhooks": "/console/data-out/webhooks",
    "notificationConfigurations": "/console/data-out/notifications",
    "integrationConfigs": "/console/integrations",
    "permissionPolicies": "/console/access/policies",
    "serviceUsers": "/console/access/programs",
    **{
        kind: f"/console/catalogue/{kind}"
        for kind in (
            *("products", "meterGroups", "meters", "aggregations", "compoundAggregations"),
            *("planTemplates", "plans", "planGroups", "planGroupLinks", "pricings"),
            *("counters", "counterPricings", "lookupTables", "currencies", "transactionTypes"),
            *("creditReasons", "debitReasons", "billGroupingKeys", "statementDefinitions"),
        )
    },
}


def address_of(kind: str, id_: str) -> str:
    """The page of an entity; empty if the console has none.

    Args:
        kind: The name of its resource: `planTemplates`.
        id_: Its id.
    """
    return f"{ADDRESSES[kind]}/{id_}" if kind in ADDRESSES else ""
