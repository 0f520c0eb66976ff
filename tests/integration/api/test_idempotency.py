"""A POST with an Idempotency-Key acts once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx
import pytest

from meterlake.pipeline.access import idempotency
from meterlake.pipeline.access.idempotency import IdempotencyKey, claim
from meterlake.stores.processes import free_port
from tests.homes import ACCOUNTS, configure
from tests.served import running, served

OK = 200
KEY = "Idempotency-Key"
REPEATED = "idempotent-replayed"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("once") / "home", limit_config=False) as found:
        configure(found.organization, accounts=ACCOUNTS)
        yield found


@pytest.fixture
def http(server):
    with server.http() as client:
        yield client


def reasons(http):
    """The credit reasons that there are, by name; two may have one name."""
    return [
        each["name"] for each in http.get("/picklists/creditreasons?pageSize=100").json()["data"]
    ]


def send(http, name, key, path="/picklists/creditreasons"):
    return http.post(path, json={"name": name}, headers={KEY: key})


def test_a_request_that_comes_again_is_answered_as_the_first_one(http):
    first, second = (send(http, "lost answer", "a") for _ in range(2))

    assert (first.status_code, second.status_code) == (OK, OK), first.text
    assert second.content == first.content
    assert second.headers[REPEATED] == "true"
    assert REPEATED not in first.headers
    assert reasons(http).count("lost answer") == 1


def test_without_a_key_each_request_acts(http):
    for _ in range(2):
        assert http.post("/picklists/creditreasons", json={"name": "bare"}).status_code == OK

    assert reasons(http).count("bare") == 2


def test_of_requests_at_the_same_time_one_acts(server):
    start = threading.Barrier(4)
    token = server.token()

    def post(_):
        with server.http(token) as client:
            start.wait()
            return send(client, "at once", "b")

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(post, range(4)))

    assert {each.status_code for each in answers} == {OK}
    assert len({each.content for each in answers}) == 1
    assert sum(REPEATED in each.headers for each in answers) == 3
    with server.http() as client:
        assert reasons(client).count("at once") == 1


def test_another_server_of_the_home_and_one_that_starts_later_know_the_key(server, http):
    first = send(http, "restarted", "h")
    headers = {KEY: "h", "Authorization": http.headers["Authorization"]}
    with running(server.settings, free_port()) as url:
        place = f"{url}/organizations/{server.org_id}/picklists/creditreasons"
        second = httpx.post(place, json={"name": "restarted"}, headers=headers)

    assert (second.content, second.headers[REPEATED]) == (first.content, "true")
    assert reasons(http).count("restarted") == 1


def test_a_key_with_another_request_is_refused(http):
    assert send(http, "mine", "c").status_code == OK
    for answer in (send(http, "other", "c"), send(http, "mine", "c", "/picklists/debitreasons")):
        assert answer.status_code == 409
        assert answer.headers["x-should-retry"] == "false"
        assert answer.json()["message"] == (
            "Idempotency-Key 'c' came with another request before; send a new key with each request"
        )
    assert "other" not in reasons(http)


def test_what_was_refused_may_be_sent_again_with_the_key(http):
    assert http.post("/picklists/creditreasons", json={}, headers={KEY: "d"}).status_code == 400
    assert send(http, "mended", "d").status_code == OK
    assert send(http, "mended", "d").headers[REPEATED] == "true"


def test_a_key_has_1_to_255_characters(http):
    for key in ("", "k" * 256):
        answer = send(http, "long", key)
        assert answer.status_code == 400
        assert "it must have 1 to 255 characters" in answer.json()["message"]
    assert "long" not in reasons(http)
    assert send(http, "longest", "k" * 255).status_code == OK


def test_keys_of_another_principal_are_other_keys(server, http):
    assert send(http, "theirs", "e").status_code == OK
    key = IdempotencyKey(server.org_id, "USER_somebody", "e", b"another request")

    assert claim(server.stores, key) is None


def test_after_a_day_a_key_is_forgotten(http, monkeypatch):
    assert send(http, "again", "f").status_code == OK
    monkeypatch.setattr(idempotency, "KEPT", timedelta(0))
    assert REPEATED not in send(http, "again", "f").headers
    assert reasons(http).count("again") == 2


def test_a_request_whose_end_is_not_known_does_not_act_again(server, http, monkeypatch):
    monkeypatch.setattr("meterlake.api.server.idempotency_keys._WAIT_S", 0)
    first = send(http, "unknown", "g")
    assert first.status_code == OK
    with server.stores.state.writing_home() as connection:
        connection.exec_driver_sql("UPDATE idempotency_key SET answer = NULL")
    second = send(http, "unknown", "g")

    assert second.status_code == 409
    assert "its answer is not known" in second.json()["message"]
    assert reasons(http).count("unknown") == 1


def test_no_key_and_no_answer_is_stored_readable(server, http):
    secret_key = "a key that nobody reads"
    assert send(http, "readable", secret_key).status_code == OK
    with server.stores.state.reading_home() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM idempotency_key").all()

    text = repr(rows)
    assert rows
    assert "readable" not in text
    assert secret_key not in text
