"""docs/api-coverage.md cannot lie: it is generated from the API's table and the SDK's own code.

`python tests/integration/api/test_coverage.py` writes it anew.
"""

import csv
import re
from functools import cache
from pathlib import Path

import pytest

from meterlake.api.openapi import document
from meterlake.api.routes import BY_ID
from tests.e2e.api.bodies import ROWS
from tests.effects import claims, of_lives
from tests.sdk_methods import methods, place

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs" / "api-coverage.md"
CONTRACT = ROOT.parent / "shared" / "contract" / "endpoints.tsv"
INTRODUCTION = """# What the API can do

This page is for people who write a client: it lists every operation of the Config API,
with the method of the Python SDK `m3ter` {version} that calls it.
The SDK has {methods} methods. {works} operations work, {idle} have always the same answer yet, {later} answer 501 until a later version.
You find the details in the served document (`/openapi.json`), which you can read and try at `/docs`.

- **works**: a test calls it with success and asserts its effect. The test suite checks both.
- **not yet**: you get an answer as the contract describes it, but always the same one, since it has no data yet.
- **501**: you get an error with the reason.

An operation that works may still take fields without an effect: when you save one, the answer tells you.

Generated from the code: `python tests/integration/api/test_coverage.py` writes it anew.

| operation | request | SDK | |
|---|---|---|---|
"""


def operations():
    """Method, path and id of every operation, in the order of paths."""
    return sorted(
        (path, method.upper(), each["operationId"])
        for path, item in document()["paths"].items()
        for method, each in item.items()
    )


@cache
def seen():
    """The operations whose effect a test sees."""
    return {claim.operation for claim in claims()} | of_lives(ROWS)


def state(operation_id):
    operation = BY_ID.get(operation_id)
    if operation is not None and operation.detail:
        return f"{'501' if operation.handler is None else 'not yet'}: {operation.detail}"
    return "works" if operation_id in seen() else "no test sees what it does"


def coverage():
    names = {each.place: each.name for each in methods()}
    rows, states = [], []
    for path, verb, name in operations():
        sdk = names.get(place(verb, path))
        short = path.replace("/organizations/{orgId}", "…")
        states.append(state(name))
        rows.append(f"| {name} | {verb} `{short}` | {f'`{sdk}`' if sdk else ''} | {states[-1]} |")
    works = states.count("works")
    later = sum(each.startswith("501") for each in states)
    head = INTRODUCTION.format(
        version="0.9.0",
        methods=len(names),
        works=works,
        later=later,
        idle=len(states) - works - later,
    )
    return head + "\n".join(rows) + "\n"


def test_the_document_lists_what_the_code_has():
    assert DOCUMENT.read_text() == coverage()


def test_every_operation_that_works_is_seen_to_work_by_a_test():
    served = {name for _, _, name in operations()}
    known = {claim.operation: claim.test for claim in claims()}

    assert {name for name in served if state(name).startswith("no test")} == set()
    assert {test for name, test in known.items() if name not in served} == set()
    assert {claim.test for claim in claims() if not claim.asserts} == set()


def test_no_operation_has_always_the_same_answer():
    assert {each.id for each in BY_ID.values() if each.handler and each.detail} == set()


def test_of_bills_everything_works():
    """Bills, bill jobs, line items, statements, and the credits and debits that people put on bills."""
    of_bills = {
        name: state(name)
        for path, _, name in operations()
        if re.search(r"/(bills|billjobs|lineitems|statementjobs|statementdefinitions)(/|$)", path)
    }

    assert len(of_bills) > 40
    assert set(of_bills.values()) == {"works"}


def test_every_method_of_the_sdk_has_its_operation():
    served = {place(verb, path) for path, verb, _ in operations()}
    called = {each.name: each.place for each in methods()}
    assert len(called) == 286
    assert not [name for name, where in called.items() if where not in served]


def test_the_sdk_is_what_the_contract_says():
    if not CONTRACT.exists():
        pytest.skip("the contract is not part of the repository")
    with CONTRACT.open() as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert {(name, *place(verb, path)) for verb, path, name in rows} == {
        (each.name, *each.place) for each in methods()
    }


def test_everything_that_is_missing_says_why():
    assert not [each.id for each in BY_ID.values() if each.handler is None and not each.detail]


if __name__ == "__main__":
    DOCUMENT.write_text(coverage())
