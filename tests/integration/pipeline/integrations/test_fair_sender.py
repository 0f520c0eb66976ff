"""Destinations do not wait for each other, however many runs wait for one of them."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from meterlake.model.configuration.integrations import RunStatus
from meterlake.pipeline.integrations.connectors.connector import Outcome, Outgoing, Sent
from meterlake.pipeline.integrations.connectors.webhook import WebhookConnector
from meterlake.pipeline.integrations.sender import HELD_MAX, SENDING_MAX, Sender
from meterlake.settings import Settings
from meterlake.stores.state.integrations.queues import claim_runs, due_queues, return_runs
from tests.deliveries import (
    add_runs,
    client_of,
    content_for,
    new_webhook,
    run_of,
    runs_of,
    send_due,
    update_webhook,
)
from tests.doubles.receivers import running_receiver, silent_receiver
from tests.organizations import Clock, new_organization, open_new


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def stores(tmp_path, clock):
    settings = Settings(home=tmp_path / "home", webhook_allow=("127.0.0.1",), _env_file=None)
    with open_new(settings, clock) as opened:
        yield opened


@pytest.fixture
def org(stores):
    return new_organization(stores.state)


@pytest.fixture
def organization(stores, org):
    return stores.organization(org)


@pytest.fixture
def receiver():
    with running_receiver() as found:
        yield found


class SlowConnector:
    """Takes its time for some destinations, and counts."""

    declaration = WebhookConnector.declaration
    concurrency = 10

    def __init__(self, slow: Sequence[str]) -> None:
        self.slow = frozenset(slow)
        self.sent: list[tuple[float, str | None]] = []
        self.under_way: dict[str | None, int] = {}
        self.most: dict[str | None, int] = {}

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Wait, if it is for a slow one."""
        id_ = outgoing.content.destination_id
        self.under_way[id_] = self.under_way.get(id_, 0) + 1
        self.most[id_] = max(self.most.get(id_, 0), self.under_way[id_])
        await asyncio.sleep(1 if id_ in self.slow else 0)
        self.under_way[id_] -= 1
        self.sent.append((time.monotonic(), id_))
        return Sent()


def test_a_slow_destination_delays_no_other_one(stores, organization, receiver):
    slow, fast = (new_webhook(organization, receiver.url(f"/{n}")) for n in (1, 2))
    add_runs(organization, [content_for(slow, n) for n in range(20)])
    add_runs(organization, [content_for(fast, n) for n in range(100)])
    connector = SlowConnector([slow["id"]])

    send_due(stores, known={"WEBHOOK": connector})

    last_fast = max(at for at, id_ in connector.sent if id_ == fast["id"])
    slow_before = [at for at, id_ in connector.sent if id_ == slow["id"] and at < last_fast]
    assert len(connector.sent) == 120
    assert len(slow_before) < 20
    assert max(connector.most.values()) <= connector.concurrency


@pytest.mark.slow
def test_no_more_runs_are_in_memory_than_may_be(stores, organization, receiver):
    webhooks = [new_webhook(organization, receiver.url(f"/{n}")) for n in range(4)]
    for each in webhooks:
        add_runs(organization, [content_for(each, n) for n in range(600)])
    connector = SlowConnector([])
    sender = Sender(stores, client_of(stores), {"WEBHOOK": connector})
    held = []
    turn = sender._books.turn

    def watch(*arguments):
        claimed = turn(*arguments)
        held.append(sender._shares_of_memory().total + len(claimed))
        return claimed

    sender._books.turn = watch
    asyncio.run(sender.drain())

    assert len(connector.sent) == 2400
    assert 0 < max(held) <= HELD_MAX


def test_each_queue_has_its_turn_however_many_wait_in_another(stores, org, organization, receiver):
    dead, live = (new_webhook(organization, receiver.url(f"/{n}")) for n in (1, 2))
    add_runs(organization, [content_for(dead, n) for n in range(2000)])
    [late] = add_runs(organization, [content_for(live)])

    now = stores.now()
    with stores.state.writing_home() as connection:
        found = due_queues(connection, now)
        assert list(found) == sorted([dead["id"], live["id"]])
        assert set(found.values()) == {(org, "WEBHOOK")}
        claimed = claim_runs(connection, dict.fromkeys((dead["id"], live["id"]), 5), now)
        assert len(claimed) == 6
        assert late in {each.id for each in claimed}
        assert len(claim_runs(connection, {dead["id"]: 5}, now)) == 5
        assert claim_runs(connection, {live["id"]: 5}, now) == []
        return_runs(connection, claimed, now)
        again = claim_runs(connection, {live["id"]: 5}, now)
        assert [(each.id, each.attempt, each.before) for each in again] == [
            (late, 2, RunStatus.WAITING)
        ]


def test_two_senders_send_each_run_once(stores, organization, receiver):
    webhook = new_webhook(organization, receiver.url())
    ids = add_runs(organization, [content_for(webhook, n) for n in range(100)])

    async def work():
        senders = [Sender(stores, client_of(stores)) for _ in range(2)]
        await asyncio.gather(*(each.drain() for each in senders))

    asyncio.run(work())

    assert sorted(each.id for each in receiver.received) == sorted(ids)


@pytest.mark.long
def test_a_sender_that_is_stopped_leaves_what_it_has_to_the_next_one(
    stores, organization, receiver
):
    webhook = new_webhook(organization, receiver.url())
    add_runs(organization, [content_for(webhook, n) for n in range(300)])
    sender = Sender(stores, client_of(stores))

    asyncio.run(sender.run(lambda: len(receiver.received) > 20, 0.1))

    left = [each for each in runs_of(organization) if each.status is not RunStatus.COMPLETE]
    assert left
    assert {each.status for each in left} == {RunStatus.WAITING}
    send_due(stores)
    ids = [each.id for each in receiver.received]
    assert len(set(ids)) == len(ids) == 300


def test_a_destination_is_read_when_its_turn_comes(stores, organization, receiver):
    webhook = new_webhook(organization, receiver.url("/500"))
    [id_] = add_runs(organization, [content_for(webhook)])
    update_webhook(organization, webhook, url=receiver.url("/200"))

    send_due(stores)

    assert run_of(organization, id_).status is RunStatus.COMPLETE
    assert receiver.of("/500") == []


class BrokenConnector(SlowConnector):
    """Has a mistake."""

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Raise."""
        raise KeyError(outgoing.run_id)


class ForgetfulConnector(SlowConnector):
    """Says nothing about what it did."""

    async def send(self, outgoing: Outgoing) -> Any:
        """Return nothing."""
        assert outgoing.run_id


@pytest.mark.parametrize("kind", [BrokenConnector, ForgetfulConnector])
def test_a_connector_with_a_mistake_is_a_failure_that_is_tried_again(
    stores, organization, receiver, caplog, kind
):
    webhook = new_webhook(organization, receiver.url())
    [id_] = add_runs(organization, [content_for(webhook)])

    send_due(stores, known={"WEBHOOK": kind([])})

    assert run_of(organization, id_).status is RunStatus.AWAITING_RETRY
    assert "the connector of WEBHOOK" in caplog.text


@pytest.mark.slow
def test_10_000_runs_to_a_dead_destination_do_not_delay_a_live_one(
    stores, organization, receiver, clock
):
    dead = new_webhook(organization, "http://127.0.0.1:1/")
    live = new_webhook(organization, receiver.url("/200"))
    for start in range(0, 10_000, 2_000):
        numbers = range(start, start + 2_000)
        add_runs(organization, [content_for(dead, n) for n in numbers])
    add_runs(organization, [content_for(live, n) for n in range(100)])
    begin = time.process_time()

    send_due(stores)

    alone = new_webhook(organization, receiver.url("/204"))
    middle = time.process_time()
    add_runs(organization, [content_for(alone, n) for n in range(100)])
    send_due(stores)
    end = time.process_time()
    assert len(receiver.of("/200")) == len(receiver.of("/204")) == 100
    # With 10,000 that wait and without their tries it takes about the same.
    assert middle - begin < 3 * (end - middle) + 1
    clock.advance(minutes=1)
    send_due(stores)
    assert {each.status for each in runs_of(organization, destination_id=live["id"])} == {
        RunStatus.COMPLETE
    }


@contextmanager
def sending(stores) -> Iterator[None]:
    """A sender with the patience of the real one, at work until the body ends."""
    ends: list[int] = []
    sender = Sender(stores)
    thread = threading.Thread(
        target=lambda: asyncio.run(sender.run(lambda: bool(ends), 0.25)), daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        ends.append(0)
        thread.join(60)


def wait_until(found: Any, what: str) -> None:
    give_up = time.monotonic() + 60
    while not found():
        assert time.monotonic() < give_up, what
        time.sleep(0.02)


@pytest.mark.slow
def test_10_000_runs_to_a_destination_that_hangs_do_not_delay_a_live_one(
    stores, organization, receiver
):
    with silent_receiver() as (url, connections):
        silent = new_webhook(organization, url)
        live = new_webhook(organization, receiver.url("/200"))
        for start in range(0, 10_000, 2_000):
            numbers = range(start, start + 2_000)
            add_runs(organization, [content_for(silent, n) for n in numbers])
        with sending(stores):
            wait_until(lambda: connections, "the first try hangs")
            ids = add_runs(organization, [content_for(live, n) for n in range(100)])
            wait_until(lambda: len(receiver.of("/200")) == 100, "all arrive")
            # All of them came while the first tries of the other one still hung.
            left = runs_of(organization, destination_id=silent["id"], statuses=(RunStatus.STARTED,))
            assert len(left) >= len(connections) > 0
            assert runs_of(organization, statuses=(RunStatus.AWAITING_RETRY,)) == []
        assert sorted(each.id for each in receiver.of("/200")) == sorted(ids)


@pytest.mark.slow
def test_10_000_runs_to_500_destinations_that_hang_do_not_delay_another_organization(
    stores, organization, receiver
):
    other = stores.organization(new_organization(stores.state, "other"))
    live = new_webhook(other, receiver.url("/200"))
    with silent_receiver() as (url, connections):
        for _ in range(500):
            silent = new_webhook(organization, url)
            add_runs(organization, [content_for(silent, n) for n in range(20)])
        with sending(stores):
            # It has as much as it may, and nothing of it ends for 15 seconds.
            wait_until(lambda: len(connections) > SENDING_MAX // 2, "as many hang as may")
            [id_] = add_runs(other, [content_for(live)])
            wait_until(lambda: run_of(other, id_).status is RunStatus.COMPLETE, "it comes")
            assert runs_of(organization, statuses=(RunStatus.AWAITING_RETRY,)) == []


@pytest.mark.slow
def test_10_000_runs_to_500_destinations_do_not_delay_another_organization(
    stores, organization, receiver
):
    for _ in range(500):
        webhook = new_webhook(organization, receiver.url("/200"))
        add_runs(organization, [content_for(webhook, n) for n in range(20)])
    other = stores.organization(new_organization(stores.state, "other"))
    add_runs(other, [content_for(new_webhook(other, receiver.url("/204")))])

    with sending(stores):
        wait_until(lambda: receiver.of("/204"), "it arrives")

    # The name of its queue comes after those of 250 others on the average, which have 5,000 runs.
    assert [each.path for each in receiver.received].index("/204") < HELD_MAX
