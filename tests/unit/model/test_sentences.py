"""Messages of rules: they say what is in the way and what to do, and are no riddles."""

import ast
from pathlib import Path

import pytest

from meterlake.model import errors
from meterlake.model.errors import Invalid, Required, StaleVersion, StillReferenced

SOURCES = Path(errors.__file__).parents[2]
# The value that would be right, where people ask what is wrong.
RIDDLES = ("absent ", "true", "false", "kept ", "as ", "given ", "what ", "either ")
STALE = (
    "Plan 'basic' is at version 3, not 2: somebody changed it since; read it again, and repeat your"
    " change"
)


def rules_of(path):
    """The texts that `Invalid` gets as its rule, or that are called so."""
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Invalid":
            yield from map(text_of, node.args[2:3])
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "rule":
            yield text_of(node.value)


def text_of(node):
    """How a text begins; empty if it begins with what is only known later."""
    first = node.values[0] if isinstance(node, ast.JoinedStr) and node.values else node
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


@pytest.mark.parametrize("folder", ["model/rules", "cli"])
def test_no_rule_is_said_as_the_value_that_would_be_right(folder):
    found = [
        (path.name, rule)
        for path in sorted((SOURCES / folder).rglob("*.py"))
        for rule in rules_of(path)
        if rule
    ]

    assert len(found) > 20
    assert [each for each in found if each[1].startswith(RIDDLES)] == []


def test_a_riddle_is_found(tmp_path):
    file = tmp_path / "rules.py"
    file.write_text(
        "rule = f'true, and given, as long as {x}'\nInvalid('a', 1, 'absent beside b')\n"
    )

    assert [each.startswith(RIDDLES) for each in rules_of(file)] == [True, True]


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (Invalid("a", 5, "at most 3"), "a: 5 is not allowed: at most 3"),
        (Required("a"), "a is required"),
        (Required("--org", None, "this home has a, b"), "--org is required: this home has a, b"),
        (
            StaleVersion("Plan", "basic", 3, 2),
            STALE,
        ),
        (
            StillReferenced("Plan", "basic", "AccountPlan 'a'"),
            "Plan 'basic' is still referenced by AccountPlan 'a', which has to go or to change first",
        ),
    ],
)
def test_an_error_says_what_to_do(error, sentence):
    assert str(error) == sentence
