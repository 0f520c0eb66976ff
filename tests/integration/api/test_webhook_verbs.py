"""A test of a webhook, and runs that are sent once more, through the API."""

import json
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from standardwebhooks import Webhook

from tests.deliveries import (
    SECRET,
    add_runs,
    client_of,
    content_for,
    run_of,
    send_due,
    webhook_document,
)
from tests.doubles.receivers import running_receiver
from tests.served import served

WEBHOOKS = "/integrationdestinations/webhooks"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("verbs") / "home"
    with served(home, webhook_allow=("127.0.0.1",)) as running:
        yield running


@pytest.fixture
def client(server):
    with server.http() as found:
        yield found


@pytest.fixture
def receiver():
    with running_receiver() as found:
        yield found


def created(client, url, **changes):
    name = f"webhook {datetime.now(UTC).timestamp()}"
    found = client.post(WEBHOOKS, json=webhook_document(url, name=name, **changes))
    assert found.status_code == httpx.codes.OK, found.text
    return found.json()


def posted(client, path, code=200, **query):
    found = client.post(path, params=query or None)
    assert found.status_code == code, found.text
    return found.json()


@pytest.mark.parametrize(
    ("path", "query", "code", "said"),
    [
        (f"{WEBHOOKS}/gone/ping", {}, 404, "gone"),
        (f"{WEBHOOKS}/gone/replay", {"since": "2026-10-01T00:00:00Z"}, 404, "gone"),
        ("/integrationruns/gone/replay", {}, 404, "gone"),
        (f"{WEBHOOKS}/gone/replay", {}, 400, "since is required"),
        (f"{WEBHOOKS}/gone/replay", {"since": "yesterday"}, 400, "since"),
        (f"{WEBHOOKS}/gone/replay", {"since": "2026-10-01", "status": "FINE"}, 400, "status"),
    ],
)
def test_what_makes_no_sense_is_refused(client, path, query, code, said):
    assert said in posted(client, path, code, **query)["message"]


def test_a_webhook_that_is_off_is_not_tested(client, receiver):
    webhook = created(client, receiver.url(), active=False)

    assert "not active" in posted(client, f"{WEBHOOKS}/{webhook['id']}/ping", 409)["message"]


def test_runs_that_somebody_asked_for_are_theirs(server, client, receiver):
    webhook = created(client, receiver.url())
    author = webhook["createdBy"]
    ping = posted(client, f"{WEBHOOKS}/{webhook['id']}/ping")
    [event] = add_runs(server.organization, [content_for(webhook)])
    send_due(server.stores, client_of(server.stores))
    replay = posted(client, f"/integrationruns/{event}/replay")
    posted(client, f"{WEBHOOKS}/{webhook['id']}/replay", since="2026-01-01T00:00:00Z")
    listed = client.get(f"/integrationruns/destinations/{webhook['id']}").json()["data"]

    assert author.startswith(("SERVICE_USER_", "USER_"))
    assert (ping["createdBy"], replay["createdBy"]) == (author, author)
    assert sorted(each["createdBy"] for each in listed) == sorted(["SYSTEM", *[author] * 3])


@pytest.mark.sees("PingWebhook")
def test_a_ping_is_a_signed_delivery(server, client, receiver):
    webhook = created(client, receiver.url())

    run = posted(client, f"{WEBHOOKS}/{webhook['id']}/ping")
    send_due(server.stores, client_of(server.stores))

    [got] = receiver.received
    assert got.id == run["id"]
    assert (run["status"], run["destinationId"]) == ("WAITING", webhook["id"])
    body = Webhook(SECRET).verify(got.body, got.headers)
    assert (body["type"], body["data"]["id"]) == ("webhook.ping", webhook["id"])
    assert datetime.fromisoformat(body["timestamp"]) > datetime.now(UTC) - timedelta(minutes=1)
    assert client.get(f"/integrationruns/{run['id']}").json()["status"] == "COMPLETE"


@pytest.mark.sees("ReplayIntegrationRun")
def test_a_run_is_sent_once_more_under_a_new_id(server, client, receiver):
    webhook = created(client, receiver.url("/410"))
    [id_] = add_runs(server.organization, [content_for(webhook)])
    posted(client, f"/integrationruns/{id_}/replay", 409)
    send_due(server.stores, client_of(server.stores))
    receiver.answers["/410"] = 200
    active = client.put(f"{WEBHOOKS}/{webhook['id']}/active", params={"active": "true"})
    assert active.json()["active"]

    first = posted(client, f"/integrationruns/{id_}/replay")
    send_due(server.stores, client_of(server.stores))
    second = posted(client, f"/integrationruns/{first['id']}/replay")
    send_due(server.stores, client_of(server.stores))

    assert first["replayedFromIntegrationRunId"] == id_
    assert second["replayedFromIntegrationRunId"] == first["id"]
    assert [each.id for each in receiver.received] == [id_, first["id"], second["id"]]
    assert len({each.body for each in receiver.received}) == 1
    contents = [
        run_of(server.organization, each).content for each in (id_, first["id"], second["id"])
    ]
    assert {each.original_key for each in contents} == {contents[0].run_key}
    assert len({each.run_key for each in contents}) == 3


@pytest.mark.sees("ReplayWebhook")
def test_all_runs_since_a_time_are_sent_once_more(server, client, receiver):
    webhook = created(client, receiver.url())
    path = f"{WEBHOOKS}/{webhook['id']}"
    since = datetime.now(UTC).isoformat()
    ids = add_runs(server.organization, [content_for(webhook, n) for n in range(5)])
    assert posted(client, f"{path}/replay", since=since) == {"runs": 0}
    posted(client, f"{path}/ping")
    send_due(server.stores, client_of(server.stores))
    assert len(receiver.received) == 6

    assert posted(client, f"{path}/replay", since=since, status="ERROR") == {"runs": 0}
    assert posted(client, f"{path}/replay", since=datetime.now(UTC).isoformat()) == {"runs": 0}
    assert posted(client, f"{path}/replay", since=since, status="COMPLETE") == {"runs": 5}
    send_due(server.stores, client_of(server.stores))

    again = receiver.received[6:]
    assert len(again) == 5
    assert {each.id for each in again}.isdisjoint(ids)
    numbers = [json.loads(each.body)["data"]["number"] for each in again]
    assert sorted(numbers) == list(range(5))
    # Replays are not replayed.
    assert posted(client, f"{path}/replay", since=since) == {"runs": 5}
