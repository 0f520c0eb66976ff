"""Secrets that came in over the API are in no byte of the home, in no log, in no answer."""

import logging

import httpx
import pytest

from tests.served import served

CANARY = "c4naryC4NARYc4nary"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served") / "home") as running:
        yield running


def made(http, path, **body):
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer


def told_secrets(server, http):
    """Secrets of every kind: those that callers give, and those that we make."""
    credentials = {"type": "M3TER_SIGNED_REQUEST", "apiKey": "key", "secret": CANARY}
    hook = {
        "name": "Hook",
        "code": "hook",
        "description": "Tells",
        "url": "https://hooks.example.com/in",
        "credentials": credentials,
    }
    answers = [made(http, "/integrationdestinations/webhooks", **hook)]
    place = f"/integrationdestinations/webhooks/{answers[0].json()['id']}"
    again = http.put(place, json=hook | {"version": 1, "name": "Again"})  # Its history, too.
    assert again.is_success, again.text
    user = made(http, "/serviceusers", name="Robot").json()["id"]
    key = made(http, f"/serviceusers/{user}/accesskeys").json()
    wrong = httpx.post(
        f"{server.url}/oauth/token",
        json={"grant_type": "client_credentials"},
        auth=(key["id"], CANARY),
    )
    assert wrong.status_code == 401
    refused = http.post("/integrationdestinations/webhooks", json=hook | {"credentials": CANARY})
    assert refused.status_code == 400
    answers += [again, http.get(place), http.get("/events"), wrong, refused]
    return {CANARY, key["apiSecret"], server.secret, server.token()}, answers


def test_a_secret_is_in_no_byte_of_a_home_and_in_no_log(server, caplog):
    caplog.set_level(logging.DEBUG)
    with server.http() as http:
        secrets, answers = told_secrets(server, http)
        assert [each.text for each in answers if CANARY in each.text] == []
    files = [each for each in server.settings.home.rglob("*") if each.is_file()]
    assert {"state.sqlite", "state.sqlite-wal", "catalog.sqlite"} <= {each.name for each in files}
    kept = b"Hook"  # What was sent beside the secret is found: the search is no idle one.
    assert any(kept in each.read_bytes() for each in files)
    found = [
        (secret, each)
        for each in files
        for secret in secrets
        if secret.encode() in each.read_bytes()
    ]
    assert found == []
    assert [each for each in secrets if each in caplog.text] == []
