"""Signatures of Standard Webhooks 1.0: https://www.standardwebhooks.com."""

import base64
import hmac
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from meterlake.model.configuration.signing_secrets import key_of_secret

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"


def signature_headers(
    run_id: str, time: datetime, body: bytes, secrets: Iterable[str]
) -> list[tuple[str, str]]:
    """The headers that a receiver verifies a delivery with.

    Args:
        run_id: The same in all tries, so that the receiver knows what it has already.
        time: Of this try: receivers refuse what is too old.
        body: The very bytes that are sent.
        secrets: Each signs once; the newest one is first.
    """
    seconds = str(int(time.timestamp()))
    content = b".".join((run_id.encode(), seconds.encode(), body))
    signatures = dict.fromkeys(_sign(secret, content) for secret in secrets)
    return [(ID, run_id), (TIMESTAMP, seconds), (SIGNATURE, " ".join(signatures))]


def _sign(secret: str, content: bytes) -> str:
    digest = hmac.digest(key_of_secret(secret), content, "sha256")
    return f"v1,{base64.b64encode(digest).decode()}"
