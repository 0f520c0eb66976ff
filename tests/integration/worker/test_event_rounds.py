"""The worker's rounds of events: what happened is evaluated, and dates fall due."""

from datetime import date

from meterlake.model.configuration.notifications import (
    NotificationConfiguration,
    ScheduledEventConfiguration,
)
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.contracts import Contract
from meterlake.pipeline.events.events import EventFilters, list_events
from meterlake.stores.state.core.pages import Page
from meterlake.worker.rounds import NOTIFICATIONS, SCHEDULED_EVENTS
from tests.homes import a_home
from tests.rounds import go_round

NAME = "scheduled.contract.ended"


def test_a_date_falls_due_and_a_notification_of_it_goes_out(tmp_path):
    with a_home(tmp_path) as home:
        organization = home.organization
        with organization.transaction("ann") as transaction:
            transaction.create(
                ScheduledEventConfiguration(name=NAME, entity="Contract", field="endDate", offset=0)
            )
            transaction.create(
                NotificationConfiguration(
                    name="n", description="n", code="n", event_name=NAME, always_fire_event=True
                )
            )
            account = transaction.find(Account, "acme")
            days = {"start_date": date(2026, 1, 1), "end_date": date(2026, 2, 1)}
            transaction.create(Contract(account_id=account.id, name="c", **days))

        def fired():
            filters = EventFilters(notification_code="n")
            return list_events(organization, filters, Page(10))["data"]

        def scheduled():
            return list_events(organization, EventFilters(event_name=NAME), Page(10))["data"]

        go_round(SCHEDULED_EVENTS, organization.stores, lambda: bool(scheduled()))
        go_round(NOTIFICATIONS, organization.stores, lambda: bool(fired()))

        assert [each["eventName"] for each in fired()] == [NAME]
