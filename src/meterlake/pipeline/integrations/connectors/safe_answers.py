"""What others send back, fit to be kept: without the secrets that it repeats, and as text that can be stored.

A receiver may repeat what it was sent, as it was or encoded: in its answer, in what it calls a bill,
in the address of that. Nothing of it may stand in a run, a log or a mapping.
"""

import html
import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus, urlsplit

from meterlake.model.configuration.integrations import (
    SECRET_PREFIX,
    URL_MAX,
    IntegrationCredentials,
    WebhookDestination,
)

MASK: Final = "********"
# What is shorter stands in answers by chance; a bit longer, it is masked where it stands by itself.
_SECRET_MIN: Final = 3
_SURE: Final = 6
_WEB: Final = frozenset({"http", "https"})
_UNPRINTABLE: Final = re.compile("[\x00-\x20\x7f-\xa0\u2028\u2029\ud800-\udfff]")
_FIELDS: Final = ("password", "api_key", "client_secret")


class Echoes:
    """Finds some secrets in texts, in every form in which somebody may repeat them."""

    def __init__(self, secrets: Iterable[str | None]) -> None:
        given = list(filter(None, secrets))
        # What signs is Base64 behind a prefix.
        bare = (each.removeprefix(SECRET_PREFIX) for each in given)
        self._secrets = tuple(dict.fromkeys([*given, *bare]))

    def mask(self, text: str) -> str:
        """A text without the secrets."""
        pattern = _pattern(self._secrets, _SECRET_MIN)
        return text if pattern is None else pattern.sub(MASK, text)

    def finds(self, text: str) -> bool:
        """Whether a text has one of the secrets that cannot be there by chance."""
        pattern = _pattern(self._secrets, _SURE)
        return pattern is not None and pattern.search(text) is not None


def secrets_of(
    credentials: IntegrationCredentials | None, webhook: WebhookDestination | None = None
) -> Iterator[str]:
    """The secrets of a destination, readable, and what they are sent as."""
    if webhook is not None:
        yield webhook.credentials.api_key
    if credentials is None:
        return
    for name in _FIELDS:
        if (secret := getattr(credentials, name)) is not None:
            yield secret
            for user in filter(None, (credentials.username, credentials.client_id)):
                yield f"{user}:{secret}"
                yield f"{quote_plus(user)}:{quote_plus(secret)}"


def web_address(text: str | None) -> str | None:
    """An address that a browser may be led to; None of anything else: a script, another scheme."""
    if text is None or len(text) > URL_MAX or _UNPRINTABLE.search(text):
        return None
    try:
        parts = urlsplit(text)
    except ValueError:
        return None
    return (
        text
        if parts.scheme.lower() in _WEB and parts.hostname and "@" not in parts.netloc
        else None
    )


@lru_cache(maxsize=512)
def _pattern(secrets: tuple[str, ...], size: int) -> re.Pattern[str] | None:
    found = {form for each in secrets if len(each) >= size for form in _forms(each)}
    if not found:
        return None
    # The longest first: others are parts of them.
    ordered = sorted(found, key=lambda form: (-len(form), form))
    return re.compile("|".join(map(_escaped, ordered)), re.IGNORECASE)


def _escaped(form: str) -> str:
    escaped = re.escape(form)
    return escaped if len(form) >= _SURE else rf"(?<![^\W_]){escaped}(?![^\W_])"


def _forms(secret: str) -> Iterator[str]:
    """A secret as it is, escaped as in addresses, JSON and HTML, and encoded, also as a part of more."""
    data = secret.encode(errors="surrogatepass")
    yield secret
    once = (quote(data), quote(data, safe=""), quote_plus(data))
    yield from (*once, *(quote(each, safe="") for each in once))
    yield from (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1])
    yield from (html.escape(secret), html.escape(secret, quote=False))
    yield data.hex()
    yield "".join(f"\\u{ord(each):04x}" for each in secret)
    for whole in (b64encode(data).decode(), urlsafe_b64encode(data).decode()):
        yield from (whole, whole.rstrip("="))
    for offset in range(3):
        encoded = b64encode(b"\0" * offset + data).decode()
        # The first and the last digits depend on what stands beside it.
        rest = (len(data) + offset) % 3
        inner = encoded[(0, 2, 3)[offset] : len(encoded) - (0, 3, 2)[rest]]
        if len(inner) >= _SURE:
            yield inner
            yield inner.replace("+", "-").replace("/", "_")
