"""Access tokens: signed JWTs that say who asks, for which organization, until when."""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from jwt.algorithms import OKPAlgorithm

from meterlake.model.configuration.access import Principal
from meterlake.model.errors import Forbidden, Unauthorized
from meterlake.stores.secrets import Secrets
from meterlake.stores.state import State, new_id
from meterlake.stores.state.access.sessions import (
    SigningKey,
    add_signing_key,
    lock_keys,
    valid_keys,
)

LIFETIME_S: Final = 18_000
ALGORITHM: Final = "EdDSA"
AUDIENCE: Final = "meterlake"
ISSUER: Final = "meterlake"

# A key that was replaced still verifies what it signed, and what a process that has not noticed
# yet goes on signing with it.
_OVERLAP: Final = timedelta(seconds=LIFETIME_S + 600)
_REFRESH_S: Final = 30.0
# A token with an unknown key makes us look for new keys, but no stranger makes us do so often.
_RETRY_S: Final = 0.2
# Clocks of machines that share a database differ a little.
_SKEW_S: Final = 5
_CACHED: Final = 10_000
_TOKEN_MAX: Final = 4096
_CLAIMS: Final = ("iss", "aud", "sub", "org", "cred", "iat", "nbf", "exp")


@dataclass(frozen=True, slots=True)
class _Verified:
    principal: Principal
    kid: str
    expires: int


class Tokens:
    """Issues and verifies access tokens; one per process, safe to share among its threads.

    Args:
        state: Where the keys are.
        secrets: What their private halves are encrypted with.
        issuer: The name of this server in tokens; tokens of another issuer are refused.
        monotonic: Seconds that never run backwards, for the age of the loaded keys.
    """

    def __init__(
        self,
        state: State,
        secrets: Secrets,
        issuer: str = ISSUER,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._secrets = secrets
        self._issuer = issuer
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._signing: tuple[str, Ed25519PrivateKey] | None = None
        self._public: dict[str, Ed25519PublicKey] = {}
        self._loaded = float("-inf")
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    def issue(self, principal: Principal) -> str:
        """A token for a principal, good for `LIFETIME_S` seconds."""
        kid, key = self._signing_key()
        now = int(self._state.now().timestamp())
        claims = {
            "iss": self._issuer,
            "aud": AUDIENCE,
            "sub": principal.author,
            "org": principal.org_id,
            "cred": principal.credential,
            "iat": now,
            "nbf": now,
            "exp": now + LIFETIME_S,
        }
        return jwt.encode(claims, key, ALGORITHM, headers={"kid": kid})

    def verify(self, token: str) -> Principal:
        """Who asks.

        Raises:
            Unauthorized: The token is malformed, changed, unsigned, not yet valid or not ours.
            Forbidden: It has expired.
        """
        name = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        self._refresh(_REFRESH_S)
        found = self._verified.get(name)
        # A key may be withdrawn before what it signed expires.
        if found is None or found.kid not in self._public:
            found = self._check(token)
            with self._lock:
                self._verified[name] = found
                while len(self._verified) > _CACHED:
                    self._verified.popitem(last=False)
        if found.expires <= self._state.now().timestamp() - _SKEW_S:
            raise Forbidden("the access token has expired; ask for a new one")
        return found.principal

    def jwks(self) -> dict[str, Any]:
        """The public keys, as RFC 7517 has them."""
        self._signing_key()
        return {
            "keys": [
                {
                    **OKPAlgorithm.to_jwk(key, as_dict=True),
                    "kid": kid,
                    "alg": ALGORITHM,
                    "use": "sig",
                }
                for kid, key in self._public.items()
            ]
        }

    def _check(self, token: str) -> _Verified:
        try:
            kid = self._kid(token)
            claims = jwt.decode(
                token,
                self._public[kid],
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                issuer=self._issuer,
                # The instants are compared with our own clock below.
                options={
                    "require": list(_CLAIMS),
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
            return self._verify_claims(kid, claims)
        except (jwt.InvalidTokenError, ValueError, TypeError, KeyError):
            # What exactly was wrong helps only those who forge.
            raise Unauthorized("the access token is not valid; ask for a new one") from None

    def _kid(self, token: str) -> str:
        if len(token) > _TOKEN_MAX:
            raise ValueError(len(token))
        kid = jwt.get_unverified_header(token)["kid"]
        if kid not in self._public:
            self._refresh(_RETRY_S)
        return str(kid)

    def _verify_claims(self, kid: str, claims: dict[str, Any]) -> _Verified:
        if not all(isinstance(claims[name], int) for name in ("iat", "nbf", "exp")):
            raise TypeError("instant")
        if max(claims["nbf"], claims["iat"]) > self._state.now().timestamp() + _SKEW_S:
            raise ValueError("not yet valid")
        principal = Principal.of_author(claims["sub"], claims["org"], claims["cred"])
        return _Verified(principal, kid, claims["exp"])

    def _signing_key(self) -> tuple[str, Ed25519PrivateKey]:
        self._refresh(_REFRESH_S)
        if self._signing is None:
            ensure_key(self._state, self._secrets)
            self._refresh(0)
        assert self._signing is not None
        return self._signing

    def _refresh(self, age: float) -> None:
        if self._monotonic() - self._loaded < age:
            return
        with self._lock:
            if self._monotonic() - self._loaded < age:
                return
            with self._state.reading_home() as connection:
                keys = valid_keys(connection, self._state.now())
            loaded = {key.kid: _private(key, self._secrets) for key in keys}
            self._public = {kid: key.public_key() for kid, key in loaded.items()}
            self._signing = next(iter(loaded.items()), None)
            self._loaded = self._monotonic()


def ensure_key(state: State, secrets: Secrets) -> None:
    """Make the first signing key of a home, if it has none."""
    made = _new_key(state.now(), secrets)
    with state.writing_home() as connection:
        lock_keys(connection)
        if not valid_keys(connection, state.now()):
            add_signing_key(connection, made, None)


def rotate(state: State, secrets: Secrets, *, withdraw: bool = False) -> str:
    """Sign with a new key from now on; its id.

    Args:
        state: Where the keys are.
        secrets: What their private halves are encrypted with.
        withdraw: Refuse at once what the keys before have signed, instead of letting it expire:
            for a key that became known.
    """
    now = state.now()
    made = _new_key(now, secrets)
    with state.writing_home() as connection:
        lock_keys(connection)
        add_signing_key(connection, made, now if withdraw else now + _OVERLAP)
    return made.kid


def _new_key(now: datetime, secrets: Secrets) -> SigningKey:
    pem = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return SigningKey(new_id(), secrets.encrypt(pem.decode()), now, None)


def _private(key: SigningKey, secrets: Secrets) -> Ed25519PrivateKey:
    pem = secrets.decrypt(key.private_key).encode()
    loaded = serialization.load_pem_private_key(pem, password=None)
    assert isinstance(loaded, Ed25519PrivateKey)
    return loaded
