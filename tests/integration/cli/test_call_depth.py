"""How many functions of meterlake are called within each other between a command and its work.

And in how many files they are.

Whoever reads the code follows them one after the other. Generators and comprehensions count, too;
how deep a value is that is written as JSON does not: that says the value.
"""

import sys
from collections.abc import Callable
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

import meterlake
from meterlake.cli import run
from meterlake.cli.billing.bill import bill
from meterlake.cli.export.command import operational, usage
from meterlake.stages.bill.charges.line_draft import LineDraft
from tests.bills import a_home_to_bill

ROOT = str(Path(meterlake.__file__).parent)
BILL_DEPTH = 11
EXPORT_DEPTH = 16
BILL_FILES = 110
JSON = "/model/values/wire.py"


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path) as found:
        yield found


def name_of(code: CodeType) -> str:
    return f"{code.co_filename.removeprefix(ROOT)}:{code.co_name}"


def calls_within(verb: Callable[..., object], frame: FrameType | None) -> list[str]:
    """The functions of meterlake from a verb to a frame, or none outside of the verb."""
    found = []
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(ROOT) and not name.endswith(JSON):
            found.append(name_of(frame.f_code))
        if frame.f_code is verb.__code__:
            return found[::-1]
        frame = frame.f_back
    return []


def watch(note: Callable[[FrameType], None], *arguments: str) -> None:
    """Run a command, and note each call of it."""

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            note(frame)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        code = run(list(arguments))
    finally:
        sys.setprofile(before)
    assert code == 0


def test_few_calls_lie_between_bill_and_its_first_charge(home):
    drafted = LineDraft.__new__.__code__
    found: list[str] = []
    files: set[str] = set()

    def note(frame: FrameType) -> None:
        code = frame.f_code
        if found or not (files or code is bill.__code__):
            return
        if code is drafted:
            found.extend(calls_within(bill, frame))
        elif code.co_filename.startswith(ROOT) and code.co_flags & CO_OPTIMIZED:
            files.add(code.co_filename)

    watch(note, "bill", "--month", "2026-09", "--home", str(home.stores.home), "--json")

    assert found[0] == "/cli/billing/bill.py:bill"
    assert found[-1].startswith("/stages/bill/charges/")
    assert len(found) <= BILL_DEPTH, found
    assert len(files) <= BILL_FILES, files


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "verb", "arguments"),
    [
        ("aggregate", usage, ("usage", "--month", "2026-09")),
        ("bill", operational, ("operational",)),
    ],
)
def test_few_calls_lie_between_an_export_and_whatever_it_does(
    home, tmp_path, first, verb, arguments
):
    deepest: list[str] = []

    def note(frame: FrameType) -> None:
        if frame.f_code.co_filename.startswith(ROOT) and frame.f_code.co_name != "<module>":
            found = calls_within(verb, frame)
            if len(found) > len(deepest):
                deepest[:] = found

    at = ("--home", str(home.stores.home), "--json")
    assert run([first, "--month", "2026-09", *at]) == 0
    watch(note, "export", *arguments, "--to", str(tmp_path / "out"), *at)

    assert deepest[0] == f"/cli/export/command.py:{verb.__name__}"
    assert len(deepest) <= EXPORT_DEPTH, deepest
