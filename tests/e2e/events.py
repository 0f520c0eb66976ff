"""What follows from events in homes whose processes die on the way."""

from datetime import UTC, date, datetime
from typing import Any

from meterlake.model.configuration.integrations import IntegrationConfig
from meterlake.model.configuration.notifications import (
    NotificationConfiguration,
    ScheduledEventConfiguration,
)
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.contracts import Contract
from meterlake.pipeline.events.events import EventFilters, list_events
from meterlake.pipeline.events.reader import read_log
from meterlake.pipeline.events.scheduled import fire_scheduled
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.integrations.runs import RunFilters, page_of_runs
from tests.homes import ACCOUNTS, Home, configure

CREATED = "configuration.account.created"
ENDED = "scheduled.contract.ended"


def fill_events(home: Home) -> None:
    """Have accounts created that two notifications tell a webhook of, and one cannot be computed."""
    calculations = {"every": None, "acme": 'new.code == "acme-2"', "wrong": "1 / 0 > 1"}
    with home.organization.transaction("ann") as transaction:
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
        account = transaction.find(Account, "acme")
        assert account is not None
        for end in (1, 2, 3):
            transaction.create(
                Contract(
                    account_id=account.id,
                    name="c",
                    start_date=date(2026, 1, 1),
                    end_date=date(2026, 10, end),
                )
            )
        transaction.create(
            ScheduledEventConfiguration(name=ENDED, entity="Contract", field="endDate", offset=1)
        )
    more = [{**each, "code": f"{each['code']}-2"} for each in ACCOUNTS]
    configure(home.organization, accounts=more)


def notified(home: Home) -> dict[str, Any]:
    """Evaluate what happened."""
    organization = home.organization
    home.clock.time = datetime(2026, 10, 3, tzinfo=UTC)
    for _ in range(2):
        read_log(organization, systems={"WEBHOOK": ("Notification",)})
        fire_scheduled(organization)
    return {
        "fired": listed(home, "Notification"),
        "errors": listed(home, "IntegrationEvent"),
        "runs": runs(home),
        "ended": ended(home),
    }


def listed(home: Home, event_type: str) -> list[Any]:
    filters = EventFilters(event_type=event_type)
    found = list_events(home.organization, filters, Page(100))["data"]
    return sorted([each["eventName"], each.get("notificationCode"), each["id"]] for each in found)


def runs(home: Home) -> list[Any]:
    with home.organization.reading() as reader:
        found, _ = page_of_runs(reader.connection, home.org_id, RunFilters(), Page(100))
    return sorted([each.content.run_key, each.status.value] for each in found)


def ended(home: Home) -> list[str]:
    filters = EventFilters(event_name=ENDED)
    found = list_events(home.organization, filters, Page(100))["data"]
    return sorted(each["m3terEvent"]["eventData"]["newDto"]["endDate"] for each in found)
