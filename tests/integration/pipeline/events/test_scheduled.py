"""Scheduled events: each moment once, whatever happens between."""

from datetime import UTC, date, datetime, timedelta

import pytest

from meterlake.model.configuration.notifications import ScheduledEventConfiguration
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.contracts import Contract
from meterlake.pipeline.events import scheduled
from meterlake.pipeline.events.scheduled import fire_scheduled
from meterlake.stores.state.events.moments import due_moments
from tests.integration.pipeline.events.test_reader import ON_BOTH, World
from tests.integration.pipeline.events.test_reader import world as world  # noqa: PLC0414 - a fixture

NAME = "scheduled.contract.reminder"
DAY = timedelta(days=1)


@pytest.fixture
def account(world):
    return world.account("acme")


def configuration(world, offset=5, field="endDate", name=NAME):
    return world.create(
        ScheduledEventConfiguration(name=name, entity="Contract", field=field, offset=offset)
    )


def contract(world, account, end="2026-10-10", code="c"):
    return world.create(
        Contract(
            account_id=account.id,
            name=code,
            code=code,
            start_date=date(2026, 1, 1),
            end_date=date.fromisoformat(end),
        )
    )


def delete(world, record):
    with world.organization.transaction("USER_1") as transaction:
        transaction.delete(type(record.entity), record.id)


def go_on(world):
    """What the worker does in a second."""
    world.read()
    fired = fire_scheduled(world.organization)
    world.read()
    return fired


def at(world, text):
    world.clock.time = datetime.fromisoformat(text).replace(tzinfo=UTC)
    return go_on(world)


def times(world: World, name=NAME):
    return [each["eventTime"].isoformat()[:16] for each in world.listed(event_name=name)]


@ON_BOTH
def test_it_happens_once_when_its_moment_comes(world, account):
    configuration(world)
    made = contract(world, account)

    assert [at(world, f"2026-10-{day}") for day in ("14T23:59:59", "15T00:00:00", "16T00:00:00")] == [0, 1, 0]  # fmt: skip
    [event] = world.listed(event_name=NAME)
    assert event["eventTime"] == datetime(2026, 10, 15, tzinfo=UTC)
    document = event["m3terEvent"]["eventData"]
    assert list(document) == ["newDto"]
    assert document["newDto"]["id"] == made.id
    assert document["newDto"]["endDate"] == "2026-10-10"
    assert document["newDto"]["accountCode"] == "acme"
    assert world.listed(event_name=NAME, account_id=account.id, resource_id=made.id) == [event]


def test_what_was_there_before_its_configuration_happens_too(world, account, monkeypatch):
    monkeypatch.setattr(scheduled, "_PAGE", 2)
    for n in range(5):
        contract(world, account, f"2026-10-{10 + n}", f"c{n}")
    go_on(world)
    configuration(world)

    assert go_on(world) == 0
    assert at(world, "2026-10-17") == 3
    assert at(world, "2026-10-30") == 2
    assert times(world) == [f"2026-10-{day}T00:00" for day in (19, 18, 17, 16, 15)]


def test_after_a_pause_it_is_late_and_not_lost(world, account):
    configuration(world)
    contract(world, account)
    at(world, "2026-12-24")

    assert times(world) == ["2026-10-15T00:00"]


@pytest.mark.parametrize("first", ["configuration", "contract"])
def test_a_moment_that_is_past_when_it_is_saved_happens_once_with_its_time(world, account, first):
    makers = [lambda: configuration(world), lambda: contract(world, account, "2020-02-01")]
    for make in makers if first == "configuration" else makers[::-1]:
        make()
        go_on(world)

    assert times(world) == ["2020-02-06T00:00"]
    assert go_on(world) == 0


@ON_BOTH
def test_a_date_that_moves_takes_its_moment_with_it(world, account):
    configuration(world)
    made = contract(world, account)
    go_on(world)
    made = world.change(made, end_date=date(2026, 11, 10))

    assert at(world, "2026-10-20") == 0
    assert at(world, "2026-11-15") == 1
    # Again later, and back to where it has happened: once there, too.
    made = world.change(made, end_date=date(2026, 11, 20))
    assert go_on(world) == 0
    world.change(made, end_date=date(2026, 11, 10))
    assert at(world, "2026-12-01") == 0
    assert times(world) == ["2026-11-15T00:00"]


def test_a_date_that_moved_unread_is_read_again_when_its_moment_comes(world, account):
    configuration(world)
    made = contract(world, account)
    go_on(world)
    world.change(made, end_date=date(2026, 11, 10))
    world.clock.advance(days=20)

    assert fire_scheduled(world.organization) == 0
    assert at(world, "2026-11-15") == 1


@ON_BOTH
def test_what_is_deleted_has_no_event(world, account):
    configuration(world)
    read, unread = contract(world, account), contract(world, account, code="d")
    go_on(world)
    delete(world, read)
    go_on(world)
    delete(world, unread)
    world.clock.advance(days=20)

    assert fire_scheduled(world.organization) == 0
    assert go_on(world) == 0
    assert times(world) == []


def test_a_negative_offset_is_before_the_date(world, account):
    configuration(world, -3)
    contract(world, account)

    assert at(world, "2026-10-06T23:59:59") == 0
    assert at(world, "2026-10-07T00:00:00") == 1


def test_another_offset_has_other_moments(world, account):
    made = configuration(world)
    contract(world, account)
    go_on(world)
    made = world.change(made, offset=10)

    assert at(world, "2026-10-19") == 0
    assert at(world, "2026-10-20") == 1
    world.change(made, offset=1)
    assert go_on(world) == 1
    assert times(world) == ["2026-10-20T00:00", "2026-10-11T00:00"]


def test_a_configuration_that_is_deleted_is_silent(world, account):
    made = configuration(world)
    contract(world, account)
    go_on(world)
    delete(world, made)
    world.clock.advance(days=20)

    assert go_on(world) == 0
    with world.organization.reading() as reader:
        assert due_moments(reader, world.clock.time, 10) == []


def test_another_zone_has_other_midnights(world, account):
    configuration(world)
    contract(world, account)
    go_on(world)
    with world.organization.transaction("USER_1") as transaction:
        [config] = transaction.all(OrganizationConfig)
        entity = config.entity.model_copy(update={"timezone": "Europe/Berlin"})
        transaction.update(config.id, config.version, entity)

    assert at(world, "2026-10-14T21:59:59") == 0
    assert at(world, "2026-10-14T22:00:00") == 1
    assert times(world) == ["2026-10-14T22:00"]


def test_two_configurations_of_one_date_happen_both(world, account):
    configuration(world)
    configuration(world, name="scheduled.contract.again")
    contract(world, account)
    at(world, "2026-10-15")

    assert times(world) == times(world, "scheduled.contract.again") == ["2026-10-15T00:00"]


def test_it_makes_notifications_go_out_like_any_event(world, account):
    configuration(world)
    rule = world.notification(event_name=NAME, calculation='new.name == "c"')
    contract(world, account)
    contract(world, account, code="other")
    at(world, "2026-11-15")

    [fired] = world.listed(notification_id=rule.id)
    assert fired["m3terEvent"]["eventData"]["newDto"]["code"] == "c"
    assert fired["m3terEvent"]["eventData"]["baseEventTime"] == "2026-10-15T00:00:00Z"


@ON_BOTH
def test_of_two_workers_each_moment_has_one_event(world, account, monkeypatch):
    configuration(world)
    contract(world, account)
    world.read()
    world.clock.advance(days=30)
    counts = []

    def meanwhile(step):
        if step == "scheduled.fired" and not counts:
            counts.append(None)
            counts.append(fire_scheduled(world.organization))

    monkeypatch.setattr("meterlake.model.values.failpoint.hook", meanwhile)
    first = fire_scheduled(world.organization)

    assert first + counts[1] == 1
    assert len(times(world)) == 1
