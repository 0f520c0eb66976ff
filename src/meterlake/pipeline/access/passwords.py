"""Passwords of people: Argon2id, the same time whether the person exists or not."""

import threading
from functools import cache
from typing import Final

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from meterlake.model.errors import Invalid

LENGTH_MIN: Final = 12
LENGTH_MAX: Final = 256

# The defaults of the library are the second choice of RFC 9106: 64 MB, three passes.
_HASHER: Final = PasswordHasher()
# Each hash takes that memory; so many at once are enough for people.
_AT_ONCE: Final = threading.BoundedSemaphore(2)


def hash_password(password: str, field: str = "password") -> str:
    """What is stored of a password.

    Raises:
        Invalid: It is too short or too long.
    """
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        rule = f"it must have {LENGTH_MIN} to {LENGTH_MAX} characters"
        raise Invalid(field, "***", rule)
    with _AT_ONCE:
        return _HASHER.hash(_bytes(password))


def matches(password: str, stored: str | None) -> bool:
    """Whether a password is the one of a hash; without a hash it only takes as long."""
    with _AT_ONCE:
        try:
            same = _HASHER.verify(stored or _nobodys(), _bytes(password[: LENGTH_MAX + 1]))
        except (VerificationError, InvalidHashError):
            return False
    return same and stored is not None


@cache
def _nobodys() -> str:
    return _HASHER.hash(b"the password of nobody")


def _bytes(password: str) -> bytes:
    return password.encode("utf-8", "surrogatepass")
