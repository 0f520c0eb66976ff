"""The rooms of the console, as the navigation shows them."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Room:
    """One entry of the navigation.

    Attributes:
        title: What people read.
        path: Its first page.
        operation: The operation of the API without which the room has nothing to show.
        other: One with which it has something to show, too.
        below: Beginnings of addresses of its other pages.
    """

    title: str
    path: str
    operation: str
    below: tuple[str, ...] = ()
    other: str = ""

    def holds(self, path: str) -> bool:
        """Whether a page is one of the room's."""
        return path == self.path or path.startswith((f"{self.path}/", *self.below))


# In the order of a month's work; every room of `meterlake.console` has its line here.
ROOMS: Final = (
    Room("Month", "/console/months", "GetClosing"),
    Room("Bills", "/console/bills", "ListBills"),
    Room("Customers", "/console/customers", "ListAccounts", ("/console/search",)),
    Room("Data in", "/console/data-in", "GetMeasurementsStatus", ("/console/rejected",)),
    Room("Backfills", "/console/backfills", "ListBackfills"),
    Room("Catalogue", "/console/catalogue", "ListProducts"),
    Room("Usage", "/console/usage", "PostUsageDataQuery"),
    # Exports are in preview; webhooks are not.
    Room("Data out", "/console/data-out", "ListDestinations", other="ListWebhookIntegrations"),
    Room("Integrations", "/console/integrations", "GetIntegrationConfigs"),
    Room("Revenue", "/console/revenue", "GetRevenue"),
    Room("Runs", "/console/runs", "ListRuns"),
    Room("Settings", "/console/settings", "GetOrganizationConfig"),
    Room("Access", "/console/access/people", "ListOrgUsers", ("/console/access",)),
)
