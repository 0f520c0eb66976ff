"""Messages of rules: sentences that say what is in the way and what to do, and no riddles."""

import ast
import itertools
import re
from functools import cache
from pathlib import Path

import pytest

from meterlake.model import errors
from meterlake.model.errors import (
    Invalid,
    Locked,
    NotReconciled,
    Required,
    StaleVersion,
    StillReferenced,
    Unsupported,
)
from meterlake.model.values import problems

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


# What makes no rule, no error and names no command is not walked through.
MAKERS_OF_RULES = re.compile(r"\b(Invalid|PydanticCustomError|_rule_error|_refusal)\(")


@cache
def parse(path):
    """A file as a tree, once for all that look at it."""
    return ast.parse(path.read_text("utf-8"))


def rules_of(path):
    """The texts that `Invalid` gets as its rule, and those of checks of fields."""
    if not MAKERS_OF_RULES.search(path.read_text("utf-8")):
        return
    tree = parse(path)
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


@pytest.mark.parametrize("pattern", problems.PATTERN_RULES)
def test_every_rule_of_a_pattern_follows_it_must_be(pattern):
    rule = problems.PATTERN_RULES[pattern]
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


# --- What to do, where the world speaks against a request ------------------------------------

# By class: the argument that says what to do. Where it is not given, the class says it.
REMEDIES = {
    "Conflict": 0,
    "CannotMove": 0,
    "CannotBill": 0,
    "Forbidden": 0,
    "Unauthorized": 0,
    "BadTemplate": 1,
    "Busy": 1,
    "NotAvailable": 1,
    "BadQuery": 2,
    "Failure": 2,
    "NotFound": 2,
    "RunnerUnavailable": 2,
    "Unavailable": 2,
    "UnreadableConfiguration": 2,
    "UnreadableMapping": 2,
    "UnreadableSource": 2,
}
MAKERS_OF_ERRORS = re.compile(rf"\b({'|'.join(REMEDIES)})\(")
# An order to whoever reads it, a command that helps, or what happens next without him.
TO_DO = re.compile(
    r"(?i)(^|[;:,.] |\b(or|and) |`meterlake [^`]*` )(perhaps .*: )?"
    r"(add|aggregate|approve|ask|begin|change|check|choose|close|compare|compress|correct|create"
    r"|delete|deliver|end|export|get|give|go on|have|ingest|install|keep|leave|load|look|make|mend|mount|open"
    r"|move|name|put|raise|read|reopen|repeat|report|restore|retract|revert|review|run|say|send|set"
    r"|sign in|split|start|take|try|unset|wait|write|zip|removes|opens|makes|says|goes)\b"
    r"|\b(must|did you mean|goes on|has to go|says why|names what differs|makes (it|one)|by itself"
    r"|tries it again|nothing is left|shows all|closes it now)\b"
)
LIBRARY = "the words of a library, which names the place and what it expected there"
OURS = "the sentence of an error of ours, which says it"
# Texts that nobody can read at their place; the reason beside each.
SAID_ELSEWHERE = {
    ("api/server/dispatch.py", "{operation.detail}"): "a text of the table of operations",
    ("model/values/documents.py", "{rule}"): LIBRARY,
    (
        "model/measurements/mapping.py",
        "{'; '.join((f\"{_place(problem['loc'])}: {_rule(problem)}\" for problem in error.errors()[:3]))}",
    ): "rules of fields, which tests above hold",
    ("pipeline/billing/calculation/failures.py", "{str(error)}"): OURS,
    ("pipeline/billing/damaged_accounts.py", "{str(error)}"): OURS,
    ("pipeline/billing/late_usage/undecided.py", "{str(error)}"): OURS,
    (
        "pipeline/config/hooks.py",
        "{display_name(other)} cannot stay without {record.id}: {error}",
    ): OURS,
    ("pipeline/documents/render.py", "{mistake['jinja'][:_SHOWN_MAX]}"): LIBRARY,
    ("pipeline/documents/render.py", "{reason[:_SHOWN_MAX]}"): LIBRARY,
    ("pipeline/closing/bill_review.py", "{reason}"): "a failure that was stored",
    ("pipeline/ingest/commit.py", "{str(error)}"): OURS,
    ("pipeline/ingest/files.py", "{str(error.args[2])}"): OURS,
    (
        "pipeline/ingest/lookup_load.py",
        ": {suggest_name(code, known).replace('it must be one of', 'name one of')}",
    ): "it names those that there are",
    ("pipeline/ingest/reading.py", "{str(error)}"): OURS,
    ("pipeline/ingest/run.py", "{str(error)}"): OURS,
    ("pipeline/publish/query.py", "{' '.join(text.split())}"): LIBRARY,
    ("stages/bill/bills.py", "{reason + stands}"): "the reason is that of a CannotBill",
    ("stores/lake/moves/file_copies.py", "{str(error)}"): OURS,
}


def remedies_of(path, constants):
    """The class of each error that a file makes, with all that may be said of what to do."""
    if not MAKERS_OF_ERRORS.search(path.read_text("utf-8")):
        return
    tree = parse(path)
    functions = [
        each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    known = constants | assigned(tree.body)
    for function in functions:
        found = [each for each in ast.walk(function) if isinstance(each, ast.Return)]
        known[f"{function.name}()"] = [each.value for each in found if each.value is not None]
    calls = {}
    for function in functions:
        found = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
        if found := [each for each in found if called(each) in REMEDIES]:
            names = known | chosen(function)
            # The innermost function has it.
            calls |= {(each.lineno, each.col_offset): (each, names) for each in found}
    for node, names in calls.values():
        index = REMEDIES[called(node)]
        assert not node.keywords, f"{path}:{node.lineno}: say what to do in an argument by place"
        for argument in node.args[index : index + 1]:
            for text in written(argument, names):
                yield called(node), text


def chosen(function):
    """The values that the names of a function stand for."""
    found = assigned(ast.walk(function))
    for node in ast.walk(function):
        if isinstance(node, ast.NamedExpr):
            found.setdefault(node.target.id, []).append(node.value)
    return found


def called(call):
    """The name of the function or the method that is called."""
    return getattr(call.func, "id", "") or getattr(call.func, "attr", "")


def written(node, names):
    """All that an expression may say; what is not written down there stands in braces."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.IfExp():
            yield from (*written(node.body, names), *written(node.orelse, names))
        case ast.BoolOp():
            yield from (text for each in node.values for text in written(each, names))
        case ast.JoinedStr():
            parts = [tuple(written(each, names)) for each in node.values]
            yield from map("".join, itertools.product(*parts))
        case ast.FormattedValue():
            yield from written(node.value, names)
        case ast.Name() | ast.Call():
            yield from meant(node, names)
        case _:
            yield f"{{{ast.unparse(node)}}}"


def meant(node, names):
    """All that a name may stand for, or what a function of the file returns."""
    key = node.id if isinstance(node, ast.Name) else f"{called(node)}()"
    values = [each for each in names.get(key, ()) if ast.unparse(each) != "None"]
    # A name may be made of others, but not of itself.
    others = {name: each for name, each in names.items() if name != key}
    for each in values:
        yield from written(each, others)
    if not values:
        yield f"{{{ast.unparse(node)}}}"


def lacks_remedy(text):
    """Whether a text tells its reader nothing to do; the names of values are no words."""
    return not TO_DO.search(re.sub(r"\{[^}]*\}", "", text))


def constants_of(paths):
    """The constants that files take from one another."""
    found = {}
    for path in paths:
        values = assigned(parse(path).body)
        found |= {name: each for name, each in values.items() if re.match("[A-Z]", name)}
    return found


def test_every_error_says_what_to_do():
    paths = sorted(SOURCES.rglob("*.py"))
    constants = constants_of(paths)
    found = [
        (str(path.relative_to(SOURCES)), name, text)
        for path in paths
        for name, text in remedies_of(path, constants)
    ]
    lacking = {(path, text) for path, _, text in found if lacks_remedy(text)}

    assert len(found) > 300
    assert {name for _, name, _ in found} == set(REMEDIES)
    assert lacking - set(SAID_ELSEWHERE) == set()
    assert set(SAID_ELSEWHERE) - lacking == set()  # Nothing stays on the list for nothing.


def kinds_of(classes, name):
    """A kind of errors, and all that come from it."""
    kinds = {name}
    for _ in range(4):  # Children of children.
        kinds |= {each.name for each in classes if kinds & set(map(ast.unparse, each.bases))}
    return kinds


def test_every_kind_of_error_says_what_to_do_itself_or_by_an_argument():
    bodies = [parse(path).body for path in sorted(SOURCES.rglob("*.py"))]
    classes = [each for body in bodies for each in body if isinstance(each, ast.ClassDef)]
    # The rule of an `Invalid` says it; the base class is no error by itself.
    others = kinds_of(classes, "Invalid") | REMEDIES.keys() | {"MeterlakeError"}
    kinds = kinds_of(classes, "MeterlakeError") - others
    found = [
        (each.name, text)
        for each in classes
        if each.name in kinds
        for value in assigned(each.body).get("text", ())
        for text in texts_of(value, {})
    ]

    assert len(found) > 15
    assert [name for name, text in found if lacks_remedy(text)] == []


def test_an_error_without_a_remedy_is_found(tmp_path):
    file = tmp_path / "errors.py"
    file.write_text(
        "def wait(names, found):\n"
        "    again = f'start {found} again'\n"
        "    raise Conflict(f'no file {names} came in time')\n"
        "    raise Conflict(f'{found.name} has changed: {again}')\n"
        "    raise Unavailable('lake', 'it stands still')\n"
        "    raise Unavailable('lake', 'it was moved', _hint(found))\n"
        "    raise NotFound('file', 'a', ' any more' if found else '; deliver it again')\n"
        "    raise Forbidden(f'no permission for {found.check}')\n"
        "def _hint(found):\n"
        "    return 'it is gone'\n"
    )

    texts = [text for _, text in remedies_of(file, {})]
    assert [text for text in texts if lacks_remedy(text)] == [
        "no file {names} came in time",
        "it is gone",
        " any more",
        "no permission for {found.check}",
    ]
    assert len(texts) == 6


# Where texts may name a command and no operation; the reason beside each.
ONLY_COMMANDS = {
    "pipeline/billing/named_bills.py": "only commands take bills by such names",
    "pipeline/config/months.py": "only commands bill a month by its name",
    "pipeline/closing/close_month.py": "the words of commands, beside those of operations",
    "pipeline/maintenance/move_lake.py": "nobody moves lakes over HTTP",
    "stages/config/reference/schema.py": "it describes files for a command",
    "stores/home_settings.py": "who runs the home reads it",
    "stores/lake/lake.py": "who runs the home reads it",
    "stores/lake/moves/lake_move.py": "nobody moves lakes over HTTP",
    "stores/state/core/state.py": "who runs the home reads it",
}


def texts_in(tree):
    """The texts of a file, each as a whole, without what documents it."""
    nodes = list(ast.walk(tree))
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    parts |= {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            yield ast.unparse(node)
        elif isinstance(node, ast.Constant) and id(node) not in parts:
            yield str(node.value)


def test_what_is_said_over_http_names_operations_where_it_names_commands():
    paths = [
        path for name in ("model", "pipeline", "stages") for path in (SOURCES / name).rglob("*.py")
    ]
    paths += (SOURCES / "stores").rglob("*.py")
    found = {
        str(path.relative_to(SOURCES))
        for path in paths
        if "`meterlake " in path.read_text("utf-8")
        for text in texts_in(parse(path))
        if "`meterlake " in text and not re.search(r"`(GET|POST) ", text)
    }

    assert found == set(ONLY_COMMANDS)
