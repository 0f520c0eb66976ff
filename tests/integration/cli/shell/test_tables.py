"""Tables: what people see of a value."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.cli.shell import tables
from meterlake.cli.shell.output import Output, error_line
from meterlake.cli.shell.tables import Bar, TableColumn


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (True, "yes"),
        (1234567, "1,234,567"),
        (Decimal("1234.500"), "1,234.5"),
        (Decimal("1E+3"), "1,000"),
        (datetime(2026, 10, 1, tzinfo=UTC), "2026-10-01T00:00:00Z"),
        ({"a": 1, "b": None}, "a 1"),
        (["x", "y"], "x, y"),
        ([{"a": 1}, {"a": 2}], "a 1; a 2"),
        ("[bold]text[/]", "[bold]text[/]"),
    ],
)
def test_a_cell(value, text):
    assert tables.cell(value) == text


def test_texts_are_no_markup_and_lines_have_no_trailing_spaces(capsys):
    columns = [TableColumn("name", "Name"), TableColumn("count", "[Count]")]
    tables.show([{"name": "[red]x", "count": 5}], columns, "T")

    out = capsys.readouterr().out
    assert "[red]x" in out
    assert "[Count]" in out
    assert all(line == line.rstrip() for line in out.splitlines())


def test_bars_are_in_proportion(capsys):
    numbers = {"a": Decimal(10), "b": Decimal(5), "c": Decimal(0)}
    tables.show_bars([Bar(name, each, str(each)) for name, each in numbers.items()], "Picture")

    counts = [line.count("█") for line in capsys.readouterr().out.splitlines()[1:4]]
    assert counts == [48, 24, 0]


def test_a_sentence_does_not_steer_the_terminal_either(capsys):
    Output(json=False).note("left alone: \x1b[2Jx\u202ey\nnext")
    error_line("Invalid", "no \x1b]0;title\x07 here", json=False)

    told = capsys.readouterr()
    assert told.out == "left alone: \\u001b[2Jx\\u202ey\nnext\n"
    assert told.err == "meterlake: no \\u001b]0;title\\u0007 here\n"


ID = "3f61a9b2-0c44-4a7e-9d55-1b2c3d4e5f60"
ROW = {
    "id": ID,
    "reason": "InvalidTimestamp",
    "detail": "'17.10.2026 09:15' is no ISO 8601 instant, and nothing else is read",
    "rows": 1_234_567,
    "file": "2026-10/usage-of-the-first-half-of-the-month.csv.gz",
    "note": None,
}
COLUMNS = ("!id", "reason", "detail", "rows", "?file", "note", "+reason=again")


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_a_table_fits_and_its_ids_are_whole(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))

    Output(json=False).rows([ROW, ROW], COLUMNS)

    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= width
    assert out.count(ID) == 2
    assert out.count("1,234,567") == 2
    assert "note" not in out.splitlines()[0], "nothing is in that column"
    assert ("csv.gz" in out) == (width in {60, 200}), "below each other there is room for all"


def test_a_wide_table_has_all_columns_however_wide_they_get(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")

    Output(json=False, wide=True).rows([ROW], COLUMNS)

    heading, _, row, *_ = capsys.readouterr().out.splitlines()
    assert heading.split()[-1] == "again"
    assert ROW["detail"] in row
    assert ROW["file"] in row


def test_a_table_of_nothing_has_no_head(capsys):
    Output(json=False).rows([], COLUMNS, "Title", empty="No rows.")

    assert capsys.readouterr().out == "No rows.\n"


def test_a_value_that_is_wider_than_a_terminal_stands_alone_and_whole(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    path = f"/homes/{ID}/{ID}.pdf"

    Output(json=False).record({"file": path, "bytes": 5})

    assert capsys.readouterr().out.splitlines()[:3] == [" file", f"   {path}", " bytes  5"]


def test_a_sentence_is_broken_between_words_and_no_command_is(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    command = "`meterlake bill diff 3f61a9b2 --against now --lines`"

    Output(json=False).note(f"The bill differs from what it would be. Look: {command}, please")

    assert capsys.readouterr().out.splitlines() == [
        "The bill differs from what it would be.",
        "Look:",
        f"{command},",
        "please",
    ]
