"""Which of the cases of a test are long: those that show what another one shows already.

Of each kind the default suite keeps a case; the others run with the long tests.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import pytest


def long_repeats(cases: Sequence[Any], kind: Callable[..., Hashable]) -> list[Any]:
    """The first case of each kind is a case of its own; those that repeat its kind are long."""
    known: set[Hashable] = set()
    found = []
    for case in map(_as_tuple, cases):
        found.append(_long(case) if kind(*case) in known else pytest.param(*case))
        known.add(kind(*case))
    return found


def long_after(kept: int, cases: Sequence[Any]) -> list[Any]:
    """The first cases show each kind; those after them are long."""
    return [*cases[:kept], *(_long(_as_tuple(each)) for each in cases[kept:])]


def _as_tuple(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)


def _long(case: tuple[Any, ...]) -> Any:
    return pytest.param(*case, marks=pytest.mark.long)
