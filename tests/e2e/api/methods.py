"""The methods of the SDK, found by looking."""

import inspect
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from m3ter import M3ter
from m3ter._resource import SyncAPIResource

STANDARD = frozenset({"create", "retrieve", "list", "update", "delete"})
# A helper of the SDK, no operation of the API: it sends what `usage.submit` sends, in parts.
HELPERS = frozenset({"usage.submit_all"})


def api_of(sdk: Any, path: str) -> Any:
    """A part of the SDK by its dotted path."""
    return attrgetter(path)(sdk)


def methods_of(sdk: M3ter) -> dict[str, Callable[..., Any]]:
    """Every method that calls the API, by its dotted path."""
    found = dict(_methods(sdk, ""))
    return {path: method for path, method in found.items() if path not in HELPERS}


def _methods(thing: Any, prefix: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in dir(type(thing)):
        if name.startswith(("_", "with_")):
            continue
        value = getattr(thing, name)
        if isinstance(value, SyncAPIResource):
            yield from _methods(value, f"{prefix}{name}.")
        elif prefix and inspect.ismethod(value):
            yield f"{prefix}{name}", value


def standard_apis(sdk: M3ter) -> set[str]:
    """The parts of the SDK that have all standard verbs; line items of bills come with bills."""
    verbs: dict[str, set[str]] = {}
    for path in methods_of(sdk):
        api, _, name = path.rpartition(".")
        verbs.setdefault(api, set()).add(name)
    return {
        api for api, names in verbs.items() if names >= STANDARD and not api.startswith("bills.")
    }
