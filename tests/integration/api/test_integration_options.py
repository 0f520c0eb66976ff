"""What `configData` holds is checked by name and by value, of every system."""

import pytest

from tests.people import join
from tests.served import served

NOBODY = "00000000-0000-4000-8000-000000000000"
# A key is of one mode.
KEYS = {"STRIPE": "sk_live_1", "STRIPE_TEST": "sk_test_1"}
MARKET = {"productCode": "p", "dimension": "cents"}
SYSTEMS = {
    "AWS": MARKET,
    "HTTP": {"url": "https://billing.example.com/"},
    "STRIPE": {},
    "STRIPE_TEST": {},
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    home = tmp_path_factory.mktemp("options") / "home"
    with served(home, webhook_must_resolve=False) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    with server.http() as opened:
        yield opened


@pytest.fixture(scope="module")
def webhook(client):
    credentials = {"type": "M3TER_SIGNED_REQUEST", "apiKey": "key", "secret": "signs"}
    names = {"name": "Chat", "description": "d", "url": "https://hooks.example.com/"}
    document = {**names, "credentials": credentials}
    return client.post("/integrationdestinations/webhooks", json=document).json()["id"]


def create(client, webhook, system, data):
    document = {"destination": system, "entityType": "Bill", "name": str(data)}
    if system == "WEBHOOK":
        document |= {"entityType": "Notification", "destinationId": webhook}
    elif system.startswith("STRIPE"):
        document |= {"credentials": {"type": "STATIC_API_KEY", "apiKey": KEYS[system]}}
    known = SYSTEMS.get(system, {})
    return client.post("/integrationconfigs", json={**document, "configData": {**known, **data}})


@pytest.mark.parametrize("system", [*SYSTEMS, "WEBHOOK"])
@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"userToNotify": []}, "configData.userToNotify: [] is not allowed: did you mean 'users"),
        ({"colour": "red"}, "configData.colour: 'red' is not allowed: it must be one of "),
        ({"usersToNotify": [NOBODY]}, "configData.usersToNotify[0]: '0000"),
        ({"usersToNotify": "everybody"}, "configData.usersToNotify"),
        ({"usersToNotify": [["a"]]}, "configData.usersToNotify[0]"),
        ({"usersToNotify": [1]}, "configData.usersToNotify[0]"),
        ({"usersToNotify": {"a": 1}}, "configData.usersToNotify"),
    ],
    ids=str,
)
def test_what_no_system_understands_is_refused(client, webhook, system, data, said):
    answer = create(client, webhook, system, data)

    assert (answer.status_code, said in answer.json()["message"]) == (400, True), answer.text


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("name", ["accountIds", "restrictedAccountIds"])
@pytest.mark.parametrize("value", [[NOBODY], ["x"], "x", [None], [{}]], ids=str)
def test_accounts_are_those_that_there_are(client, webhook, system, name, value):
    answer = create(client, webhook, system, {name: value})

    assert (answer.status_code, f"configData.{name}" in answer.json()["message"]) == (400, True)


def test_accounts_mean_nothing_to_notifications(client, webhook):
    answer = create(client, webhook, "WEBHOOK", {"accountIds": []})

    assert (answer.status_code, answer.json()["message"].endswith("one of usersToNotify")) == (
        400,
        True,
    )


@pytest.mark.long
def test_users_of_the_organization_are_notified(client, webhook, server):
    person = join(server.stores.state, server.org_id)
    made = create(client, webhook, "WEBHOOK", {"usersToNotify": [person]})
    gone = {**made.json(), "configData": {"usersToNotify": [person, NOBODY]}}
    refused = client.put(f"/integrationconfigs/{made.json()['id']}", json=gone)

    assert (made.status_code, made.json()["configData"]) == (200, {"usersToNotify": [person]})
    assert (refused.status_code, "usersToNotify[1]" in refused.text) == (400, True)


@pytest.mark.parametrize("id_", [NOBODY, "x", 1, ["a"]], ids=str)
def test_a_notification_that_is_not_there_is_refused(client, webhook, id_):
    document = {"destination": "WEBHOOK", "entityType": "Notification", "destinationId": webhook}
    answer = client.post("/integrationconfigs", json={**document, "entityId": id_})

    assert answer.status_code == 400, answer.text
    assert answer.json()["message"].startswith(f"entityId: {id_!r} is not allowed: "), answer.text


def test_a_notification_that_is_there_is_named(client, webhook):
    names = {"code": "many_bills", "name": "Many bills", "description": "d"}
    rule = {"eventName": "billing.bill.created", "active": True, "alwaysFireEvent": True}
    known = client.post("/notifications/configurations", json={**names, **rule})
    assert known.status_code == 200, known.text
    document = {"destination": "WEBHOOK", "entityType": "Notification", "destinationId": webhook}
    made = client.post("/integrationconfigs", json={**document, "entityId": known.json()["id"]})
    gone = {**made.json(), "entityId": NOBODY}
    refused = client.put(f"/integrationconfigs/{made.json()['id']}", json=gone)

    assert (made.status_code, refused.status_code) == (200, 400), made.text
    rule = "it must be the id of a notification of the organization"
    assert refused.json()["message"] == f"entityId: {NOBODY!r} is not allowed: {rule}"
