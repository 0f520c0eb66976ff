"""What follows from events: notifications that go out, and the runs that hand them over."""

import json
from dataclasses import replace
from datetime import datetime

import pytest

from meterlake.model.configuration.integrations import (
    CredentialsType,
    IntegrationConfig,
    RunStatus,
    SignedRequestCredentials,
    WebhookDestination,
)
from meterlake.model.configuration.notifications import NotificationConfiguration
from meterlake.model.customers.accounts import Account
from meterlake.model.resources.events import Event
from meterlake.model.values import wire
from meterlake.model.values.ids import derived_id
from meterlake.pipeline.events import reader as event_reader
from meterlake.pipeline.events.events import EventFilters, list_events
from meterlake.pipeline.events.reader import read_log
from meterlake.settings import Settings
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events.log import entries_after, read_position
from meterlake.stores.state.integrations.runs import RunFilters, page_of_runs
from tests.databases import state_of
from tests.organizations import Clock, new_organization, open_new

CREATED = "configuration.account.created"
UPDATED = "configuration.account.updated"
SYSTEMS = {"WEBHOOK": ("Notification",), "BOOKS": ("Bill",)}


class World:
    """An organization, and short ways to have something happen in it."""

    def __init__(self, stores, org_id, clock):
        self.stores, self.org_id, self.clock = stores, org_id, clock
        self.read()

    @property
    def organization(self):
        return self.stores.organization(self.org_id)

    def read(self):
        return read_log(self.organization, systems=SYSTEMS)

    def create(self, *entities):
        with self.organization.transaction("USER_1") as transaction:
            found = [transaction.create(each) for each in entities]
        return found if len(found) > 1 else found[0]

    def change(self, record, **fields):
        entity = record.entity.model_copy(update=fields)
        with self.organization.transaction("USER_1") as transaction:
            return transaction.update(record.id, record.version, entity)

    def account(self, code, **fields):
        return self.create(Account(name=code, code=code, email_address="a@acme.example", **fields))

    def notification(self, code="n", event_name=CREATED, **fields):
        fields = {"always_fire_event": "calculation" not in fields, **fields}
        return self.create(
            NotificationConfiguration(
                name=code, description=code, code=code, event_name=event_name, **fields
            )
        )

    def webhook(self):
        secret = SignedRequestCredentials(
            type=CredentialsType.M3TER_SIGNED_REQUEST, api_key="k", secret="s" * 20
        )
        return self.create(
            WebhookDestination(
                name="w", description="w", url="https://example.com", credentials=secret
            )
        )

    def integration(self, **fields):
        return self.create(IntegrationConfig(**fields))

    def write(self, *made):
        with self.organization.transaction("USER_1") as transaction:
            for each in made:
                transaction.journal.add(each)

    def listed(self, **filters):
        filters = EventFilters(include_actioned=True, **filters)
        return list_events(self.organization, filters, Page(100))["data"]

    def fired(self, **filters):
        return self.listed(event_type="Notification", **filters)

    def runs(self):
        with self.organization.reading() as reader:
            found, _ = page_of_runs(reader.connection, self.org_id, RunFilters(), Page(100))
        return found


# What each database does in its own way: whatever lands passes on both.
ON_BOTH = pytest.mark.on_both


@pytest.fixture
def world(home_database, tmp_path):
    assert home_database
    clock, home = Clock(), tmp_path / "home"
    with open_new(Settings(home=home, _env_file=None, **state_of(home)), clock) as stores:
        yield World(stores, new_organization(stores.state), clock)


def test_an_event_without_notifications_is_read_and_nothing_follows(world):
    world.account("acme")

    assert world.read() == 1
    assert world.read() == 0
    assert world.fired() == []


def test_a_notification_is_an_event_that_names_it_and_its_base_event(world):
    rule = world.notification(calculation='new.code == "acme"')
    account, _ = world.account("acme"), world.account("bolt")
    world.read()

    [fired] = world.fired()
    [base] = [e for e in world.listed(account_id=account.id) if e["id"] != fired["id"]]
    assert fired["id"] == derived_id("notification", base["id"], rule.id)
    assert (fired["eventName"], fired["eventTime"]) == (CREATED, world.clock.time)
    assert (fired["notificationId"], fired["notificationCode"]) == (rule.id, "n")
    event = fired["m3terEvent"]
    assert (event["eventType"], event["baseEventId"]) == ("Notification", base["id"])
    assert event["eventData"]["notificationVersion"] == 1
    assert event["eventData"]["newDto"] == base["m3terEvent"]["eventData"]["newDto"]
    assert "notificationId" not in base
    assert {"eventType", "baseEventId"}.isdisjoint(base["m3terEvent"])


@ON_BOTH
def test_the_list_without_a_type_shows_it_beside_its_base_event_and_filters_find_it(world):
    rule = world.notification()
    world.notification("other", UPDATED)
    world.account("acme")
    world.read()
    [fired] = world.fired()

    assert len(world.listed(event_name=CREATED)) == 2
    for filters in (
        {"notification_id": rule.id},
        {"notification_code": "n"},
        {"notification_id": rule.id, "notification_code": "n", "event_name": CREATED},
    ):
        assert world.listed(**filters) == world.fired(**filters) == [fired]
    assert world.listed(notification_code="other") == []
    assert world.listed(notification_id=rule.id, notification_code="other") == []
    assert world.listed(event_type="DataExportJobFailure") == []


def test_what_follows_from_an_event_makes_no_notification_go_out(world):
    world.notification()
    world.notification("errors", "integration.perform.error")
    facts = Event("integration.perform.error", "Run", None, {"newDto": {}}, base_id="x")
    world.write(replace(facts, category="IntegrationEvent"))
    world.account("acme")

    assert [world.read() for _ in range(2)] == [3, 0]  # its own events are passed by
    assert len(world.fired()) == 1


def test_a_notification_looks_at_no_event_before_it(world):
    world.account("acme")
    world.clock.advance(seconds=1)
    world.notification()
    world.account("bolt")
    world.read()

    [fired] = world.fired()
    assert fired["m3terEvent"]["eventData"]["newDto"]["code"] == "bolt"


def test_an_inactive_notification_is_silent_until_it_is_active(world):
    rule = world.notification(active=False)
    world.account("acme")
    world.read()
    world.change(rule, active=True)
    world.read()
    assert world.fired() == []

    world.account("bolt")
    world.read()
    [fired] = world.fired()
    assert fired["m3terEvent"]["eventData"]["notificationVersion"] == 2


def test_of_what_much_follows_is_written_in_several_transactions(world, monkeypatch):
    """Five events and three notifications, with no more than four that go out before the last one."""
    for code in "abc":
        world.notification(code)
    world.integration(entity_type="Notification", destination="Webhook")
    world.read()
    for code in "12345":
        world.account(code)
    written = []
    write = event_reader.write_position

    def note(transaction, seq):
        written.append(len(world.fired()))
        write(transaction, seq)

    monkeypatch.setattr(event_reader, "_FOLLOWING_MAX", 4)
    monkeypatch.setattr(event_reader, "write_position", note)
    assert world.read() == 5 + 15

    # Another one reads what was committed before: two events at a time.
    assert written[:4] == [0, 6, 12, 15]
    assert len(world.fired()) == len(world.runs()) == 15
    assert len({(each["m3terEvent"]["baseEventId"], each["notificationCode"]) for each in
                world.fired()}) == 15  # fmt: skip
    assert world.read() == 0


@pytest.mark.happens("integration.validation.error")
def test_an_error_is_an_event_and_stops_nobody(world):
    bad = world.notification("bad", calculation="1 / (new.version - 1) > 0")
    good = world.notification("good")
    accounts = [world.account(code) for code in ("a", "b", "c")]
    world.read()
    world.read()

    assert len(world.listed(notification_id=good.id)) == 3
    assert world.listed(notification_id=bad.id) == []
    [error] = world.listed(event_type="IntegrationEvent")
    assert error["eventName"] == "integration.validation.error"
    facts = error["m3terEvent"]["eventData"]["newDto"]
    assert facts["notificationId"] == bad.id
    assert "'bad' has no answer for event" in facts["message"]
    assert "and of 2 more events: division by zero" in facts["message"]
    [base] = [
        e
        for e in world.listed(account_id=accounts[0].id)
        if e["eventName"] == CREATED and "notificationId" not in e
    ]
    assert error["m3terEvent"]["baseEventId"] == base["id"]


@ON_BOTH
def test_a_webhook_gets_what_a_client_reads(world):
    rule, other = world.notification(), world.notification("other")
    hook = world.webhook()
    shared = {"entity_type": "Notification", "destination": "Webhook", "destination_id": hook.id}
    one = world.integration(entity_id=rule.id, **shared)
    every = world.integration(**shared)
    world.integration(entity_id=rule.id, entity_type="Notification", destination="Pigeon")
    account = world.account("acme")
    world.read()

    runs = world.runs()
    by_config = {(run.content.config_id, run.content.entity_id): run for run in runs}
    assert by_config.keys() == {(one.id, rule.id), (every.id, rule.id), (every.id, other.id)}
    assert len(runs) == 3
    run = by_config[one.id, rule.id]
    [fired] = world.listed(notification_id=rule.id)
    content = run.content
    assert run.status is RunStatus.WAITING
    assert (content.entity_type, content.destination) == ("Notification", "WEBHOOK")
    assert (content.destination_id, content.account_id) == (hook.id, account.id)
    assert (content.event_id, content.rule_version, content.config_version) == (fired["id"], 1, 1)
    assert content.run_key == f"{one.id} {fired['id']}"
    body = json.loads(content.body)
    assert list(body) == ["type", "timestamp", "data"]
    del fired["dtActioned"]
    happened = fired["m3terEvent"]["eventData"]["baseEventTime"]
    assert body == json.loads(wire.dumps({"type": CREATED, "timestamp": happened, "data": fired}))


def test_a_receiver_is_told_when_something_happened_however_late_it_is_told(world):
    world.notification(event_name=CREATED)
    shared = {"entity_type": "Notification", "destination": "Webhook"}
    world.integration(**shared, destination_id=world.webhook().id)
    times = []
    for code in ("one", "two"):
        times.append(world.account(code).created)
        world.clock.advance(minutes=1)
    world.clock.advance(hours=5)
    world.read()

    told = [json.loads(run.content.body)["timestamp"] for run in world.runs()]
    assert sorted(map(datetime.fromisoformat, told)) == times


BILL = {"version": 3, "status": "PENDING"}
APPROVED = {"version": 4, "status": "APPROVED"}


def bill(name, new, old=None, account="acme"):
    data = {"newDto": new, "oldDto": old or {}}
    return Event(f"billing.bill.{name}", "Bill", "bill-1", data, account)


@ON_BOTH
def test_an_integration_of_bills_gets_each_version_once(world):
    config = world.integration(entity_type="Bill", destination="Books")
    world.integration(entity_type="Bill", destination="Webhook")  # takes no bills
    world.write(
        bill("created", BILL), bill("updated", BILL), bill("updated", APPROVED, BILL),
        bill("deleted", APPROVED),
    )  # fmt: skip
    world.read()

    runs = world.runs()
    assert {run.content.run_key for run in runs} == {
        f"{config.id} bill-1 3",
        f"{config.id} bill-1 4",
        # What was handed over is taken back.
        f"{config.id} bill-1 deleted",
    }
    assert len(runs) == 3
    assert {run.content.body for run in runs} == {None}
    assert {(r.content.entity_type, r.content.destination) for r in runs} == {("Bill", "BOOKS")}


@pytest.mark.parametrize(
    ("config_data", "events_made", "versions"),
    [
        ({"sendBillsOnApproval": True}, [bill("created", BILL)], []),
        ({"sendBillsOnApproval": True}, [bill("updated", APPROVED, BILL)], [4]),
        ({"sendBillsOnApproval": True}, [bill("updated", APPROVED, APPROVED)], []),
        ({"sendBillsOnApproval": False}, [bill("created", BILL)], [3]),
        ({"accountIds": ["bolt"]}, [bill("created", BILL)], []),
        ({"accountIds": ["bolt", "acme"]}, [bill("created", BILL)], [3]),
        ({"restrictedAccountIds": ["acme"]}, [bill("created", BILL)], []),
        ({"accountIds": [], "restrictedAccountIds": ["bolt"]}, [bill("created", BILL)], [3]),
    ],
)
def test_an_integration_of_bills_says_which(world, config_data, events_made, versions):
    world.integration(entity_type="Bill", destination="BOOKS", config_data=config_data)
    world.write(*events_made)
    world.read()

    assert [int(run.content.run_key.split()[-1]) for run in world.runs()] == versions


@ON_BOTH
def test_of_two_readers_one_does_a_batch(world, monkeypatch):
    world.notification()
    world.account("acme")
    counts = []

    def meanwhile(step):
        if step == "events.evaluated" and not counts:
            counts.append(None)
            counts.append(world.read())

    monkeypatch.setattr("meterlake.model.values.failpoint.hook", meanwhile)

    assert world.read() == 0
    assert counts == [None, 2]
    assert len(world.fired()) == 1


@ON_BOTH
def test_a_reader_that_fails_on_the_way_leaves_everything_for_the_next(world, monkeypatch):
    world.notification()
    world.account("acme")

    def fail(step):
        if step == "events.written":
            raise OSError(step)

    monkeypatch.setattr("meterlake.model.values.failpoint.hook", fail)
    with pytest.raises(OSError, match=r"events\.written"):
        world.read()
    monkeypatch.undo()

    assert world.fired() == []
    assert world.read() == 2
    assert len(world.fired()) == 1


@ON_BOTH
def test_batches_follow_each_other_to_the_end_of_the_log(world, monkeypatch):
    monkeypatch.setattr(event_reader, "_BATCH", 2)
    world.notification()
    for n in range(5):
        world.account(f"a{n}")

    assert world.read() == 5 + 5
    assert len(world.fired()) == 5
    with world.organization.reading() as reader:
        assert entries_after(reader, read_position(reader), 1) == []


def test_a_reader_that_is_to_stop_begins_nothing(world):
    world.account("acme")

    assert read_log(world.organization, stop=lambda: True) == 0
    assert world.read() == 1
