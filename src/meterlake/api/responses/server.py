"""Answers about the server itself; nobody needs a token for them."""

from typing import Any

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Text


class ServerStatusResponse(Value):
    """How the server is."""

    status: Text


class KeySetResponse(Value):
    """The public keys that tokens are checked with, as RFC 7517 writes them."""

    keys: tuple[dict[str, Any], ...]
