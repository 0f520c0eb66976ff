"""The version of the running code, for what is pinned and published."""

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

# The packages that calculate: all that decides what comes out, but the stores.
_CALCULATING: Final = ("model", "stages")


@cache
def code_version() -> str:
    """The installed version of meterlake; `unknown` where it runs without being installed."""
    try:
        return version("meterlake")
    except PackageNotFoundError:
        return "unknown"


@cache
def calculation_digest() -> str:
    """What tells whether the running code calculates as other code did: its version and sources."""
    found = sha256(code_version().encode())
    for name in _CALCULATING:
        for source in _sources(files("meterlake") / name):
            found.update(source.read_bytes())
    return found.hexdigest()


def _sources(folder: Traversable) -> Iterator[Traversable]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            yield from _sources(each)
        elif each.name.endswith(".py"):
            yield each
