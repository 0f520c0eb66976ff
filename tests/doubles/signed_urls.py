"""What a store does with a signed URL, for the servers that let everybody in: it checks it.

Version 4 of the signatures of Amazon and Google are alike: the method, the path, the query and the
signed headers are under the signature, which either the secret key makes or the private one. A rule
for `http_faults.relay`; requests that are signed in their headers pass, as these servers have it.
"""

import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.doubles.http_faults import Answer, Asked, Rule

# Of a text and the scope of the credentials: whether the signature is right.
Check = Callable[[str, str, str], bool]
_DATE = "%Y%m%dT%H%M%SZ"


def checked(kind: str, algorithm: str, check: Check) -> Rule:
    """Refuse what is not as it was signed.

    Args:
        kind: What parameters begin with: `X-Amz` or `X-Goog`.
        algorithm: Its name in the text that is signed.
        check: Of that text, the scope, and the signature in hex.
    """

    def rule(asked: Asked) -> Answer | None:
        signature = asked.query.get(f"{kind}-Signature")
        if signature is None:
            public = "Authorization" not in asked.headers
            return Answer(403, b"not signed") if public else None
        scope = asked.query[f"{kind}-Credential"].partition("/")[2]
        made = datetime.strptime(asked.query[f"{kind}-Date"], _DATE).replace(tzinfo=UTC)
        if datetime.now(UTC) > made + timedelta(seconds=int(asked.query[f"{kind}-Expires"])):
            return Answer(403, b"expired")
        canonical = hashlib.sha256(_canonical(asked, kind).encode()).hexdigest()
        text = "\n".join([algorithm, asked.query[f"{kind}-Date"], scope, canonical])
        return None if check(text, scope, signature) else Answer(403, b"another signature")

    return rule


def of_amazon(secret: str) -> Rule:
    """As S3 checks, with the secret key."""

    def check(text: str, scope: str, signature: str) -> bool:
        key = f"AWS4{secret}".encode()
        for part in (*scope.split("/"), text):
            key = hmac.digest(key, part.encode(), "sha256")
        return hmac.compare_digest(key.hex(), signature)

    return checked("X-Amz", "AWS4-HMAC-SHA256", check)


def of_google(private_key: str) -> Rule:
    """As Google checks, with the public key of a service account."""
    key = serialization.load_pem_private_key(private_key.encode(), None)
    assert isinstance(key, rsa.RSAPrivateKey)

    def check(text: str, scope: str, signature: str) -> bool:
        del scope
        try:
            key.public_key().verify(
                bytes.fromhex(signature), text.encode(), padding.PKCS1v15(), hashes.SHA256()
            )
        except InvalidSignature:
            return False
        return True

    return checked("X-Goog", "GOOG4-RSA-SHA256", check)


def _canonical(asked: Asked, kind: str) -> str:
    names = asked.query[f"{kind}-SignedHeaders"].split(";")
    query = sorted(
        f"{quote(name, safe='~')}={quote(value, safe='~')}"
        for name, value in asked.query.items()
        if name != f"{kind}-Signature"
    )
    headers = [f"{name}:{asked.headers.get(name, '').strip()}\n" for name in names]
    return "\n".join(
        [
            asked.method,
            asked.path,
            "&".join(query),
            "".join(headers),
            ";".join(names),
            "UNSIGNED-PAYLOAD",
        ]
    )
