"""Links to objects of the home that work without a token, for a while: signed, and opened again."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from meterlake.model.errors import Forbidden, Invalid, Unavailable
from meterlake.model.values import wire
from meterlake.stores.secrets import Secrets

PATH: Final = "/downloads"
# What else is encrypted with the home's key is no link.
_PURPOSE: Final = "download"
# One sentence for all: it says nothing of which guess was nearer.
_REFUSED: Final = "the link was not made here, was changed, or has ended; ask for a new one"
# Base64 is read with whatever follows its end; a link is one text only.
_TOKEN: Final = re.compile(r"(?:[A-Za-z0-9_-]{4})+(?:[A-Za-z0-9_-]{2}==|[A-Za-z0-9_-]{3}=)?")


@dataclass(frozen=True, slots=True)
class Download:
    """One object as it is given to whoever has the link.

    Attributes:
        key: Its key in the home's object store.
        name: The file's name for whoever saves it.
        media_type: What it is.
        export: `organization/job/place` where the object is a file that an export delivered, in
            whatever store that place is; its key is the file's name then.
    """

    key: str
    name: str
    media_type: str = "application/json"
    export: str = ""


class Downloads:
    """Makes links and opens them; every process of a home knows the links of all others.

    A link is an encrypted text with a check of its own: nobody can change it, make one up, or read
    the key of the object out of it.
    """

    def __init__(self, secrets: Secrets, now: Callable[[], datetime]) -> None:
        self._secrets = secrets
        self._now = now

    def path(self, download: Download, lifetime_s: float) -> str:
        """The path of a link that ends after some seconds.

        Whoever calls this has made sure that who asks may read the object.

        Raises:
            Unavailable: The home's key cannot be read or written.
        """
        ends = self._now().timestamp() + lifetime_s
        claims = {"for": _PURPOSE, "ends": round(ends * 1000), **asdict(download)}
        return f"{PATH}/{self._secrets.encrypt(wire.dumps_sorted(claims))}"

    def open(self, token: str) -> Download:
        """What a link leads to.

        Args:
            token: What follows the path's last slash.

        Raises:
            Forbidden: It is none of ours, was changed, or has ended.
        """
        claims = self._read_claims(token)
        if claims.pop("for", None) != _PURPOSE or self._now().timestamp() * 1000 >= claims.pop(
            "ends"
        ):
            raise Forbidden(_REFUSED)
        return Download(**claims)

    def _read_claims(self, token: str) -> dict[str, Any]:
        if not _TOKEN.fullmatch(token):
            return {}
        try:
            found = wire.loads(self._secrets.decrypt(token))
        except (Invalid, Unavailable):
            return {}
        return found if isinstance(found, dict) else {}
