"""Secrets that are masked in answers go nowhere else because somebody changes an address."""

import itertools

import pytest

from tests.served import served

MASK = "********"
URL = "https://billing.example.com/in"
KEY = {"type": "STATIC_API_KEY", "apiKey": "the key"}
BASIC = {"type": "HTTP_BASIC", "username": "ada", "password": "the password"}
OAUTH = {
    "type": "OAUTH_CLIENT_CREDENTIALS",
    "clientId": "me",
    "clientSecret": "the secret",
    "tokenUrl": "https://login.example.com/token",
}
FIELDS = [(KEY, "apiKey"), (BASIC, "password"), (OAUTH, "clientSecret")]
_numbers = itertools.count()


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    home = tmp_path_factory.mktemp("hosts") / "home"
    with served(home, webhook_must_resolve=False) as running, running.http() as opened:
        yield opened


def document(credentials, url=URL, **more):
    known = {} if credentials is None else {"credentials": credentials}
    data = {"configData": {"url": url}, "name": f"n{next(_numbers)}"}
    return {"entityType": "Bill", "destination": "HTTP", **data, **known, **more}


def create(client, credentials, **more):
    answer = client.post("/integrationconfigs", json=document(credentials, **more))
    assert answer.status_code == 200, answer.text
    return answer.json()


def update(client, made, credentials, url=URL, **more):
    changed = document(credentials, url, version=made["version"], **more)
    return client.put(f"/integrationconfigs/{made['id']}", json=changed)


@pytest.mark.parametrize(("credentials", "field"), FIELDS)
@pytest.mark.parametrize(
    "url",
    ["https://evil.example.com/in", "https://billing.example.com:8443/in"],
    ids=["host", "port"],
)
def test_a_masked_secret_does_not_move_to_another_origin(client, credentials, field, url):
    made = create(client, credentials)
    answer = update(client, made, made["credentials"], url)

    assert answer.status_code == 400
    assert f"credentials.{field}: '{MASK}'" in answer.json()["message"]
    assert "secret itself once more" in answer.json()["message"]
    stored = client.get(f"/integrationconfigs/{made['id']}").json()
    assert (stored["version"], stored["configData"]["url"]) == (1, URL)


def test_a_masked_secret_does_not_move_to_another_place_for_tokens(client):
    made = create(client, OAUTH)
    elsewhere = made["credentials"] | {"tokenUrl": "https://evil.example.com/token"}
    swapped = made["credentials"] | {"tokenUrl": URL}

    moved = update(client, made, elsewhere)
    exchanged = update(client, made, swapped, OAUTH["tokenUrl"])
    assert (moved.status_code, exchanged.status_code) == (400, 400)
    assert "credentials.clientSecret" in moved.json()["message"]


def test_a_masked_secret_does_not_move_to_another_system(client):
    stripe = {"entityType": "Bill", "destination": "STRIPE", "credentials": KEY}
    made = client.post("/integrationconfigs", json=stripe).json()
    answer = update(client, made, made["credentials"], "https://evil.example.com/")

    assert (answer.status_code, "credentials.apiKey" in answer.text) == (400, True)


@pytest.mark.parametrize(("credentials", "field"), FIELDS)
def test_a_secret_that_is_left_out_is_not_kept(client, credentials, field):
    made = create(client, credentials)
    rest = {name: value for name, value in made["credentials"].items() if name != field}
    answer = update(client, made, rest, "https://evil.example.com/")

    assert (answer.status_code, answer.json()["message"]) == (
        400,
        f"credentials.{field} is required",
    )


def test_credentials_that_are_left_out_are_gone(client):
    made = create(client, KEY)
    changed = update(client, made, None, "https://other.example.com/").json()

    assert "credentials" not in changed
    own = made["integrationCredentialsId"]
    again = update(client, changed, None, URL, integrationCredentialsId=own)
    assert (again.status_code, "integrationCredentialsId" in again.text) == (400, True)


@pytest.mark.parametrize("url", [URL + "/deeper?a=b", "https://BILLING.example.com:443/"])
def test_a_masked_secret_stays_with_its_origin(client, url):
    made = create(client, KEY)
    changed = update(client, made, made["credentials"], url)

    assert (changed.status_code, changed.json()["configData"]["url"]) == (200, url)


def test_a_secret_that_is_given_again_goes_where_it_is_sent(client):
    made = create(client, KEY)
    changed = update(client, made, KEY, "https://other.example.com/")

    assert (changed.status_code, changed.json()["version"]) == (200, 2)


def test_shared_credentials_do_not_go_to_another_host(client):
    owner = create(client, KEY)
    shared = {"integrationCredentialsId": owner["integrationCredentialsId"]}
    elsewhere = document(None, "https://evil.example.com/", **shared)
    refused = client.post("/integrationconfigs", json=elsewhere)
    sharer = create(client, None, url=f"{URL}/2", **shared)
    moved = update(client, sharer, None, "https://evil.example.com/", **shared)

    assert (refused.status_code, moved.status_code) == (400, 400)
    assert "integrationCredentialsId" in refused.json()["message"]
    assert "same host" in moved.json()["message"]


def test_credentials_whose_owner_moved_are_not_shared_any_more(client):
    owner = create(client, KEY)
    sharer = create(client, None, integrationCredentialsId=owner["integrationCredentialsId"])
    before = client.get(f"/integrationconfigs/{sharer['id']}").json()["authorized"]
    update(client, owner, KEY, "https://other.example.com/")

    after = client.get(f"/integrationconfigs/{sharer['id']}").json()["authorized"]
    assert (before, after) == (True, False)


def test_a_webhook_moves_with_its_signing_secret_but_with_no_masked_key(client):
    credentials = {"type": "M3TER_SIGNED_REQUEST", "apiKey": "key", "secret": "signs"}
    webhook = {"name": "Chat", "description": "d", "credentials": credentials, "url": URL}
    path = "/integrationdestinations/webhooks"
    made = client.post(path, json=webhook).json()
    moved = webhook | {"url": "https://other.example.com/", "version": 1}
    kept = moved | {"credentials": credentials | {"secret": MASK}}
    masked = moved | {"credentials": credentials | {"apiKey": MASK}}

    refused = client.put(f"{path}/{made['id']}", json=masked)
    taken = client.put(f"{path}/{made['id']}", json=kept)
    assert (refused.status_code, "credentials.apiKey" in refused.text) == (400, True)
    assert (taken.status_code, taken.json()["credentials"]["apiKey"]) == (200, "key")
