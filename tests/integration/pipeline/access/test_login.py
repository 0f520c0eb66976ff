import base64
import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from argon2 import PasswordHasher

from meterlake.model.errors import Forbidden, Unauthorized
from meterlake.pipeline.access import login, users
from meterlake.pipeline.access.access import permissions_of
from meterlake.pipeline.access.tokens import Tokens
from meterlake.stores.secrets import Secrets
from tests.organizations import new_organization
from tests.people import PASSWORD, join

VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode()[:43]
BACK = "http://localhost/console/callback"


@pytest.fixture(autouse=True)
def cheap_hashes(monkeypatch):
    monkeypatch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))


@pytest.fixture(autouse=True)
def ada(cheap_hashes, state, org):  # noqa: ARG001  (before the password is hashed)
    return join(state, org)


@pytest.fixture
def tokens(state, tmp_path):
    return Tokens(state, Secrets(tmp_path / "secret.key"))


def session(state):
    return login.session_of(state, login.sign_in(state, "ada@example.com", PASSWORD))


def code(state, org, **changes):
    return login.new_code(state, session(state), org, BACK, changes.get("challenge", CHALLENGE))


@pytest.mark.parametrize(
    ("email", "password"),
    [
        ("ada@example.com", "wrong password"),
        ("ada@example.com", ""),
        ("ada@example.com", PASSWORD + " "),
        ("eve@example.com", PASSWORD),
        ("", ""),
        ("\x00", PASSWORD),
        ("ada@example.com", "\ud800"),
        ("ada@example.com", "x" * 10_000),
    ],
)
def test_wrong_credentials_are_refused_alike(state, email, password):
    with pytest.raises(Unauthorized) as error:
        login.sign_in(state, email, password)

    assert str(error.value) == "the e-mail address or the password is wrong; check both"


def test_a_code_becomes_tokens_once(state, org, ada, tokens):
    made = code(state, org)
    issued = login.exchange_code(state, tokens, made, VERIFIER, BACK)
    principal = tokens.verify(issued.access_token)

    assert (principal.id, principal.org_id) == (ada, org)
    assert permissions_of(state, principal).empty
    with pytest.raises(Unauthorized):
        login.exchange_code(state, tokens, made, VERIFIER, BACK)
    # Somebody else has the code: what came from it ends, too.
    with pytest.raises(Unauthorized):
        permissions_of(state, principal)
    with pytest.raises(Unauthorized):
        login.exchange_refresh_token(state, tokens, issued.refresh_token)


@pytest.mark.parametrize(
    ("verifier", "redirect"),
    [
        ("w" * 43, BACK),
        ("", BACK),
        (CHALLENGE, BACK),
        (VERIFIER, "http://localhost/console/callback/"),
        (VERIFIER, ""),
    ],
)
def test_a_code_is_worth_nothing_to_who_did_not_ask_for_it(state, org, tokens, verifier, redirect):
    with pytest.raises(Unauthorized):
        login.exchange_code(state, tokens, code(state, org), verifier, redirect)


def test_a_short_verifier_is_refused_even_if_it_fits(state, org, tokens):
    short = base64.urlsafe_b64encode(hashlib.sha256(b"short").digest()).decode()[:43]

    with pytest.raises(Unauthorized):
        login.exchange_code(state, tokens, code(state, org, challenge=short), "short", BACK)


def test_a_code_is_over_after_a_minute(state, org, tokens, clock):
    made = code(state, org)
    clock.advance(seconds=60)

    with pytest.raises(Unauthorized):
        login.exchange_code(state, tokens, made, VERIFIER, BACK)


def test_codes_and_refresh_tokens_are_not_each_other(state, org, tokens):
    with pytest.raises(Unauthorized):
        login.exchange_refresh_token(state, tokens, code(state, org))
    issued = login.exchange_code(state, tokens, code(state, org), VERIFIER, BACK)
    with pytest.raises(Unauthorized):
        login.exchange_code(state, tokens, issued.refresh_token, VERIFIER, BACK)


def test_a_code_is_for_an_organization_that_one_may_enter(state):
    other = new_organization(state, "other")

    for stranger in (other, "nothing"):
        with pytest.raises(Forbidden):
            code(state, stranger)


def test_refresh_tokens_are_good_once_until_the_session_is_over(state, org, tokens, clock):
    first = login.exchange_code(state, tokens, code(state, org), VERIFIER, BACK)
    second = login.exchange_refresh_token(state, tokens, first.refresh_token)
    clock.advance(hours=12)
    with pytest.raises(Unauthorized):
        login.exchange_refresh_token(state, tokens, second.refresh_token)


def test_of_many_at_once_one_gets_the_tokens(state, org, tokens):
    made = code(state, org)

    def exchange(_):
        try:
            return login.exchange_code(state, tokens, made, VERIFIER, BACK)
        except Unauthorized:
            return None

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(exchange, range(8)))

    # The others' attempts end the session; who was first has tokens, or was stopped on the way.
    assert sum(each is not None for each in found) <= 1
    with pytest.raises(Unauthorized):
        login.exchange_code(state, tokens, made, VERIFIER, BACK)


def test_a_stolen_refresh_token_ends_the_session(state, org, tokens):
    first = login.exchange_code(state, tokens, code(state, org), VERIFIER, BACK)
    second = login.exchange_refresh_token(state, tokens, first.refresh_token)
    with pytest.raises(Unauthorized):
        login.exchange_refresh_token(state, tokens, first.refresh_token)

    with pytest.raises(Unauthorized):
        login.exchange_refresh_token(state, tokens, second.refresh_token)
    with pytest.raises(Unauthorized):
        permissions_of(state, tokens.verify(second.access_token))


def test_signing_out_ends_all_that_came_from_the_session(state, org, tokens):
    secret = login.sign_in(state, "ada@example.com", PASSWORD)
    made = login.new_code(state, login.session_of(state, secret), org, BACK, CHALLENGE)
    issued = login.exchange_code(state, tokens, made, VERIFIER, BACK)
    login.sign_out(state, "another")
    assert login.session_of(state, secret) is not None
    login.sign_out(state, secret)

    assert login.session_of(state, secret) is None
    with pytest.raises(Unauthorized):
        permissions_of(state, tokens.verify(issued.access_token))
    with pytest.raises(Unauthorized):
        login.exchange_refresh_token(state, tokens, issued.refresh_token)


def test_a_new_password_ends_the_sessions_of_the_old(state, org, ada):
    secret = login.sign_in(state, "ada@example.com", PASSWORD)
    letter = users.renew_password(state, org, "test", ada)
    newer = users.renew_password(state, org, "test", ada)
    with pytest.raises(Unauthorized):
        users.follow(state, letter.token, "another long password")
    users.follow(state, newer.token, "another long password")

    assert login.session_of(state, secret) is None
    with pytest.raises(Unauthorized):
        login.sign_in(state, "ada@example.com", PASSWORD)
    login.sign_in(state, "ada@example.com", "another long password")


def test_no_secret_is_stored(state, org, ada, tokens):
    secret = login.sign_in(state, "ada@example.com", PASSWORD)
    made = login.new_code(state, login.session_of(state, secret), org, BACK, CHALLENGE)
    issued = login.exchange_code(state, tokens, made, VERIFIER, BACK)
    from sqlalchemy import select

    from meterlake.stores.state.core.tables import METADATA

    with state.reading_home() as connection:
        dump = "\n".join(
            str(row)
            for table in METADATA.tables.values()
            for row in connection.execute(select(table))
        )
    assert ada in dump
    for hidden in (secret, made, issued.access_token, issued.refresh_token, PASSWORD, "PRIVATE"):
        assert hidden not in dump
