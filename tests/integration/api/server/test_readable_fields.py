"""What is denied or allowed singly: lists, children, and operations that reach other kinds."""

from datetime import UTC, datetime, timedelta

import httpx
import pytest

from meterlake.model.configuration.integrations import RunStatus
from tests.served import served
from tests.stored_runs import add_run, end_run


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served") / "home") as running:
        yield running


@pytest.fixture(scope="module")
def admin(server):
    with server.http() as client:
        yield client


def created(client, path, **body):
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["id"]


@pytest.fixture(scope="module")
def accounts(admin):
    return {
        code: created(admin, "/accounts", name=code, code=code, emailAddress="a@example.com")
        for code in ("seen", "hidden")
    }


def client_with(server, admin, *statements):
    """A client of a service user of its own with these statements."""
    policy = created(admin, "/permissionpolicies", name="p", permissionPolicy=list(statements))
    user = created(admin, "/serviceusers", name="robot")
    answer = admin.post(
        f"/permissionpolicies/{policy}/addtoserviceuser", json={"principalId": user}
    )
    assert answer.status_code == 200, answer.text
    key = admin.post(f"/serviceusers/{user}/accesskeys", json={}).json()
    token = httpx.post(
        f"{server.url}/oauth/token",
        json={"grant_type": "client_credentials"},
        auth=(key["id"], key["apiSecret"]),
    ).json()["access_token"]
    return server.http(token)


def statement(effect, *resources):
    return {"effect": effect, "action": ["all"], "resource": list(resources)}


def test_what_is_denied_singly_is_in_no_list(server, admin, accounts):
    denied = statement("deny", f"config:account/item/{accounts['hidden']}")
    with client_with(server, admin, statement("allow", "*"), denied) as client:
        assert client.get(f"/accounts/{accounts['hidden']}").status_code == 403
        codes = [row["code"] for row in client.get("/accounts").json()["data"]]
        assert codes == ["seen"]
        assert client.get("/accounts", params={"ids": accounts["hidden"]}).json()["data"] == []
        found = client.get("/accounts/search", params={"searchQuery": "code:hidden"}).json()
        assert found["data"] == []


def test_a_change_shows_only_what_its_author_wrote_or_may_read(server, admin):
    was = {"name": "Was", "code": "was", "emailAddress": "was@example.com"}
    id_ = created(admin, "/accounts", **was)
    path, body = (
        f"/accounts/{id_}",
        {
            "name": "Is",
            "code": "was",
            "emailAddress": "is@example.com",
        },
    )
    writer = {"effect": "allow", "action": ["config:update", "config:delete"], "resource": ["*"]}
    hidden = statement("deny", f"config:account/item/{id_}") | {"action": ["config:retrieve"]}
    for version, statements in enumerate(([writer], [statement("allow", "*"), hidden]), 1):
        with client_with(server, admin, *statements) as client:
            changed = client.put(path, json=body | {"version": version})
        assert changed.json() | body == changed.json()
        assert set(changed.json()) == {"id", "version", "name", "code", "emailAddress"}
    with client_with(server, admin, writer) as client:
        removed = client.delete(path)
    assert set(removed.json()) == {"id", "version"}
    with client_with(server, admin, statement("allow", "*")) as client:
        other = created(admin, "/accounts", **was)
        assert client.delete(f"/accounts/{other}").json()["emailAddress"] == "was@example.com"


DENIED_BILL = "0b111111-0000-4000-8000-000000000001"
OTHER_BILL = "0b111111-0000-4000-8000-000000000002"
NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def runs(server):
    """A run of each of two bills, with what another system said of it, and one of an event."""
    organization = server.organization
    found = {}
    for hours, bill in enumerate((DENIED_BILL, OTHER_BILL)):
        at = NOON + timedelta(hours=hours)
        found[bill] = add_run(organization, at, bill, entity_id=bill, body='{"total": 5}')
        facts = {"external_id": "in_1", "url": "https://x.test/in_1"}
        end_run(organization, at, RunStatus.COMPLETE, **facts)
    found["event"] = add_run(
        *(organization, NOON + timedelta(hours=2), "event"),
        entity_type="Notification",
        entity_id="n1",
        event_id="e1",
        body="{}",
    )
    return found


def test_a_run_shows_a_bill_only_to_who_may_read_it(server, admin, runs):
    denied = statement("deny", f"config:bill/item/{DENIED_BILL}")
    with client_with(server, admin, statement("allow", "*"), denied) as client:
        logs = {
            name: client.get(f"/integrationruns/logs/{id_}").status_code
            for name, id_ in runs.items()
        }
        path = f"/integrationruns/Bill/{DENIED_BILL}"
        shown = [
            client.get(f"/integrationruns/{runs[DENIED_BILL]}").json(),
            client.get(path).json()["data"][0],
            client.get(f"/integrationruns/Bill/latest/{DENIED_BILL}").json(),
            client.get("/integrationruns/Bill/latest", params={"ids": DENIED_BILL}).json(),
        ]
        other = client.get(f"/integrationruns/{runs[OTHER_BILL]}").json()
    assert logs == {DENIED_BILL: 403, OTHER_BILL: 200, "event": 200}
    assert {each["id"] for each in shown} == {runs[DENIED_BILL]}
    assert "in_1" not in str(shown)
    assert (other["externalId"], other["url"]) == ("in_1", "https://x.test/in_1")


def test_who_may_only_see_runs_reads_no_bill_and_no_event_in_their_logs(server, admin, runs):
    only_runs = statement("allow", "config:integrationrun/*")
    with client_with(server, admin, only_runs) as client:
        answers = {name: client.get(f"/integrationruns/logs/{id_}") for name, id_ in runs.items()}
        assert client.get(f"/integrationruns/{runs['event']}").status_code == httpx.codes.OK
    assert {each.status_code for each in answers.values()} == {httpx.codes.FORBIDDEN}
    assert "retrieve on event" in answers["event"].json()["message"]


QUERIES = {
    "config:bill/item/x": ("/dataexplorer/bills", "/dataexplorer/bills/download/csv"),
    "config:commitment/item/x": (
        "/dataexplorer/commitments",
        "/dataexplorer/commitments/lineitems",
    ),
    "measurements:measurements/*": ("/usage/query", "/dataexplorer/usagedata"),
}


@pytest.mark.parametrize("resource", QUERIES)
def test_a_query_adds_up_nothing_that_is_withheld(server, admin, resource):
    withheld = statement("deny", resource)
    withheld["action"] = ["config:retrieve", "measurements:retrieve"]
    with client_with(server, admin, statement("allow", "*"), withheld) as client:
        answers = [client.post(path, json={}) for path in QUERIES[resource]]
        others = [
            client.post(path, json={})
            for each, paths in QUERIES.items()
            if each != resource
            for path in paths
        ]
    assert {each.status_code for each in answers} == {httpx.codes.FORBIDDEN}
    assert "on every" in answers[0].json()["message"]
    assert httpx.codes.FORBIDDEN not in {each.status_code for each in others}


def test_a_file_that_came_is_read_with_the_right_to_read_measurements(server, admin):
    path = "/fileuploads/measurements/jobs/00000000-0000-4000-8000-000000000000/original"
    upload = {"effect": "allow", "action": ["measurements:fileupload"], "resource": ["*"]}
    both = upload | {"action": ["measurements:fileupload", "measurements:retrieve"]}
    with client_with(server, admin, upload) as client:
        assert client.get(path).status_code == httpx.codes.FORBIDDEN
    with client_with(server, admin, both) as client:
        assert client.get(path).status_code == httpx.codes.NOT_FOUND


def test_ending_needs_permission_for_what_is_ended(server, admin, accounts):
    body = {"endDate": "2027-01-01T00:00:00Z", "billingEntities": ["CONTRACT"]}
    path = f"/accounts/{accounts['seen']}/enddatebillingentities"
    allowed = statement("allow", "config:account/*")
    with client_with(server, admin, allowed) as client:
        answer = client.put(path, json=body)
        assert answer.status_code == 403
        assert "contract" in answer.json()["message"]
    with client_with(server, admin, allowed, statement("allow", "config:contract/*")) as client:
        assert client.put(path, json=body).status_code == 200


def test_somebody_keeps_the_administrator_policy(tmp_path):
    # A home of its own: other tests have programs that may do all, too.
    with served(tmp_path / "home") as server, server.http() as admin:
        me = admin.get("/users/me").json()["serviceUser"]["id"]
        policies = admin.get("/permissionpolicies").json()["data"]
        [policy] = [each["id"] for each in policies if each["name"] == "Administrator"]

        answer = admin.post(
            f"/permissionpolicies/{policy}/removefromserviceuser", json={"principalId": me}
        )
        assert answer.status_code == 409
        assert admin.delete(f"/serviceusers/{me}").status_code == 409
        assert admin.get("/users/me").status_code == 200


def test_the_state_is_for_its_owner_alone(server):
    assert (server.settings.home / "state.sqlite").stat().st_mode & 0o077 == 0
