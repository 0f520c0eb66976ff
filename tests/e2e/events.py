"""What follows from events in homes whose processes die on the way."""

from typing import Any

from meterlake.model.integrations import IntegrationConfig
from meterlake.model.notifications import NotificationConfiguration
from meterlake.pipeline.events.events import EventFilters, list_events
from meterlake.pipeline.events.reader import read_log
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.integrations.runs import RunFilters, page_of_runs
from tests.homes import ACCOUNTS, Home, configure

CREATED = "configuration.account.created"


def fill_events(home: Home) -> None:
    """Have accounts created that two notifications tell a webhook of, and one cannot be computed."""
    calculations = {"every": None, "acme": 'new.code == "acme-2"', "wrong": "1 / 0 > 1"}
    with home.stores.state.transaction(home.org_id, "ann") as transaction:
        for code, calculation in calculations.items():
            transaction.create(
                NotificationConfiguration(
                    name=code,
                    description=code,
                    code=code,
                    event_name=CREATED,
                    calculation=calculation,
                    always_fire_event=calculation is None,
                )
            )
        transaction.create(IntegrationConfig(entity_type="Notification", destination="Webhook"))
    more = [{**each, "code": f"{each['code']}-2"} for each in ACCOUNTS]
    configure(home.stores, home.org_id, accounts=more)


def notified(home: Home) -> dict[str, Any]:
    """Evaluate what happened."""
    stores, org_id = home.stores, home.org_id
    read_log(stores, org_id, systems={"WEBHOOK": ("Notification",)})
    return {
        "fired": listed(home, "Notification"),
        "errors": listed(home, "IntegrationEvent"),
        "runs": runs(home),
    }


def listed(home: Home, event_type: str) -> list[Any]:
    filters = EventFilters(event_type=event_type)
    found = list_events(home.stores, home.org_id, filters, Page(100))["data"]
    return sorted([each["eventName"], each.get("notificationCode"), each["id"]] for each in found)


def runs(home: Home) -> list[Any]:
    with home.stores.state.reading(home.org_id) as reader:
        found, _ = page_of_runs(reader.connection, home.org_id, RunFilters(), Page(100))
    return sorted([each.content.run_key, each.status.value] for each in found)
