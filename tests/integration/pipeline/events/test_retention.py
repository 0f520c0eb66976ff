"""Events are kept for some days, and longer where something needs them."""

from datetime import timedelta

from sqlalchemy import insert

from meterlake.model.resources.events import Event
from meterlake.pipeline.events.events import EventFilters, list_events
from meterlake.pipeline.maintenance.maintain import forget_events
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.events.event_tables import EVENT, EVENT_NOTIFICATION
from meterlake.stores.state.events.incidents import INCIDENT
from tests.integration.pipeline.events.test_reader import CREATED, ON_BOTH
from tests.integration.pipeline.events.test_reader import world as world  # noqa: PLC0414 - a fixture


def forget(world, days):
    world.clock.advance(days=days)
    return forget_events(world.organization)


def stored(world):
    with world.organization.reading() as reader:
        rows = reader.connection.execute(EVENT.select().where(EVENT.c.org == world.org_id))
        return {row.id for row in rows}


@ON_BOTH
def test_what_is_older_than_the_setting_goes_with_its_notifications(world):
    forget(world, 120)
    world.notification()
    world.account("acme")
    world.read()
    assert forget(world, 28) == 0
    world.account("bolt")
    world.read()
    world.clock.advance(seconds=1)

    assert forget_events(world.organization) == 2
    assert [e["m3terEvent"]["eventData"]["newDto"]["code"] for e in world.fired()] == ["bolt"]
    with world.organization.reading() as reader:
        assert len(reader.connection.execute(EVENT_NOTIFICATION.select()).all()) == 1
    assert forget_events(world.organization) == 0


def test_the_setting_says_how_many_days(world):
    world.account("acme")
    world.read()
    world.stores.settings = world.stores.settings.model_copy(update={"event_days": 2})
    world.clock.advance(days=2)
    assert len(world.listed(event_name=CREATED)) == 1
    world.clock.advance(seconds=1)

    assert world.listed(event_name=CREATED) == []
    assert forget_events(world.organization) > 0


def test_what_nobody_has_evaluated_stays_until_it_is(world):
    world.notification()
    account = world.account("acme")
    kept = stored(world)
    forget(world, 100)
    [event] = kept & stored(world)
    assert [e["id"] for e in world.listed(ids=())] == []

    world.read()
    [fired] = world.fired()
    assert fired["m3terEvent"]["baseEventId"] == event
    assert fired["m3terEvent"]["eventData"]["newDto"]["id"] == account.id
    forget_events(world.organization)
    assert event not in stored(world)
    assert len(world.fired()) == 1


def test_what_happened_long_ago_and_was_written_late_stays_as_long(world):
    late = Event("scheduled.bill.late", "Bill", None, {}, time=world.clock.time - timedelta(90))
    world.write(late)
    world.read()

    forget(world, 27)
    assert len(world.listed(event_name=late.name)) == 1
    forget(world, 2)
    assert world.listed(event_name=late.name) == []


@ON_BOTH
def test_the_event_of_an_open_incident_stays(world):
    world.write(Event("ingest.books.alert", "Incident", "lake", {}))
    world.read()
    [event] = world.listed(event_name="ingest.books.alert")
    row = {"org": world.org_id, "name": "ingest.books.alert", "subject": "lake"}
    with world.organization.transaction("U") as transaction:
        facts = {"event_id": event["id"], "since": world.clock.time}
        transaction.connection.execute(insert(INCIDENT), {**row, **facts})
    forget(world, 60)

    assert event["id"] in stored(world)


def test_a_page_goes_on_when_its_last_event_is_gone(world):
    accounts = [world.account(f"a{n}") for n in range(3)]
    world.read()
    filters = EventFilters(event_name=CREATED)
    first = list_events(world.organization, filters, Page(1))
    forget(world, 60)

    rest = list_events(world.organization, filters, Page(5, first["nextToken"]))
    assert (rest["data"], len(accounts)) == ([], 3)
