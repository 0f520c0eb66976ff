"""Which events happen: claimed by a marker, and checked in what is written down.

`@pytest.mark.happens("ingest.upload.alert")` says that a test makes the event happen, or something
that all tests of its module share. A test fails if no such event was written by then.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event

TESTS = Path(__file__).parent
# The texts of all events that were written since the module of tests began.
_written: set[str] = set()
_module: list[Any] = []


@event.listens_for(Engine, "before_cursor_execute")
def _note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
    if statement.startswith("INSERT INTO event "):
        _written.update(_texts(parameters))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin anew with each module; what its tests share is made within it."""
    module = item.getparent(pytest.Module)
    if _module != [module]:
        _module[:] = [module]
        _written.clear()


@pytest.fixture(autouse=True)
def _makes_happen_what_it_claims(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    for marker in request.node.iter_markers("happens"):
        missing = set(marker.args) - _written
        assert not missing, f"claims to make happen {sorted(missing)}, which nobody wrote"


@cache
def happening() -> dict[str, str]:
    """The names of events that tests of the default suite make happen, and one test of each."""
    found: dict[str, str] = {}
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "mark.happens" in text else ():
            if isinstance(node, ast.FunctionDef):
                place = f"{path.relative_to(TESTS.parent).as_posix()}::{node.name}"
                found |= dict.fromkeys(_claims(node), place)
    return found


def _claims(function: ast.FunctionDef) -> Iterator[str]:
    decorators = [each for node in function.decorator_list for each in ast.walk(node)]
    if any(isinstance(each, ast.Attribute) and each.attr == "slow" for each in decorators):
        return
    for each in decorators:
        if isinstance(each, ast.Call) and getattr(each.func, "attr", "") == "happens":
            yield from (arg.value for arg in each.args if isinstance(arg, ast.Constant))
