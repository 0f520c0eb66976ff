"""Where requests to others may lead: two tiers of addresses that are not public.

What reaches this machine or the machinery around it (loopback, link-local, metadata of clouds,
multicast, reserved) is forbidden, unless the settings name the very host or network. What reaches a
private network is one switch of the settings. An address that stands for another one, as an IPv6
address for the IPv4 address behind a gateway, counts as that one.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Final, Self
from urllib.parse import SplitResult, urlsplit

from meterlake.model.errors import Invalid

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAT64: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
_COMPATIBLE: Final = IPv6Network("::/96")
# The identifiers of ISATAP interfaces, in front of the IPv4 address that they stand for.
_ISATAP: Final = (0x0000_5EFE, 0x0200_5EFE)
_PRIVATE: Final = tuple(
    map(
        ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
    )
)
# Machinery of clouds that lies in private or even public networks.
_METADATA: Final = frozenset(
    map(ip_address, ("100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"))
)
# Python's `is_global` is not the same in all its versions.
_INTERNET: Final = IPv6Network("2000::/3")
_RESERVED: Final = tuple(map(ip_network, ("192.0.0.0/24", "192.88.99.0/24", "3fff::/20")))
_HOST: Final = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(?:\.(?!-)[a-z0-9-]{1,63}(?<!-))*")
# 127.1, 0x7f.0.0.1 and 2130706433 are ways to write 127.0.0.1 that resolvers understand.
_NUMERAL: Final = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)")
_LOCAL_NAMES: Final = (".local", ".internal", ".localdomain", ".home.arpa")
_ASCII: Final = range(0x21, 0x7F)
_HTTPS: Final = 443
_FREE_PORTS: Final = range(1024, 1 << 16)
PUBLIC_URL: Final = "it must be the https address of a public host"


class Tier(IntEnum):
    """How far inside an address lies."""

    PUBLIC = 0
    PRIVATE = 1
    FORBIDDEN = 2


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a URL leads.

    Attributes:
        host: A name in lower case without the last dot, or an address.
    """

    url: str
    scheme: str
    host: str | Address
    port: int

    @classmethod
    def of(cls, url: str) -> Self:
        """Read a URL.

        Raises:
            Invalid: It is none of a host, or one of its parts is written as nobody should.
        """
        if "\\" in url or any(ord(character) not in _ASCII for character in url):
            raise Invalid(
                "url", url, "it must be a URL without spaces, backslashes and letters beyond ASCII"
            )
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise Invalid("url", url, "it must be a URL") from None
        if parts.scheme not in {"https", "http"} or not parts.hostname or port == 0:
            raise Invalid("url", url, PUBLIC_URL)
        if "@" in parts.netloc:
            # The text holds a password: it is not repeated.
            raise Invalid(
                "url", "***", "it must be a URL without user and password; use credentials"
            )
        default = _HTTPS if parts.scheme == "https" else 80
        return cls(url, parts.scheme, _host(url, parts), parts.port or default)


def origin_of(url: str) -> tuple[str, str, int] | None:
    """The scheme, the host and the port of a URL; None of what is no URL."""
    try:
        found = Endpoint.of(url)
    except Invalid:
        return None
    return found.scheme, str(found.host), found.port


def tier_of(host: str | Address) -> Tier:
    """How far inside a host lies, as far as its name tells."""
    if not isinstance(host, str):
        return _tier_of_address(host)
    name = f".{host}"
    if name.endswith(".localhost") or host in {"metadata", "metadata.google.internal"}:
        return Tier.FORBIDDEN
    is_local = "." not in host or name.endswith(_LOCAL_NAMES)
    return Tier.PRIVATE if is_local else Tier.PUBLIC


def is_loopback(host: str | Address) -> bool:
    """Whether a host is the machine itself."""
    if isinstance(host, str):
        return f".{host}".endswith(".localhost")
    return embedded_address(host).is_loopback


def names_this_machine(text: str) -> bool:
    """Whether the text of a host or an address means this machine for sure; others may."""
    try:
        return is_loopback(ip_address(text))
    except ValueError:
        return is_loopback(text)


def embedded_address(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, or the address itself."""
    if isinstance(address, IPv4Address):
        return address
    value = int(address)
    low = IPv4Address(value & 0xFFFF_FFFF)
    gateway = any(address in each for each in _NAT64)
    # Of the lowest ones `::` and `::1` mean something of their own.
    is_compatible = address in _COMPATIBLE and value > 1
    if gateway or (value >> 32) & 0xFFFF_FFFF in _ISATAP or is_compatible:
        return low
    teredo = address.teredo[1] if address.teredo else None
    return address.ipv4_mapped or address.sixtofour or teredo or address


def _tier_of_address(address: Address) -> Tier:
    meant = embedded_address(address)
    if meant in _METADATA:
        return Tier.FORBIDDEN
    if any(meant in each for each in _PRIVATE if each.version == meant.version):
        return Tier.PRIVATE
    is_reserved = any(meant in each for each in _RESERVED if each.version == meant.version)
    is_assigned = not is_reserved and (isinstance(meant, IPv4Address) or meant in _INTERNET)
    is_public = meant.is_global and not meant.is_multicast and is_assigned
    return Tier.PUBLIC if is_public else Tier.FORBIDDEN


@dataclass(frozen=True, slots=True)
class AddressPolicy:
    """Which hosts requests may lead to.

    Attributes:
        hosts: Names that are allowed, whatever they resolve to.
        networks: Networks that are allowed.
        private: Whether private networks are.
        loopback: Whether this machine is.
    """

    hosts: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()
    private: bool = False
    loopback: bool = False

    @classmethod
    def of(cls, allowed: Iterable[str], *, private: bool = False, loopback: bool = False) -> Self:
        """The policy of a list of host names, addresses and networks.

        Raises:
            Invalid: One of the list is nothing of that.
        """
        hosts, networks = set(), []
        for each in allowed:
            try:
                networks.append(ip_network(each.strip("[]")))
            except ValueError:
                hosts.add(_allowed_name(each))
        return cls(frozenset(hosts), tuple(networks), private, loopback)

    def check_url(self, url: str) -> Endpoint:
        """Read a URL and refuse it, if already its text shows that it leads where it must not.

        Raises:
            Invalid: It does.
        """
        endpoint = Endpoint.of(url)
        host = endpoint.host
        if self._names(host):
            return endpoint
        if self.loopback and is_loopback(host):
            return endpoint
        if is_loopback(host):
            raise Invalid("url", url, f"{PUBLIC_URL}; webhook_loopback allows this one")
        if endpoint.scheme != "https":
            raise Invalid("url", url, PUBLIC_URL)
        if endpoint.port != _HTTPS and endpoint.port not in _FREE_PORTS:
            raise Invalid("url", url, "its port must be 443, or 1024 or more")
        self._refuse(tier_of(host), url)
        return endpoint

    def check_addresses(self, endpoint: Endpoint, addresses: Iterable[Address]) -> None:
        """Refuse a host if any of the addresses that it resolved to lies inside.

        Raises:
            Invalid: One does.
        """
        if isinstance(endpoint.host, str) and endpoint.host in self.hosts:
            return
        for each in addresses:
            allowed = self._names(each) or (self.loopback and is_loopback(each))
            if not allowed:
                self._refuse(tier_of(each), endpoint.url)

    def _names(self, host: str | Address) -> bool:
        if isinstance(host, str):
            return host in self.hosts
        meant = {host, embedded_address(host)}
        return any(
            each in network
            for each in meant
            for network in self.networks
            if each.version == network.version
        )

    def _refuse(self, tier: Tier, url: str) -> None:
        if tier is Tier.FORBIDDEN:
            raise Invalid("url", url, f"{PUBLIC_URL}; webhook_allow can name this one")
        if tier is Tier.PRIVATE and not self.private:
            raise Invalid("url", url, f"{PUBLIC_URL}; webhook_private allows private networks")


PUBLIC_ONLY: Final = AddressPolicy()


def _allowed_name(text: str) -> str:
    name = text.strip().lower().removesuffix(".")
    if not _HOST.fullmatch(name) or _NUMERAL.fullmatch(name.rpartition(".")[2]):
        raise Invalid(
            "webhook_allow", text, "it must be a host, an address, or a network such as 10.1.0.0/16"
        )
    return name


def _host(url: str, parts: SplitResult) -> str | Address:
    assert parts.hostname is not None
    name = parts.hostname.lower().removesuffix(".")
    try:
        return ip_address(name)
    except ValueError:
        pass
    if _NUMERAL.fullmatch(name.rpartition(".")[2]) or not _HOST.fullmatch(name):
        raise Invalid("url", url, PUBLIC_URL)
    return name
