"""Tables: what people see of a value."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.cli import tables
from meterlake.cli.output import Output, error_line


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (1234567, "1,234,567"),
        (Decimal("1234.500"), "1,234.5"),
        (Decimal("1E+3"), "1,000"),
        (datetime(2026, 10, 1, tzinfo=UTC), "2026-10-01T00:00:00Z"),
        ({"a": 1, "b": None}, "a 1, b "),
        (["x", "y"], "x, y"),
        ([{"a": 1}, {"a": 2}], "a 1; a 2"),
        ("[bold]text[/]", "[bold]text[/]"),
    ],
)
def test_a_cell(value, text):
    assert tables.cell(value) == text


def test_texts_are_no_markup_and_lines_have_no_trailing_spaces(capsys):
    tables.show([{"name": "[red]x", "count": 5}], [("name", "Name"), ("count", "[Count]")], "T")

    out = capsys.readouterr().out
    assert "[red]x" in out
    assert "[Count]" in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_bars_are_in_proportion(capsys):
    tables.show_bars([("a", Decimal(10)), ("b", Decimal(5)), ("c", Decimal(0))], "Picture")

    counts = [line.count("█") for line in capsys.readouterr().out.splitlines()[1:]]
    assert counts == [48, 24, 0]


def test_a_sentence_does_not_steer_the_terminal_either(capsys):
    Output(json=False).note("left alone: \x1b[2Jx\u202ey\nnext")
    error_line("Invalid", "no \x1b]0;title\x07 here", json=False)

    told = capsys.readouterr()
    assert told.out == "left alone: \\u001b[2Jx\\u202ey\nnext\n"
    assert told.err == "meterlake: no \\u001b]0;title\\u0007 here\n"
