"""Limits of requests: token buckets that the worker processes of one home share.

The buckets lie in a small file that every worker maps into its memory. A set of slots is locked for
the microseconds that a take needs; the kernel frees the lock of a worker that dies. Which bucket
gives way when a set is full is the one that will be full soonest: it forgets least.

Callers choose what buckets are called, by their addresses and by the e-mail addresses that they
try. Which set a name belongs to follows from a key that only this file holds, so that nobody can
choose names that push a certain bucket out.
"""

import fcntl
import hashlib
import ipaddress
import math
import mmap
import os
import secrets
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from meterlake.model.errors import TooMany
from meterlake.settings import Settings
from meterlake.stores.files.durable import disk, make_folder

FILE_NAME: Final = "limits.bin"
_FIVE_MINUTES: Final = 300
# Name of the bucket (0: free), seconds until it is full, when they were counted.
_SLOT: Final = struct.Struct("<16sdd")
_SLOTS_IN_SET: Final = 8
_SET_BYTES: Final = _SLOT.size * _SLOTS_IN_SET
_SETS: Final = 4096
# Behind the sets; zeros until the first process drew it.
_KEY_BYTES: Final = 16
# What sums of floats may lack.
_ROUNDED: Final = 1e-6
# The network that one customer of an access provider gets.
_IPV6_PREFIX: Final = 64


@dataclass(frozen=True, slots=True)
class Limit:
    """A bucket of `burst` tokens that fills with `rate` tokens per second."""

    name: str
    rate: float
    burst: int


class Buckets:
    """Token buckets by name in a file; safe among threads and processes.

    Args:
        path: The file; made if it is not there.
        clock: Seconds since some start that all processes of the machine share.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        make_folder(path.parent)
        self._clock = clock
        self._lock = threading.Lock()
        with disk():
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.ftruncate(self._handle, _SETS * _SET_BYTES + _KEY_BYTES)
            self._memory = mmap.mmap(self._handle, _SETS * _SET_BYTES + _KEY_BYTES)
            self._key = self._agree_on_key()

    def _agree_on_key(self) -> bytes:
        start = _SETS * _SET_BYTES
        fcntl.lockf(self._handle, fcntl.LOCK_EX, _KEY_BYTES, start)
        try:
            if not any(self._memory[start:]):
                # Of a file of before, nothing could be found any more.
                self._memory[:start] = bytes(start)
                self._memory[start:] = secrets.token_bytes(_KEY_BYTES)
            return self._memory[start:]
        finally:
            fcntl.lockf(self._handle, fcntl.LOCK_UN, _KEY_BYTES, start)

    def close(self) -> None:
        """Unmap the file."""
        self._memory.close()
        os.close(self._handle)

    def take(self, limit: Limit, key: str) -> float:
        """Take a token: 0, or the seconds after which there will be one."""
        text = f"{limit.name}\0{key}".encode()
        name = hashlib.blake2b(text, digest_size=16, key=self._key).digest()
        start = int.from_bytes(name[:4], "little") % _SETS * _SET_BYTES
        with self._lock:
            fcntl.lockf(self._handle, fcntl.LOCK_EX, _SET_BYTES, start)
            try:
                now = self._clock()
                slot, missing = self._find(name, start, now)
                tokens = limit.burst - missing * limit.rate
                wait = 0.0 if tokens >= 1 - _ROUNDED else (1 - tokens) / limit.rate
                _SLOT.pack_into(
                    self._memory, slot, name, missing if wait else missing + 1 / limit.rate, now
                )
                return wait
            finally:
                fcntl.lockf(self._handle, fcntl.LOCK_UN, _SET_BYTES, start)

    def _find(self, name: bytes, start: int, now: float) -> tuple[int, float]:
        """The slot of a bucket with the seconds until it is full, or that of a new bucket."""
        least, victim = math.inf, start
        for slot in range(start, start + _SET_BYTES, _SLOT.size):
            found, missing, counted = _SLOT.unpack_from(self._memory, slot)
            # The clock starts anew with the machine: then no time counts as passed.
            left = max(0.0, missing - max(0.0, now - counted))
            if found == name:
                return slot, left
            # Free ones first. What was counted by another clock would never be over.
            lost = -1.0 if not any(found) else 0.0 if counted > now else left
            if lost < least:
                least, victim = lost, slot
        return victim, 0.0


class RateLimits:
    """The limits of the settings; what is off costs one look into a dictionary.

    Args:
        settings: Which limits are on, and their numbers.
        home: The folder of the home, whose processes share the buckets.
        clock: Seconds since some start that all processes of the machine share.
    """

    def __init__(
        self, settings: Settings, home: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._buckets = Buckets(home / FILE_NAME, clock)
        self._of_organization = _of_organization(settings)
        self._of_address = _of_address(settings)

    def close(self) -> None:
        """Let go of the file."""
        self._buckets.close()

    def check_organization(self, name: str, org_id: str) -> None:
        """Count a request of an organization.

        Args:
            name: `config`, `ingest`, `explorer` or `query` (the second version of the Explorer).
            org_id: Whose request it is.

        Raises:
            TooMany: The organization asks too often.
        """
        limit = self._of_organization.get(name)
        if limit is not None:
            self.take(limit, org_id)

    def check_address(self, name: str, address: str) -> None:
        """Count a request from an address, by the same names.

        Raises:
            TooMany: The address asks too often.
        """
        limit = self._of_address.get(name)
        if limit is not None:
            self.take(limit, network(address))

    def take(self, limit: Limit, key: str) -> None:
        """Count something.

        Raises:
            TooMany: There was too much of it.
        """
        wait = self._buckets.take(limit, key)
        if wait:
            raise TooMany(limit.name, max(1, math.ceil(wait)))


def _of_organization(settings: Settings) -> dict[str, Limit]:
    second, burst = settings.config_per_second, settings.explorer_burst
    found = {}
    if settings.limit_config:
        found["config"] = Limit("Config API of the organization", second, second)
    if settings.limit_ingest:
        second = settings.ingest_per_second
        found["ingest"] = Limit("Ingest API of the organization", second, second)
    if settings.limit_explorer:
        found["explorer"] = Limit("Data Explorer", settings.explorer_per_second, burst)
        found["query"] = Limit(
            "usage queries", settings.explorer_v2_per_second, settings.explorer_v2_burst
        )
    return found


def _of_address(settings: Settings) -> dict[str, Limit]:
    found = {}
    if settings.limit_config:
        found["config"] = _in_five_minutes("Config API", settings.config_per_address)
    if settings.limit_ingest:
        found["ingest"] = _in_five_minutes("Ingest API", settings.ingest_per_address)
    return found


def _in_five_minutes(name: str, requests: int) -> Limit:
    return Limit(f"{name} from the address", requests / _FIVE_MINUTES, requests)


def network(address: str) -> str:
    """What counts as one address: an IPv4 address, or the network of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed.packed, _IPV6_PREFIX), strict=False))
