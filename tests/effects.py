"""Which test sees what an operation of the API does: claimed by a marker, and checked while it runs.

`@pytest.mark.sees("PostProduct")` says that a test calls the operation and asserts what comes of it.
A test whose operations were not answered with success fails, whatever it asserts.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.sdk_methods import methods, place

TESTS = Path(__file__).parent
STANDARD = ("create", "retrieve", "list", "update", "delete")
LIVES = "tests/e2e/api/test_resources.py::test_lives_from_creation_to_deletion"


class Claim(NamedTuple):
    """That a test sees what an operation does."""

    operation: str
    test: str
    asserts: bool


@pytest.fixture(autouse=True)
def _sees_what_it_claims(request: pytest.FixtureRequest) -> Iterator[None]:
    marker = request.node.get_closest_marker("sees")
    if marker is None:
        yield
        return
    from tests.served import ANSWERED  # servers are slow to import

    ANSWERED.clear()
    yield
    missing = set(marker.args) - ANSWERED
    assert not missing, f"claims to see {sorted(missing)}, which it did not call with success"


@cache
def claims() -> tuple[Claim, ...]:
    """What all tests claim, read from their code."""
    return tuple(claim for path in TESTS.rglob("test_*.py") for claim in _claims_of(path))


def _claims_of(path: Path) -> Iterator[Claim]:
    text = path.read_text()
    if "mark.sees" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            asserts = any(isinstance(each, ast.Assert) for each in ast.walk(node))
            name = f"{path.relative_to(TESTS.parent).as_posix()}::{node.name}"
            yield from (Claim(each, name, asserts) for each in _marked(node))


def _marked(node: ast.FunctionDef) -> Iterator[str]:
    for decorator in (each for one in node.decorator_list for each in ast.walk(one)):
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.sees":
            yield from (ast.literal_eval(argument) for argument in decorator.args)


@cache
def _sdk() -> dict[str, tuple[str, str]]:
    return {method.name: method.place for method in methods()}


@cache
def _operations() -> dict[tuple[str, str], str]:
    from meterlake.api.routes import OPERATIONS  # servers are slow to import

    return {place(each.method, each.path): each.id for each in OPERATIONS}


def of_lives(rows: Any) -> set[str]:
    """The standard operations of rows of the table of bodies, each of which lives its life."""
    known, places = _operations(), _sdk()
    return {known[places[f"{row.api}.{verb}"]] for row in rows for verb in STANDARD}
