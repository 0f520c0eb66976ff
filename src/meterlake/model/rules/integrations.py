"""Rules of webhooks and integrations, and what is computed of them.

The address of a webhook is checked here as it is written. What a name resolves to is known only
when it is called: whoever calls it checks the address that it connects to in the same way
(`refuse_inside`).
"""

import re
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from meterlake.model.entity import Configuration, Record
from meterlake.model.errors import Invalid
from meterlake.model.ids import derived_id
from meterlake.model.integrations import IntegrationConfig, RunStatus, WebhookDestination
from meterlake.model.rules.proposed import Proposed

Address = IPv4Address | IPv6Address

_NAT64: Final = IPv6Network("64:ff9b::/96")
_HOST: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))*")
# 127.1, 0x7f.0.0.1 and 2130706433 are ways to write 127.0.0.1 that resolvers understand.
_NUMERAL: Final = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)")
_LOCAL_NAMES: Final = (".local", ".internal", ".localdomain", ".home.arpa")
_ASCII: Final = range(0x21, 0x7F)
_PUBLIC: Final = "the https address of a public host"


def webhook_url_is_public(new: Proposed[WebhookDestination]) -> None:
    """A webhook is called at an https address outside; loopback is left to `refuse_loopback`."""
    url = new.entity.url
    parts = _parts(url)
    host = _host(url, parts)
    if is_loopback(host):
        return
    if parts.scheme != "https":
        raise Invalid("url", url, _PUBLIC)
    _refuse_local(url, host)


def refuse_loopback(url: str) -> None:
    """Refuse an address on the machine itself: for servers that are not told to allow it.

    Raises:
        Invalid: It is one, or no address at all.
    """
    if is_loopback(_host(url, _parts(url))):
        raise Invalid("url", url, f"{_PUBLIC}; webhook_loopback allows this one")


def is_loopback(host: str | Address) -> bool:
    """Whether a host is the machine itself."""
    if isinstance(host, str):
        return host == "localhost" or host.endswith(".localhost")
    return _embedded_address(host).is_loopback


def refuse_inside(address: Address) -> None:
    """Refuse an address that only insiders reach: private, link-local, multicast, reserved.

    Raises:
        Invalid: It is one.
    """
    meant = _embedded_address(address)
    if not meant.is_global or meant.is_multicast:
        raise Invalid("url", str(address), _PUBLIC)


def _parts(url: str) -> SplitResult:
    if "\\" in url or any(ord(character) not in _ASCII for character in url):
        raise Invalid("url", url, "a URL without spaces, backslashes and letters beyond ASCII")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Invalid("url", url, "a URL") from None
    if parts.scheme not in {"https", "http"} or not parts.hostname or port == 0:
        raise Invalid("url", url, _PUBLIC)
    if "@" in parts.netloc:
        # The text holds a password: it is not repeated.
        raise Invalid("url", "***", "a URL without user and password; use credentials")
    return parts


def _host(url: str, parts: SplitResult) -> str | Address:
    assert parts.hostname is not None
    name = parts.hostname.lower().removesuffix(".")
    try:
        return ip_address(name)
    except ValueError:
        pass
    if _NUMERAL.fullmatch(name.rpartition(".")[2]) or not _HOST.fullmatch(name):
        raise Invalid("url", url, _PUBLIC)
    return name


def _refuse_local(url: str, host: str | Address) -> None:
    if not isinstance(host, str):
        refuse_inside(host)
    elif "." not in host or host.endswith(_LOCAL_NAMES):
        raise Invalid("url", url, _PUBLIC)


def _embedded_address(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo or address


def credentials_shown(
    record: Record[WebhookDestination], configuration: Configuration
) -> dict[str, Any]:
    """Credentials with the id that the contract gives them, and the webhook that they belong to."""
    del configuration
    shown = record.entity.credentials.model_dump(by_alias=True, exclude_none=True)
    identity = derived_id("webhook credentials", record.id)
    return {"credentials": {**shown, "id": identity, "destinationId": record.id}}


def integration_state(
    record: Record[IntegrationConfig], configuration: Configuration
) -> dict[str, Any]:
    """Nothing has run yet and nothing was disabled; only webhooks need no other system's consent."""
    del configuration
    webhook = record.entity.destination.upper() == "WEBHOOK"
    state = {"authorized": webhook, "enabled": True, "status": RunStatus.WAITING.value}
    # Clients expect one; without it the integration is for all entities of its type.
    return state if record.entity.entity_id else {**state, "entityId": "*"}
