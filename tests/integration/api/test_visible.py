"""What is denied or allowed singly: lists, children, and operations that reach other kinds."""

import httpx
import pytest

from tests.served import served


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


def test_somebody_keeps_the_administrator_policy(admin):
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
