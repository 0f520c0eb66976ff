"""The sender with State on both of its databases."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from meterlake.model.configuration.integrations import RunStatus
from meterlake.pipeline.integrations.runs import replay_webhook
from meterlake.pipeline.integrations.sender import Sender
from meterlake.settings import Settings
from tests.databases import state_of
from tests.deliveries import (
    add_runs,
    client_of,
    content_for,
    new_webhook,
    run_of,
    send_due,
    stored_webhook,
    tries,
)
from tests.doubles.receivers import running_receiver
from tests.organizations import Clock, new_organization, open_new


@pytest.fixture
def stores(home_database, tmp_path):
    assert home_database
    clock, home = Clock(), tmp_path / "home"
    clock.time = datetime.now(UTC)
    settings = Settings(home=home, webhook_allow=("127.0.0.1",), _env_file=None, **state_of(home))
    with open_new(settings, clock) as opened:
        yield opened


@pytest.fixture
def org(stores):
    return new_organization(stores.state)


def test_runs_are_claimed_once_tried_again_ended_and_replayed(stores, org):
    organization = stores.organization(org)
    begin = stores.now() - timedelta(minutes=1)
    with running_receiver() as receiver:
        webhooks = {
            name: new_webhook(organization, receiver.url(name)) for name in ("/200", "/nul")
        }
        good = add_runs(organization, [content_for(webhooks["/200"], n) for n in range(60)])
        [bad] = add_runs(organization, [content_for(webhooks["/nul"])])

        async def work():
            senders = [Sender(stores, client_of(stores)) for _ in range(2)]
            await asyncio.gather(*(each.drain() for each in senders))

        asyncio.run(work())

        assert sorted(each.id for each in receiver.of("/200")) == sorted(good)
        assert run_of(organization, bad).status is RunStatus.AWAITING_RETRY
        receiver.answers["/nul"] = 410
        stores.now.advance(minutes=10)
        send_due(stores)
        assert [each.status_code for each in tries(organization, bad)] == [500, 410]
        assert run_of(organization, bad).status is RunStatus.ERROR
        assert not stored_webhook(organization, webhooks["/nul"]["id"]).entity.active

        id_ = webhooks["/200"]["id"]
        assert replay_webhook(organization, "test", id_, begin) == {"runs": 60}
        send_due(stores)
        assert len(receiver.of("/200")) == 120
