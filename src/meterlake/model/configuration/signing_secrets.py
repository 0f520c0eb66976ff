"""Secrets that deliveries are signed with, as Standard Webhooks writes them."""

import base64
import binascii
from typing import Final

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - no secret itself


def key_of_secret(secret: str) -> bytes:
    """The key that a secret stands for: `whsec_` and Base64, or else the text itself."""
    if secret.startswith(SECRET_PREFIX):
        try:
            return base64.b64decode(secret.removeprefix(SECRET_PREFIX), validate=True)
        except binascii.Error:
            pass
    return secret.encode()


def is_signing_secret(secret: str) -> bool:
    """Whether all receivers make the same key of it: what `whsec_` begins goes on in Base64."""
    return not secret.startswith(SECRET_PREFIX) or key_of_secret(secret) not in (
        b"",
        secret.encode(),
    )
