import base64
import hashlib
import hmac
import json

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from jwt.algorithms import OKPAlgorithm

from meterlake.model.configuration.access import Principal, PrincipalType
from meterlake.model.errors import Forbidden, Unauthorized, Unavailable
from meterlake.pipeline.access import tokens as module
from meterlake.pipeline.access.tokens import LIFETIME_S, Tokens, rotate
from meterlake.stores.secrets import Secrets

PRINCIPAL = Principal(
    PrincipalType.SERVICEUSER,
    "0b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b11",
    "6b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b12",
    "7b0e5a9c-4b0f-4a53-8a2c-6a4c5d1c3b13",
)


@pytest.fixture
def secrets(tmp_path):
    return Secrets(tmp_path / "secret.key")


@pytest.fixture
def tokens(state, secrets, clock):
    return made(state, secrets, clock)


def made(state, secrets, clock, **options):
    return Tokens(state, secrets, monotonic=lambda: clock().timestamp(), **options)


def parts(token):
    return [json.loads(base64.urlsafe_b64decode(p + "==")) for p in token.split(".")[:2]]


def joined(header, claims, signature=b""):
    texts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(t).decode().rstrip("=") for t in texts)


def test_a_token_tells_who_asks(tokens):
    token = tokens.issue(PRINCIPAL)
    header, claims = parts(token)

    assert tokens.verify(token) == PRINCIPAL
    assert header["alg"] == "EdDSA"
    assert claims["exp"] - claims["iat"] == LIFETIME_S == 18_000
    assert claims["nbf"] == claims["iat"]
    assert PRINCIPAL.author == f"SERVICE_USER_{PRINCIPAL.id}"


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "a.b", "..", "é.é.é", "\ud800", "x" * 5000])
def test_what_is_no_token_is_refused(tokens, token):
    with pytest.raises(Unauthorized):
        tokens.verify(token)


def test_every_changed_character_is_noticed(tokens):
    token = tokens.issue(PRINCIPAL)
    for place in range(0, len(token) - 1, 7):
        changed = token[:place] + ("A" if token[place] != "A" else "B") + token[place + 1 :]
        with pytest.raises(Unauthorized):
            tokens.verify(changed)


def test_an_unsigned_token_is_refused(tokens):
    header, claims = parts(tokens.issue(PRINCIPAL))

    for alg in ("none", "None", "NONE", ""):
        with pytest.raises(Unauthorized):
            tokens.verify(joined(header | {"alg": alg}, claims))


def test_the_public_key_is_no_shared_secret(tokens):
    header, claims = parts(tokens.issue(PRINCIPAL))
    public = tokens._public[header["kid"]]
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )

    for key in (raw, pem, pem.strip()):
        unsigned = joined(header | {"alg": "HS256"}, claims).rpartition(".")[0]
        signature = hmac.new(key, unsigned.encode(), hashlib.sha256).digest()
        with pytest.raises(Unauthorized):
            tokens.verify(joined(header | {"alg": "HS256"}, claims, signature))


def test_a_key_that_the_token_brings_along_is_not_used(tokens):
    header, claims = parts(tokens.issue(PRINCIPAL))
    own = Ed25519PrivateKey.generate()
    jwk = OKPAlgorithm.to_jwk(own.public_key(), as_dict=True)

    for more in ({"jwk": jwk}, {"kid": "another"}, {"x5u": "https://evil.example"}):
        headers = {"kid": header["kid"]} | more
        with pytest.raises(Unauthorized):
            tokens.verify(jwt.encode(claims, own, "EdDSA", headers=headers))


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "another"},
        {"aud": "another"},
        {"sub": "ROOT_1"},
        {"sub": ""},
        {"exp": None},
        {"exp": "never"},
        {"nbf": None},
        {"iat": None},
        {"org": None},
        {"cred": None},
        {"iss": None},
        {"aud": None},
        {"nbf": 4_000_000_000, "exp": 4_000_000_001},
    ],
)
def test_a_signed_token_with_other_claims_is_refused(tokens, change):
    header, claims = parts(tokens.issue(PRINCIPAL))
    changed = {name: value for name, value in (claims | change).items() if value is not None}
    signed = jwt.encode(changed, tokens._signing[1], "EdDSA", headers={"kid": header["kid"]})

    with pytest.raises(Unauthorized):
        tokens.verify(signed)


def test_an_expired_token_is_forbidden_also_when_it_was_known(tokens, clock):
    known, other = tokens.issue(PRINCIPAL), tokens.issue(PRINCIPAL)
    clock.advance(seconds=LIFETIME_S - 1)
    assert tokens.verify(known) == PRINCIPAL
    clock.advance(seconds=10)

    for token in (known, other):
        with pytest.raises(Forbidden):
            tokens.verify(token)


def test_a_token_of_another_home_is_refused(tokens, tmp_path):
    from meterlake.stores.state import State
    from meterlake.stores.state.core.engine import sqlite_url
    from tests.organizations import new_organization

    with State.at(sqlite_url(tmp_path / "other.sqlite"), tokens._state.now) as other:
        new_organization(other)
        foreign = Tokens(other, Secrets(tmp_path / "other.key")).issue(PRINCIPAL)

    with pytest.raises(Unauthorized):
        tokens.verify(foreign)


def test_a_replaced_key_verifies_until_what_it_signed_is_over(tokens, state, secrets, clock):
    other = made(state, secrets, clock)
    before = tokens.issue(PRINCIPAL)
    kid = rotate(state, secrets)
    clock.advance(seconds=31)
    after = other.issue(PRINCIPAL)

    assert parts(after)[0]["kid"] == kid != parts(before)[0]["kid"]
    for each in (tokens, other):
        assert each.verify(before) == each.verify(after) == PRINCIPAL
    assert len(tokens.jwks()["keys"]) == 2
    clock.advance(seconds=LIFETIME_S + 700)
    assert [key["kid"] for key in tokens.jwks()["keys"]] == [kid]


def test_a_process_learns_of_a_new_key_by_the_first_token(tokens, state, secrets, clock):
    tokens.issue(PRINCIPAL)
    rotate(state, secrets)
    clock.advance(seconds=2)

    assert tokens.verify(made(state, secrets, clock).issue(PRINCIPAL)) == PRINCIPAL


def test_a_withdrawn_key_stops_at_once(tokens, state, secrets, clock):
    token = tokens.issue(PRINCIPAL)
    assert tokens.verify(token) == PRINCIPAL
    clock.advance(seconds=1)
    rotate(state, secrets, withdraw=True)
    clock.advance(seconds=31)

    with pytest.raises(Unauthorized):
        tokens.verify(token)


def test_two_processes_make_one_first_key(tokens, state, secrets, clock):
    tokens.issue(PRINCIPAL)
    made(state, secrets, clock).issue(PRINCIPAL)

    assert len(tokens.jwks()["keys"]) == 1


def test_public_keys_hold_nothing_private(tokens, secrets, state):
    (key,) = tokens.jwks()["keys"]

    assert set(key) == {"kty", "crv", "x", "kid", "alg", "use"}
    with state.reading_home() as connection:
        stored = module.valid_keys(connection, state.now())
    assert "PRIVATE" not in stored[0].private_key
    assert "PRIVATE" in secrets.decrypt(stored[0].private_key)


def test_keys_of_another_home_key_cannot_be_used(tokens, state, tmp_path):
    tokens.issue(PRINCIPAL)

    with pytest.raises(Unavailable, match="another key"):
        Tokens(state, Secrets(tmp_path / "another.key")).issue(PRINCIPAL)


def test_what_is_remembered_is_bounded(tokens, monkeypatch):
    monkeypatch.setattr(module, "_CACHED", 3)
    for number in range(6):
        someone = Principal(PrincipalType.USER, str(number), PRINCIPAL.org_id, "c")
        assert tokens.verify(tokens.issue(someone)) == someone

    assert len(tokens._verified) == 3
