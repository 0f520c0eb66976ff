import base64
import hashlib
import json
import re
from email import message_from_bytes
from email.policy import default
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from argon2 import PasswordHasher

from meterlake.pipeline.access import login
from meterlake.pipeline.access.invitation_email import send
from meterlake.pipeline.access.users import InvitationEmail
from meterlake.pipeline.home.setup import init_home
from meterlake.stores.state.access.sessions import Purpose
from tests.people import PASSWORD, join
from tests.served import served

GRANT = {"grant_type": "client_credentials"}
VERIFIER = "v" * 64
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode()[:43]
NOBODY = "0b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b11"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    patch = pytest.MonkeyPatch()
    patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
    with served(tmp_path_factory.mktemp("oauth") / "home") as running:
        join(running.stores.state, running.org_id)
        yield running
    patch.undo()


@pytest.fixture
def http(server):
    with httpx.Client(base_url=server.url) as client:
        yield client


def asked(server, **changes):
    fields = {
        "response_type": "code",
        "client_id": "console",
        "redirect_uri": f"{server.url}/console/callback",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "state": "st&te=1",
    }
    return {name: value for name, value in (fields | changes).items() if value is not None}


def hidden(page):
    return {
        unescape(name): unescape(value)
        for name, value in re.findall(r'type="hidden" name="([^"]*)" value="([^"]*)"', page)
    }


def sign_in(http, server, email="ada@example.com", password=PASSWORD, **changes):
    page = http.get("/oauth/authorize", params=asked(server, **changes))
    assert page.status_code == 200, page.text
    form = hidden(page.text) | {"email": email, "password": password}
    return http.post("/oauth/authorize", data=form)


def a_code(http, server):
    answer = sign_in(http, server)
    answer = http.get(answer.headers["location"])
    assert answer.status_code == 303
    return parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]


# --- Access keys


@pytest.mark.parametrize(
    "body", [{"json": GRANT}, {"data": GRANT}, {"json": GRANT | {"scope": "x"}}]
)
def test_a_key_becomes_a_token(server, http, body):
    answer = http.post("/oauth/token", auth=(server.key, server.secret), **body)

    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    document = answer.json()
    assert set(document) == {"access_token", "token_type", "expires_in", "scope"}
    assert (document["token_type"], document["expires_in"], document["scope"]) == (
        "Bearer",
        18000,
        None,
    )


@pytest.mark.sees("GetLiveness", "GetReadiness", "GetMetrics")
def test_a_server_says_that_it_is_well_and_counts_what_it_answers(server):
    def get(path):
        found = httpx.get(f"{server.url}{path}")
        assert found.status_code == httpx.codes.OK
        return found.text

    def counted():
        text = get("/metrics")
        found = re.findall(r'meterlake_requests_total\{.*operation="GetMe".*\} ([0-9.]+)', text)
        return sum(map(float, found))

    assert get("/healthz")
    assert get("/readyz")
    before = counted()
    assert server.sdk().users.me().service_user.id
    assert counted() == before + 1


def test_the_sdk_gets_its_token_and_calls(server):
    assert server.sdk().users.me().service_user.id


@pytest.mark.parametrize(
    ("body", "type"),
    [
        (b"", "application/json"),
        (b"{}", "application/json"),
        (b"[]", "application/json"),
        (b"{", "application/json"),
        (b'{"grant_type": 1}', "application/json"),
        (b'{"grant_type": "password"}', "application/json"),
        (b"\xff", "application/json"),
        (b"", "application/x-www-form-urlencoded"),
        (b"grant_type=", "application/x-www-form-urlencoded"),
        (b"grant_type=password", "application/x-www-form-urlencoded"),
        (b"grant_type=client_credentials&grant_type=x", "application/x-www-form-urlencoded"),
        (b"&".join(b"a%d=1" % n for n in range(100)), "application/x-www-form-urlencoded"),
        (b"\xff=\xff", "application/x-www-form-urlencoded"),
        (b"grant_type=authorization_code&client_id=console", "application/x-www-form-urlencoded"),
        (b"grant_type=refresh_token&client_id=console", "application/x-www-form-urlencoded"),
        (b"grant_type=refresh_token&refresh_token=x", "application/x-www-form-urlencoded"),
    ],
)
def test_a_bad_request_is_told_so(server, http, body, type):
    answer = http.post(
        "/oauth/token",
        content=body,
        headers={"content-type": type},
        auth=(server.key, server.secret),
    )

    assert answer.status_code == 400
    assert set(answer.json()) == {"message"}


def test_a_large_body_is_refused(http):
    answer = http.post("/oauth/token", json=GRANT | {"scope": "x" * 20_000})

    assert 400 <= answer.status_code < 500
    assert answer.json()["message"]


def basic(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return "Basic " + base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Basic",
        "Basic !!!",
        "Bearer x",
        basic(":"),
        basic("\x00:\x00"),
        basic(b"\xff:\xff"),
        basic(f"{NOBODY}:secret"),
    ],
)
def test_bad_credentials_are_refused(http, header):
    headers = {} if header is None else {"authorization": header}
    answer = http.post("/oauth/token", json=GRANT, headers=headers)

    assert answer.status_code == 401
    assert set(answer.json()) == {"message"}
    assert "Basic" in answer.headers["www-authenticate"]


def test_who_guesses_keys_is_slowed_down_and_nobody_else(tmp_path):
    with served(tmp_path / "home") as running, httpx.Client(base_url=running.url) as http:
        answers = {
            http.post("/oauth/token", json=GRANT, auth=(running.key, f"guess {n}")).status_code
            for n in range(80)
        }
        assert answers == {401, 429}
        refused = http.post("/oauth/token", json=GRANT, auth=(running.key, "guess"))
        assert int(refused.headers["retry-after"]) >= 1
        assert http.post("/oauth/token", json=GRANT, auth=(running.key, running.secret)).is_success


def test_a_token_opens_its_own_organization_only(server, http):
    other = init_home(server.settings, "Another", lambda _: None)
    bearer = {"authorization": f"Bearer {server.token()}"}

    assert http.get(f"/organizations/{server.org_id}/users/me", headers=bearer).status_code == 200
    for org in (other.org_id, NOBODY, "nothing"):
        answer = http.get(f"/organizations/{org}/users/me", headers=bearer)
        assert answer.status_code == 403


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer x.y.z", "Basic eDp5"])
def test_a_call_without_a_token_is_refused(server, http, header):
    headers = {} if header is None else {"authorization": header}
    answer = http.get(f"/organizations/{server.org_id}/users/me", headers=headers)

    assert answer.status_code == 401
    assert answer.json()["message"]


@pytest.mark.sees("GetKeySet")
def test_public_keys_are_published(server, http):
    server.token()
    keys = http.get("/.well-known/jwks.json").json()["keys"]

    assert [key["alg"] for key in keys] == ["EdDSA"]
    assert all("d" not in key for key in keys)


# --- People


def test_a_person_signs_in_and_calls(server, http):
    first = sign_in(http, server)
    assert first.status_code == 303
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=lax" in cookie
    answer = http.get(first.headers["location"])
    back = urlsplit(answer.headers["location"])
    assert f"{back.scheme}://{back.netloc}{back.path}" == f"{server.url}/console/callback"
    query = parse_qs(back.query)
    assert query["state"] == ["st&te=1"]
    issued = http.post(
        "/oauth/token",
        data={
            "grant_type": "authorization_code",
            "client_id": "console",
            "code": query["code"][0],
            "code_verifier": VERIFIER,
            "redirect_uri": f"{server.url}/console/callback",
        },
    ).json()
    assert issued["expires_in"] == 18000
    # Ada has no policy yet.
    bearer = {"authorization": f"Bearer {issued['access_token']}"}
    me = f"/organizations/{server.org_id}/users/me"
    assert http.get(me, headers=bearer).status_code == 403
    again = {
        "grant_type": "refresh_token",
        "client_id": "console",
        "refresh_token": issued["refresh_token"],
    }
    assert http.post("/oauth/token", data=again).status_code == 200
    assert http.post("/oauth/logout").status_code == 200
    assert http.get("/oauth/authorize", params=asked(server)).status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        {"client_id": "another"},
        {"client_id": None},
        {"response_type": "token"},
        {"redirect_uri": "https://evil.example/console/callback"},
        {"redirect_uri": "http://127.0.0.1/console/callback"},
        {"redirect_uri": "javascript:alert(1)"},
        {"redirect_uri": None},
        {"code_challenge": None},
        {"code_challenge": "short"},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
    ],
)
def test_what_a_client_may_not_ask_leads_nowhere(server, http, change):
    answer = http.get("/oauth/authorize", params=asked(server, **change))

    assert answer.status_code == 400
    assert "location" not in answer.headers
    form = asked(server, **change) | {"email": "ada@example.com", "password": PASSWORD}
    assert http.post("/oauth/authorize", data=form).status_code == 400


def test_the_page_is_closed_to_everything_else(server, http):
    page = http.get("/oauth/authorize", params=asked(server, state='"><script>alert(1)</script>'))
    policy = page.headers["content-security-policy"]

    assert "<script" not in page.text
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert page.headers["cache-control"] == "no-store"
    assert not re.search(r'(src|href)="?https?:', page.text)
    for field in ("email", "password"):
        assert f'<label for="{field}">' in page.text


def test_a_form_of_another_site_is_refused(server, http):
    form = asked(server) | {"email": "ada@example.com", "password": PASSWORD}
    for csrf in ({}, {"csrf": ""}, {"csrf": "guess"}):
        answer = http.post("/oauth/authorize", data=form | csrf)
        assert answer.status_code == 400
        assert "meterlake_session" not in answer.headers.get("set-cookie", "")


def test_a_wrong_password_shows_the_page_again(server, http):
    for email in ("ada@example.com", "eve@example.com"):
        answer = sign_in(http, server, email, "wrong password")
        assert answer.status_code == 401
        assert 'role="alert"' in answer.text
        assert "wrong password" not in answer.text
        assert "meterlake_session" not in answer.headers.get("set-cookie", "")


def test_guessing_passwords_is_slowed_down(server, http):
    answers = [sign_in(http, server, "Victim@example.com", f"guess {n}") for n in range(12)]

    assert [each.status_code for each in answers] == [401] * 10 + [429] * 2
    assert int(answers[-1].headers["retry-after"]) >= 1
    # Another way to write the address is the same person.
    assert sign_in(http, server, " victim@EXAMPLE.com", PASSWORD).status_code == 429
    assert sign_in(http, server, "other@example.com", "wrong").status_code == 401


def test_a_code_is_worth_nothing_without_its_verifier(server, http):
    answer = http.post(
        "/oauth/token",
        data={
            "grant_type": "authorization_code",
            "client_id": "console",
            "code": a_code(http, server),
            "code_verifier": "w" * 64,
            "redirect_uri": f"{server.url}/console/callback",
        },
    )

    assert answer.status_code == 401


def test_a_stranger_organization_cannot_be_chosen(server, http):
    sign_in(http, server)
    answer = http.get("/oauth/authorize", params=asked(server, organization=NOBODY))

    assert answer.status_code == 403
    assert "location" not in answer.headers


# --- Letters


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("firstName", "Ada\r\n\r\nYour link: https://evil.example"),
        ("firstName", "Ada\n"),
        ("lastName", "Love\rlace"),
        ("lastName", "Love\u2028lace"),
        ("lastName", "\u202eecalevoL"),
        ("contactNumber", "1\x0b2"),
        ("email", "victim,ada@example.com"),
        ("email", "Ada<ada@example.com>"),
        ("email", "ada@example.com;eve.example"),
    ],
)
def test_an_invitation_cannot_change_what_its_letter_says(server, field, value):
    before = set((server.settings.home / "outbox").glob("*"))
    body = {"firstName": "Ada", "lastName": "L", "email": "new@example.com", field: value}

    with server.http() as administrator:
        answer = administrator.post("/invitations", json=body)

    assert answer.status_code == 400
    assert field in answer.json()["message"]
    assert set((server.settings.home / "outbox").glob("*")) == before


def test_a_stored_name_stays_on_its_line_of_the_letter(server):
    letter = InvitationEmail(
        "old@example.com", "Ada\r\n\r\nEvil\x85words", Purpose.INVITATION, "token"
    )
    send(server.stores, letter)

    newest = max((server.settings.home / "outbox").glob("*.eml"), key=lambda p: p.stat().st_mtime)
    assert b"Hello Ada Evil words,\r\n" in newest.read_bytes()


@pytest.mark.parametrize(
    "name",
    [
        "https://evil.example/x",
        "evil.example",
        "www.evil.example",
        "evil\u3002example",
        "a@evil.io",
    ],
)
def test_the_name_of_an_invitation_is_no_link_in_its_letter(server, name):
    before = set((server.settings.home / "outbox").glob("*.eml"))
    body = {"firstName": f"Sign in at {name} now", "lastName": "L", "email": "n@example.com"}
    with server.http() as administrator:
        assert administrator.post("/invitations", json=body).status_code == 200

    [made] = set((server.settings.home / "outbox").glob("*.eml")) - before
    letter = message_from_bytes(made.read_bytes(), policy=default).get_content()
    assert "Hello Sign in at " in letter
    assert name not in letter
    assert not re.findall(r"\S[.\u3002]\w{2,}", letter)


@pytest.mark.long
def test_cookies_are_for_tls_where_people_reach_the_server_by_tls(tmp_path):
    for url, secure in ((None, False), ("http://a.example", False), ("https://a.example", True)):
        with (
            served(tmp_path / str(url)[:5] / "home", public_url=url) as running,
            httpx.Client(base_url=running.url) as client,
        ):
            page = client.get("/oauth/authorize", params=asked(running))
            out = client.post("/oauth/logout")
        cookies = [each.headers["set-cookie"] for each in (page, out)]
        assert ["Secure" in each.split("; ") for each in cookies] == [secure, secure]
        assert "meterlake_session" in cookies[1]


def test_an_invited_person_chooses_a_password_and_signs_in(server, http):
    made = server.sdk().users.invitations.create(
        email="grace@example.com", first_name="Grace", last_name="Hopper"
    )
    assert made.accepted is False
    newest = max((server.settings.home / "outbox").glob("*.eml"), key=lambda p: p.stat().st_mtime)
    letter = message_from_bytes(newest.read_bytes(), policy=default)
    assert letter["To"] == "grace@example.com"
    token = re.search(r"token=(\S+)", letter.get_content()).group(1)

    page = http.get("/oauth/password", params={"token": token})
    assert "New password" in page.text
    short = http.post("/oauth/password", data=hidden(page.text) | {"password": "short"})
    assert short.status_code == 400
    assert "12 to 256" in short.text
    done = http.post("/oauth/password", data=hidden(page.text) | {"password": PASSWORD})
    assert "You can sign in now" in done.text
    assert sign_in(http, server, "grace@example.com").status_code == 303
    assert http.get("/oauth/password", params={"token": token}).status_code == 401
    assert server.sdk().users.invitations.retrieve(id=made.id).accepted is True


@pytest.mark.parametrize("token", ["", "x", "\x00", "<script>"])
def test_a_link_that_is_none_shows_no_form(http, token):
    page = http.get("/oauth/password", params={"token": token})

    assert page.status_code == 401
    assert "<form" not in page.text
    assert "<script" not in page.text


def test_a_link_is_followed_from_its_page_only(http):
    answer = http.post("/oauth/password", data={"token": "x", "password": PASSWORD})

    assert answer.status_code == 401


@pytest.mark.parametrize("name", ["csrf", "email", "password", "state"])
def test_half_a_character_on_the_sign_in_page_is_refused(server, http, name):
    page = http.get("/oauth/authorize", params=asked(server))
    form = hidden(page.text) | {"email": "ada@example.com", "password": PASSWORD}
    body = json.dumps(form | {name: "\ud800"})

    answer = http.post(
        "/oauth/authorize", content=body, headers={"content-type": "application/json"}
    )

    assert answer.status_code == 400
    assert "surrogates" in answer.json()["message"]
