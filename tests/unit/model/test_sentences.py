"""Messages of rules: sentences that say what is in the way and what to do, and no riddles."""

import ast
import re
from pathlib import Path

import pytest

from meterlake.model import errors, patterns, problems
from meterlake.model.errors import (
    Invalid,
    Locked,
    NotReconciled,
    Required,
    StaleVersion,
    StillReferenced,
    Unsupported,
)

SOURCES = Path(errors.__file__).parents[2]
# What a rule tells its reader to do, or how the value has to be.
REMEDY = re.compile(
    r"\b(must|give|send|write|use|name|choose|set|add|keep|leave|take|let|end|change|copy|publish"
    r"|unset|make|did you mean|may be|may have|can name|allows)\b"
)
# The value that would be right, or a part of a sentence, where people ask what is wrong.
RIDDLES = re.compile(
    r"(?i)(absent|true|false|kept|as |given|what |either|not |no |only with|beside|together|without"
    r"|with |one of|at most|at least|from |before |while |for |\d|an? \w+ such)"
)
# Rules that are made of others, and the causes that a library or a query gives.
MADE_ELSEWHERE = {"{rule}", "{status} {detail}"}
STALE = (
    "Plan 'basic' is at version 3, not 2: somebody changed it since; read it again, and repeat your"
    " change"
)


def rules_of(path):
    """The texts that `Invalid` gets as its rule, and those of checks of fields."""
    tree = ast.parse(path.read_text("utf-8"))
    known = assigned(tree.body)
    functions = (each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef))
    for function in functions:
        names = known | assigned(ast.walk(function))
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                called = getattr(node.func, "id", "")
                if called in {"Invalid", "PydanticCustomError"}:
                    rules = node.args[2:3]
                else:
                    rules = node.args[:1] if called in {"_rule_error", "_refusal"} else []
                for rule in rules:
                    yield from texts_of(rule, names)


def assigned(nodes):
    """The texts that names stand for."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            found.setdefault(getattr(target, "id", ""), []).append(node.value)
    return found


def texts_of(node, names):
    """A text with the names of what it is made of; several where one is chosen."""
    if isinstance(node, ast.IfExp):
        yield from (*texts_of(node.body, names), *texts_of(node.orelse, names))
    elif isinstance(node, ast.BinOp):
        yield from texts_of(node.left, names)
    elif isinstance(node, ast.Dict):
        yield from texts_of(node.values[-1], names)
    elif isinstance(node, ast.Name):
        for each in names.get(node.id, ()):
            # A dictionary names its rule in turn.
            yield from texts_of(each, names if isinstance(each, ast.Dict) else {})
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(
            each.value if isinstance(each, ast.Constant) else f"{{{ast.unparse(each.value)}}}"
            for each in node.values
        )


def is_riddle(rule):
    """Whether a rule is no sentence of its own, or does not say what to do."""
    if rule in MADE_ELSEWHERE or re.match(
        r"\{(_RULE|rule|each\.rule|PUBLIC_URL|error\.args)", rule
    ):
        return False
    return bool(RIDDLES.match(rule)) or not REMEDY.search(rule)


def test_every_rule_is_a_sentence_that_says_what_to_do():
    # There, `_refusal` is about a word of a query, and about readiness.
    others = {SOURCES / "model" / "custom_sql" / "grammar.py", SOURCES / "worker" / "health.py"}
    paths = sorted({*SOURCES.rglob("*.py")} - others)
    found = [(str(path.relative_to(SOURCES)), rule) for path in paths for rule in rules_of(path)]

    assert len(found) > 400
    assert [each for each in found if is_riddle(each[1])] == []


def test_every_rule_of_a_type_is_a_sentence_that_says_what_to_do():
    rules = problems._RULES
    assert [rule for rule in rules.values() if is_riddle(rule)] == []


@pytest.mark.parametrize("pattern", patterns.PATTERN_RULES)
def test_every_rule_of_a_pattern_follows_it_must_be(pattern):
    rule = patterns.PATTERN_RULES[pattern]
    assert re.match(r"(an? |one |the |text |made of )", rule), rule


def test_a_riddle_is_found(tmp_path):
    file = tmp_path / "rules.py"
    file.write_text(
        "LIMIT = 'at most 3'\n"
        "def check(x):\n"
        "    rule = f'true, and given, as long as {x}'\n"
        "    raise Invalid('a', 1, rule)\n"
        "def others():\n"
        "    raise Invalid('a', 1, 'absent beside b' if 1 else 'it is not there')\n"
        "    raise Invalid('a', 4, LIMIT)\n"
        "    raise Invalid('a', 4, f'it must be {LIMIT}')\n"
    )

    assert [is_riddle(each) for each in rules_of(file)] == [True, True, True, True, False]


def test_an_option_without_a_value_is_named_alone():
    rule = "leave it out when you give --html"
    assert str(Invalid("--all", True, rule)) == f"--all is not allowed here: {rule}"


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (Invalid("a", 5, "it must be at most 3"), "a: 5 is not allowed: it must be at most 3"),
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
        (
            NotReconciled("a.csv", "measurements", 4, 3),
            (
                "nothing of a.csv was stored: 4 rows for the table measurements were counted while the"
                " file was read, but 3 are there; deliver the file again, and report it if this comes back"
            ),
        ),
        (
            Locked("bill", "b"),
            "bill 'b' is locked and stays as it is; correct it with a credit or a debit line item",
        ),
        (
            Unsupported("content type", "text/xml", "application/json"),
            "content type 'text/xml' is not supported; send application/json",
        ),
    ],
)
def test_an_error_says_what_to_do(error, sentence):
    assert str(error) == sentence
