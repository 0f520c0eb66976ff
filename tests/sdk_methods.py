"""The methods of the public SDK and the requests that they make, read from its own code."""

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import m3ter

# A path of the API; `usage.submit_all`, which sends what `usage.submit` does in parts, has a URL.
_REQUEST = re.compile(r'self\._(get|post|put|delete|patch|get_api_list)\(\s*f?"(/[^"]+)"')
_MEMBER = re.compile(r"\{[^}]*\}")


class Method(NamedTuple):
    """One method, such as `accounts.create`, and the request that it makes."""

    name: str
    verb: str
    path: str

    @property
    def place(self) -> tuple[str, str]:
        return place(self.verb, self.path)


def place(verb: str, path: str) -> tuple[str, str]:
    """A request without the names of the path's members, which differ."""
    return verb, _MEMBER.sub("{}", path)


def methods() -> Iterator[Method]:
    """Every method of the SDK that makes a request."""
    with m3ter.M3ter(api_key="key", api_secret="secret", org_id="org") as client:
        yield from _of(client, "")


def _of(owner: Any, prefix: str) -> Iterator[Method]:
    for name, member in inspect.getmembers(type(owner)):
        if name.startswith(("_", "with_")):
            continue
        if isinstance(member, cached_property):
            yield from _of(getattr(owner, name), f"{prefix}{name}.")
        elif prefix and inspect.isfunction(member):
            source = inspect.getsource(inspect.unwrap(member))
            found = _REQUEST.search(source)
            if found is not None:
                yield Method(f"{prefix}{name}", _verb(found[1], source), found[2])


def _verb(function: str, source: str) -> str:
    if function != "get_api_list":
        return function.upper()
    return "POST" if 'method="post"' in source else "GET"
