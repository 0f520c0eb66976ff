"""Two workers of one home: what follows from events does so once, and every delivery arrives."""

import time
from collections import Counter
from contextlib import ExitStack

import pytest
from sqlalchemy import func, select

from meterlake.model.configuration.integrations import IntegrationConfig, RunStatus
from meterlake.model.configuration.notifications import NotificationConfiguration
from meterlake.model.customers.accounts import Account
from meterlake.model.resources.events import NOTIFICATION
from meterlake.stores.state.events.event_tables import EVENT, EVENT_NOTIFICATION
from meterlake.stores.state.integrations.run_tables import INTEGRATION_RUN
from tests.deliveries import new_webhook
from tests.doubles.receivers import running_receiver
from tests.e2e.worker_processes import AheadClock, worker_process
from tests.homes import new_home, open_home

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("home_database")]

CREATED = "configuration.account.created"
EVENTS, RULES, DESTINATIONS, BATCH = 500, 20, 4, 10
WAIT_S = 300


def configure_rules(home, receiver):
    """Rules that all go out, each to one of the destinations; their ids."""
    hooks = [
        new_webhook(home.organization, receiver.url(f"/hook{number}"))
        for number in range(DESTINATIONS)
    ]
    ids = []
    with home.organization.transaction("ann") as transaction:
        for number in range(RULES):
            calculation = f'new.code != "code-{number}"'
            facts = {"name": "n", "description": "n", "code": f"n{number}"}
            rule = transaction.create(
                NotificationConfiguration(**facts, event_name=CREATED, calculation=calculation)
            )
            transaction.create(
                IntegrationConfig(
                    entity_type="Notification",
                    entity_id=rule.id,
                    destination="Webhook",
                    destination_id=hooks[number % DESTINATIONS]["id"],
                )
            )
            ids.append(rule.id)
    return ids


def create_accounts(home):
    """Write events piece by piece, so that both workers find some again and again."""
    ids = []
    for start in range(0, EVENTS, BATCH):
        with home.organization.transaction("ann") as transaction:
            for number in range(start, start + BATCH):
                address = f"{number}@example.com"
                account = Account(code=f"a{number}", name="A", email_address=address)
                ids.append(transaction.create(account).id)
        time.sleep(0.1)
    return ids


def derived_events(home):
    """How many events each notification has of each account."""
    query = select(EVENT.c.resource_id, EVENT_NOTIFICATION.c.notification_id)
    query = query.join(EVENT_NOTIFICATION, EVENT_NOTIFICATION.c.event_id == EVENT.c.id)
    query = query.where(EVENT.c.org == home.org_id, EVENT.c.category == NOTIFICATION)
    with home.organization.reading() as reader:
        return Counter(tuple(row) for row in reader.connection.execute(query))


def runs_of_home(home):
    """The runs by id: the notification, the event and the status of each."""
    columns = INTEGRATION_RUN.c
    query = select(columns.id, columns.entity_id, columns.event_id, columns.status)
    with home.organization.reading() as reader:
        return {row.id: row[1:] for row in reader.connection.execute(query)}


def count_complete(home):
    query = select(func.count()).where(INTEGRATION_RUN.c.status == RunStatus.COMPLETE.value)
    with home.organization.reading() as reader:
        return reader.connection.execute(query).scalar()


def test_two_workers_do_everything_once_and_each_delivery_arrives(tmp_path):
    path = tmp_path / "home"
    org_id = new_home(path)
    with (
        running_receiver() as receiver,
        open_home(path, org_id, AheadClock(), webhook_allow=("127.0.0.1",)) as home,
    ):
        receiver.answers = {f"/hook{number}": 204 for number in range(DESTINATIONS)}
        rules = configure_rules(home, receiver)
        with ExitStack() as workers:
            for _ in range(2):
                workers.enter_context(worker_process(home.stores.settings))
            accounts = create_accounts(home)
            give_up = time.monotonic() + WAIT_S
            while count_complete(home) < EVENTS * RULES:
                assert time.monotonic() < give_up, count_complete(home)
                time.sleep(0.5)

        pairs = {(account, rule) for account in accounts for rule in rules}
        assert derived_events(home) == dict.fromkeys(pairs, 1)
        runs = runs_of_home(home)
        assert len(runs) == EVENTS * RULES
        events = Counter(event for _, event, _ in runs.values())
        assert (len(events), set(events.values())) == (EVENTS * RULES, {1})
        assert {status for *_, status in runs.values()} == {RunStatus.COMPLETE.value}
        arrived = Counter(each.id for each in receiver.received)
        assert arrived.keys() == runs.keys()
        # Nobody died, so nothing had to come twice.
        assert set(arrived.values()) == {1}
        for number in range(DESTINATIONS):
            assert len(receiver.of(f"/hook{number}")) == EVENTS * RULES // DESTINATIONS
