"""Lines of CSV: whatever is in the cells, a reader finds the same rows."""

import csv
import io

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from meterlake.stages.decode.csv_lines import csv_lines

cells = st.text(st.sampled_from("a ,\"'=\r\n\v\x85\u2028é"), max_size=5)
tables = st.lists(st.lists(cells, min_size=1, max_size=4), max_size=4)


def read(text):
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


@given(tables)
@example([["'\r=1+1", "x"]])
@example([["\r"], ["\r\n"], [""]])
def test_a_reader_finds_the_same_rows(rows):
    lines = list(csv_lines(rows))

    assert read("".join(lines)) == rows
    assert [read(line) for line in lines] == [[row] for row in rows]


@settings(max_examples=50)
@given(tables)
@example([[], ["", ""], [""]])
def test_without_carriage_returns_lines_are_those_of_the_library(rows):
    rows = [[cell.replace("\r", "") for cell in row] for row in rows]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)

    assert "".join(csv_lines(rows)) == text.getvalue()


@pytest.mark.parametrize("text", ["a\rb", "\r=1+1", "a\r", "\r"])
def test_a_carriage_return_stands_in_quotes(text):
    assert list(csv_lines([["x", text]])) == [f'x,"{text}"\n']
