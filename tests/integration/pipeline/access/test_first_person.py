"""The first person of an organization: joins by the link that a starting server prints, once."""

import re
from html import unescape

import httpx
import pytest
from argon2 import PasswordHasher

from meterlake.model.errors import Unauthorized
from meterlake.pipeline.access import login, users
from meterlake.pipeline.access.invitation_email import PATH
from tests.people import PASSWORD, join
from tests.served import served

ADA = {"firstName": "Ada", "lastName": "Lovelace", "email": "ada@acme.example"}


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
    with served(tmp_path / "home") as found:
        yield found


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url) as client:
        yield client


def link_of(server):
    [token] = users.first_person_links(server.stores.state).values()
    return token


def follow(http, token, **form):
    page = http.get(PATH, params={"token": token})
    hidden = re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page.text)
    fields = {unescape(name): unescape(value) for name, value in hidden}
    return http.post(PATH, data={**fields, **form})


def test_the_first_person_is_an_administrator_and_signed_in(server, http):
    answer = follow(http, link_of(server), password=PASSWORD, **ADA)

    assert (answer.status_code, answer.headers["location"]) == (303, "/console")
    assert "meterlake_session" in answer.headers["set-cookie"]
    [ada] = server.sdk().users.list()
    assert ada.email == ADA["email"]
    [policy] = server.sdk().users.get_permissions(id=ada.id).data
    assert policy["name"] == "Administrator"


def test_the_link_works_once_and_only_while_nobody_has_joined(server, http):
    token = link_of(server)
    assert follow(http, token, password=PASSWORD, **ADA).status_code == 303
    again = follow(http, token, password=PASSWORD, **ADA | {"email": "eve@acme.example"})

    assert again.status_code == 401
    assert users.first_person_links(server.stores.state) == {}


def test_a_link_is_dead_when_somebody_was_invited_and_joined(server, http):
    token = link_of(server)
    join(server.stores.state, server.org_id)

    assert follow(http, token, password=PASSWORD, **ADA).status_code == 401
    with pytest.raises(Unauthorized):  # Also whoever had the page open before.
        users.join_first(server.stores.state, token, PASSWORD, ADA)
    assert len(list(server.sdk().users.list())) == 1


def test_a_new_link_replaces_the_last_one(server, http):
    first, second = link_of(server), link_of(server)

    assert http.get(PATH, params={"token": first}).status_code == 401
    assert http.get(PATH, params={"token": second}).status_code == 200


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "short"}, "12 to 256"),
        ({"email": "nothing"}, "email"),
        ({"email": "a,b@acme.example"}, "email"),
        ({"firstName": ""}, "firstName"),
        ({"lastName": "x\r\nBcc: y"}, "lastName"),
    ],
)
def test_what_is_wrong_is_said_and_the_link_stays_good(server, http, change, said):
    token = link_of(server)
    wrong = follow(http, token, **{**ADA, "password": PASSWORD, **change})

    assert wrong.status_code == 400
    assert said in wrong.text
    assert 'value="ada@acme.example"' in wrong.text or "email" in change
    assert list(server.sdk().users.list()) == []
    assert follow(http, token, password=PASSWORD, **ADA).status_code == 303


def test_a_sign_in_link_signs_its_person_in_once(server, http):
    person = join(server.stores.state, server.org_id)
    token = users.sign_in_link(server.stores.state, server.org_id, person)

    assert "password" not in re.findall(
        r'name="(\w+)"', http.get(PATH, params={"token": token}).text
    )
    answer = follow(http, token)
    assert answer.status_code == 303
    session = login.session_of(server.stores.state, http.cookies["meterlake_session"])
    assert session.person_id == person
    assert http.get(PATH, params={"token": token}).status_code == 401


def test_a_link_of_one_kind_is_no_other(server):
    person = join(server.stores.state, server.org_id)
    token = users.sign_in_link(server.stores.state, server.org_id, person)

    for use in (users.accept_invitation, users.choose_password):
        with pytest.raises(Unauthorized):
            use(server.stores.state, token, PASSWORD)
    with pytest.raises(Unauthorized):
        users.join_first(server.stores.state, token, PASSWORD, ADA)
