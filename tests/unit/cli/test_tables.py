"""Tables: what people see of a value."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.cli import tables


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
