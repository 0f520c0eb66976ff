"""Runs of integrations through the API: lists, the latest ones, and what was sent and answered."""

import base64
import json
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import httpx
import pytest

from meterlake.model.configuration.integrations import RunStatus
from tests.served import served
from tests.stored_runs import add_run, end_run

START = datetime(2026, 10, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
SECRET = "sk_test_secret"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("runs") / "home") as running:
        yield running


@pytest.fixture(scope="module")
def ids(server):
    """Four runs an hour apart: one failed, one complete, one of another bill waits, and one more."""
    organization = server.organization
    found = [add_run(organization, START, "a", account_id="acc")]
    failed = {
        "status_code": 400,
        "response": "no such customer",
        "error": "the receiver answered 400",
    }
    end_run(organization, START, RunStatus.ERROR, error="no such customer", tried=failed)
    found.append(add_run(organization, START + HOUR, "b"))
    sent = {"external_id": "in_1", "url": "https://x.test/in_1"}
    end_run(organization, START + HOUR, RunStatus.COMPLETE, **sent)
    found.append(add_run(organization, START + 2 * HOUR, "c", entity_id="b2", destination_id="d1"))
    found.append(add_run(organization, START + 3 * HOUR, "d", entity_id="b3"))
    return found


@pytest.fixture
def client(server, ids):
    assert ids
    with server.http() as found:
        yield found


def listed(client, ids, path, **query):
    found = client.get(f"/integrationruns/{path}", params=query or None)
    assert found.status_code == httpx.codes.OK, found.text
    # Other tests of the server have runs of their own.
    return [ids.index(each["id"]) for each in found.json()["data"] if each["id"] in ids]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("Bill/b1", {"status": "FINE"}),
        ("Bill/b1", {"order": "UP"}),
        ("Bill/b1", {"pageSize": 201}),
        ("Bill/b1", {"startDate": "2026-13-01"}),
        ("Bill/b1", {"endDate": "soon"}),
        ("Bill/b1", {"nextToken": "none"}),
        ("Bill/latest", {"ids": ",".join(map(str, range(201)))}),
    ],
)
def test_a_question_that_is_none_is_refused(client, path, query):
    found = client.get(f"/integrationruns/{path}", params=query)

    assert (found.status_code, set(found.json())) == (httpx.codes.BAD_REQUEST, {"message"})
    assert next(iter(query)) in found.json()["message"]


@pytest.mark.parametrize(
    "path",
    [
        "00000000-0000-4000-8000-000000000000",
        "logs/00000000-0000-4000-8000-000000000000",
        "logs/nothing",
        "Bill/latest/b9",
        "Notification/latest/b1",
        "Bill/latest?ids=b9",
        "Nothing/latest",
    ],
)
def test_what_there_is_not_is_not_found(client, path):
    assert client.get(f"/integrationruns/{path}").status_code == httpx.codes.NOT_FOUND


@pytest.mark.sees("ListIntegrationRuns")
def test_the_runs_of_an_entity_are_listed_and_filtered(client, ids):
    assert listed(client, ids, "Bill/b1") == [1, 0]
    assert listed(client, ids, "Bill/b1", order="ASC") == [0, 1]
    assert listed(client, ids, "Bill/b1", status="ERROR") == [0]
    assert listed(client, ids, "Bill/b1", status="WAITING") == []
    assert listed(client, ids, "Notification/b1") == []


def test_a_period_begins_after_its_start_and_has_its_end(client, ids):
    first, second = START.isoformat(), (START + HOUR).isoformat()
    assert listed(client, ids, "Bill/b1", startDate=first) == [1]
    assert listed(client, ids, "Bill/b1", endDate=first) == [0]
    assert listed(client, ids, "Bill/b1", startDate=first, endDate=second) == [1]
    assert listed(client, ids, "Bill/b1", startDate=second) == []
    assert listed(client, ids, "Bill/b1", startDate="2026-10-01", endDate="2026-10-01") == [1, 0]
    assert listed(client, ids, "Bill/b1", endDate="2026-09-30") == []


@pytest.mark.parametrize("order", ["ASC", "DESC"])
def test_pages_have_every_run_once_in_order(client, ids, order):
    query, found = {"order": order, "pageSize": 1}, []
    while True:
        page = client.get(f"/integrationruns/Bill/b1?{urlencode(query)}").json()
        found += [ids.index(each["id"]) for each in page["data"] if each["id"] in ids]
        if "nextToken" not in page:
            break
        query["nextToken"] = page["nextToken"]

    assert found == ([0, 1] if order == "ASC" else [1, 0])


@pytest.mark.sees("ListIntegrationRunsByDestinationId")
def test_the_runs_to_a_destination_are_listed(client, ids):
    assert listed(client, ids, "destinations/d1") == [2]
    assert listed(client, ids, "destinations/d1", destination="http") == [2]
    assert listed(client, ids, "destinations/d1", destination="STRIPE") == []
    assert listed(client, ids, "destinations/d2") == []


@pytest.mark.sees("GetIntegrationRun")
def test_a_run_says_where_it_stands(client, ids):
    failed, sent, waiting, _ = (client.get(f"/integrationruns/{id_}").json() for id_ in ids)

    assert (failed["status"], failed["error"]) == ("ERROR", "no such customer")
    assert failed["dtStarted"] < failed["dtCompleted"]
    assert (sent["status"], sent["externalId"]) == ("COMPLETE", "in_1")
    assert sent["url"] == "https://x.test/in_1"
    assert "error" not in sent
    assert (waiting["status"], waiting["destinationId"]) == ("WAITING", "d1")
    assert not {"dtStarted", "dtCompleted"} & set(waiting)


@pytest.mark.sees("GetIntegrationRunLatest", "GetIntegrationRunLatestForIds")
def test_the_latest_run_is_the_newest_one_of_its_entity(client, ids):
    assert client.get("/integrationruns/Bill/latest/b1").json()["id"] == ids[1]
    assert listed(client, ids, "Bill/latest?ids=b1,b2") == [2, 1]
    assert listed(client, ids, "Bill/latest") == [3, 2, 1]
    page = client.get("/integrationruns/Bill/latest?ids=b1").json()
    assert page["id"] == ids[1]


@pytest.mark.sees("GetIntegrationRunLogs")
def test_the_log_has_every_try_without_secrets(client, ids):
    found = client.get(f"/integrationruns/logs/{ids[0]}").json()

    log = json.loads(base64.b64decode(found["Payload"], validate=True))
    [tried] = log["tries"]
    assert set(found) == {"Payload"}
    assert (tried["number"], tried["statusCode"]) == (1, 400)
    assert tried["response"] == "no such customer"
    assert tried["request"].endswith("Key: ********")
    assert log["status"] == "ERROR"


@pytest.mark.sees("ListIntegrationConfigRuns")
def test_the_runs_of_an_integration_are_listed(server, client):
    config = "3c1b8c2e-0f43-4f6e-9d61-5f2c8f7f0a11"
    own = add_run(server.organization, START, "of a configuration", config_id=config)
    found = client.get(f"/integrationconfigs/{config}/runs").json()["data"]

    assert [(each["id"], each["integrationConfigId"]) for each in found] == [(own, config)]
    assert client.get(f"/integrationconfigs/{config}/runs?status=ERROR").json()["data"] == []
