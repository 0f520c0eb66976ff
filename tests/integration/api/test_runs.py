"""Runs over HTTP: jobs of all kinds in one list, as far as whoever asks may read each kind."""

import httpx
import pytest

from tests.deliveries import add_runs, content_for, new_webhook
from tests.e2e.api.test_authorization import service_user, token_of
from tests.people import allow
from tests.served import served

NOWHERE = "00000000-0000-4000-8000-000000000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("runs") / "home", webhook_allow=("127.0.0.1",)) as found:
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


def posted(http, path, body=None, status=httpx.codes.OK):
    found = http.post(path, json=body or {})
    assert found.status_code == status, found.text
    return found.json()


def bill_job(http):
    asked = {"billingFrequency": "MONTHLY", "lastDateInBillingPeriod": "2026-09-30"}
    return posted(http, "/billjobs", asked)["id"]


def export_job(http):
    asked = {"sourceType": "OPERATIONAL", "operationalDataTypes": ["ACCOUNTS"]}
    return posted(http, "/dataexports/adhoc", asked)["jobId"]


def delivery(server):
    organization = server.organization
    webhook = new_webhook(organization, "http://127.0.0.1:9/", name=f"Chat {id(object())}")
    [run_id] = add_runs(organization, [content_for(webhook)])
    return webhook["name"], run_id


def listed(http, **query):
    found = http.get("/runs", params=query)
    assert found.status_code == httpx.codes.OK, found.text
    return found.json()["data"]


def client_with(server, http, *statements):
    made = posted(http, "/permissionpolicies", {"name": "p", "permissionPolicy": list(statements)})
    _, key, secret = service_user(http, made["id"])
    return server.http(token_of(server, key, secret))


@pytest.mark.sees("ListRuns")
def test_runs_of_all_kinds_stand_in_one_list_the_newest_first(server, http):
    bill, export = bill_job(http), export_job(http)
    webhook, sent = delivery(server)
    found = listed(http, ids=f"{bill},{export},{sent}")

    assert [each["id"] for each in found] == [sent, export, bill]
    assert [each["kind"] for each in found] == ["INTEGRATION_RUN", "EXPORT", "BILL"]
    subjects = [f"notification to {webhook}", "operational as csv", "bill monthly 2026-10-01"]
    assert [each["subject"] for each in found] == subjects
    assert found[2]["actions"] == ["cancel"]
    # A service user has a name, too.
    assert {each.get("createdByName") for each in found[1:]} == {found[1]["createdByName"]}


def test_pages_of_runs_have_each_of_them_once(http):
    made = [*(export_job(http) for _ in range(3)), bill_job(http)]
    seen, token = [], None
    while True:
        more = {} if token is None else {"nextToken": token}
        answer = http.get("/runs", params={"ids": ",".join(made), "pageSize": 2, **more}).json()
        seen += [each["id"] for each in answer["data"]]
        token = answer.get("nextToken")
        if token is None:
            break

    assert seen == made[::-1]


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ({"kinds": "BILL"}, {"BILL"}),
        ({"kinds": "BILL,EXPORT"}, {"BILL", "EXPORT"}),
        ({"status": "FAILED"}, set()),
        ({"createdBy": f"USER_{NOWHERE}"}, set()),
        ({"dateCreatedStart": "2100-01-01"}, set()),
    ],
)
def test_runs_are_filtered(http, query, kinds):
    made = f"{bill_job(http)},{export_job(http)}"

    assert {each["kind"] for each in listed(http, ids=made, **query)} == kinds


@pytest.mark.parametrize("query", [{"kinds": "WALK"}, {"status": "FINE"}])
def test_a_filter_that_names_nothing_is_refused(http, query):
    assert http.get("/runs", params=query).status_code == httpx.codes.BAD_REQUEST


@pytest.mark.sees("CancelRun", "RetryRun", "GetRun")
@pytest.mark.parametrize("make", [bill_job, export_job])
def test_a_run_that_waits_is_cancelled_and_run_again(http, make):
    id_ = make(http)
    cancelled = posted(http, f"/runs/{id_}/cancel")
    posted(http, f"/runs/{id_}/cancel", status=httpx.codes.CONFLICT)
    again = posted(http, f"/runs/{id_}/retry")

    assert (cancelled["status"], cancelled["actions"]) == ("CANCELLED", ["retry"])
    assert (again["status"], again["actions"]) == ("PENDING", ["cancel"])
    # An export goes on with what it pinned; bills are made with the usage of now, by a new job.
    assert (again["id"] == id_) == (make is export_job)
    assert http.get(f"/runs/{again['id']}").json() == again
    posted(http, f"/runs/{again['id']}/retry", status=httpx.codes.CONFLICT)
    # Who did it stays with the run, and in the log.
    acts = http.get(f"/runs/{id_}").json()["acts"]
    assert [each["action"] for each in acts] == ["cancelled", "ranAgain"]
    log = http.get("/auditlog", params={"kinds": "runs", "entityId": id_}).json()["data"]
    assert [each["action"] for each in log] == ["ranAgain", "cancelled", "begun"]
    assert {each["by"] for each in (*acts, *log)} == {again["createdBy"]}


def test_what_is_sent_to_others_is_not_cancelled_here(server, http):
    _, sent = delivery(server)
    told = posted(http, f"/runs/{sent}/cancel", status=httpx.codes.CONFLICT)

    assert "disable the integration or the webhook" in told["message"]


def test_a_run_that_there_is_not_is_not_found(http):
    for method, path in (("GET", ""), ("POST", "/cancel"), ("POST", "/retry")):
        assert http.request(method, f"/runs/{NOWHERE}{path}").status_code == httpx.codes.NOT_FOUND


def test_only_runs_of_kinds_that_one_may_read_are_listed(server, http):
    bill, export = bill_job(http), export_job(http)
    rights = allow("config:retrieve", "config:run/*", "config:billjob/*")
    with client_with(server, http, rights) as other:
        assert [each["id"] for each in listed(other, ids=f"{bill},{export}")] == [bill]
        assert other.get(f"/runs/{bill}").json()["actions"] == []
        assert "createdByName" not in other.get(f"/runs/{bill}").json()
        assert other.get(f"/runs/{export}").status_code == httpx.codes.NOT_FOUND
        assert other.post(f"/runs/{bill}/cancel").status_code == httpx.codes.FORBIDDEN


def test_cancelling_a_run_needs_the_right_to_its_kind_too(server, http):
    bill = bill_job(http)
    rights = allow("config:retrieve"), allow("config:update", "config:run/*")
    with client_with(server, http, *rights) as other:
        assert other.get(f"/runs/{bill}").json()["actions"] == []
        assert other.post(f"/runs/{bill}/cancel").status_code == httpx.codes.FORBIDDEN
    with client_with(server, http, *rights, allow("config:update", "config:billjob/*")) as other:
        assert other.get(f"/runs/{bill}").json()["actions"] == ["cancel"]
        assert posted(other, f"/runs/{bill}/cancel")["status"] == "CANCELLED"
