"""Texts in CSV for spreadsheets: none is a formula, and every one comes back."""

import csv
import gzip
import io
from pathlib import Path

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meterlake.model.catalog.catalog import Product
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.run import export
from meterlake.stages.export.column_kinds import (
    MARK,
    STARTS,
    Kind,
    formula_free_cell,
    mark_text,
    unmark_cell,
)
from meterlake.stages.export.measurements import _MARKED

pytest_plugins = ["tests.doubles.fixtures"]

# What programs of tables are known to run, or did once.
FORMULAS = (
    "=1+1",
    "+1",
    "-2+3",
    "@SUM(A1)",
    "=cmd|' /C calc'!A0",
    "\t=1+1",
    "\r=1+1",
    "\n=1+1",
    " =1+1",
    "\u00a0=1",
    "\uff1d1+1",
    "\uff0b1",
    "\uff0d1",
    "\uff20SUM(A1)",
)
texts = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8),
    st.text(st.sampled_from([*STARTS, "a", '"', ","]), max_size=5),
)


@given(texts)
@example("")
@example("'=1")
@example("''")
def test_every_text_comes_back_and_none_begins_like_a_formula(text):
    written = mark_text(text)

    assert unmark_cell(written) == text
    assert not written.startswith(tuple(each for each in STARTS if each != MARK))
    assert written in {text, MARK + text}
    assert (written == text) == (text[:1] not in STARTS or not text)


@given(texts, texts)
def test_different_texts_stay_different(one, other):
    assert (mark_text(one) == mark_text(other)) == (one == other)


@pytest.mark.parametrize("text", FORMULAS)
def test_known_formulas_are_marked_and_numbers_are_not(text):
    assert mark_text(text) == f"'{text}"
    assert formula_free_cell(text, Kind.TEXT) == f"'{text}"
    assert formula_free_cell("-5", Kind.EXACT) == "-5"
    assert formula_free_cell(None, Kind.TEXT) == ""


@pytest.fixture(scope="module")
def engine():
    with duckdb.connect() as connection:
        yield connection


@given(written=st.lists(texts, min_size=1, max_size=20))
def test_the_engine_marks_as_we_do(engine, written):
    query = f"SELECT {_MARKED.format('t')} FROM (SELECT unnest(?::VARCHAR[]) AS t)"

    found = [row[0] for row in engine.execute(query, [written]).fetchall()]

    assert found == [mark_text(each) for each in written]


@pytest.mark.long
@pytest.mark.parametrize(
    ("source", "types"),
    [(Source.USAGE, ()), (Source.OPERATIONAL, ("meters", "products", "billLineItems"))],
)
def test_an_export_for_spreadsheets_is_the_other_one_with_marks(home, source, types):
    for code in ("=HYPERLINK(1)", "'quoted"):
        meter, odd = home.meter(code), ("@x", "\r=1+1")
        home.store(meter, [(f"-{code}", "acme", "2026-10-01 00:00:00", None, "-1", None, *odd)])
    named(home, "\r=1+1")
    machine, person = (
        [
            cells
            for file in made.manifest["files"]
            for cells in _rows(Path(made.url, file["key"]), file["columns"])
        ]
        for spreadsheet in (False, True)
        for made in [
            export(
                home.organization,
                ExportRequest(source=source, types=types, spreadsheet=spreadsheet),
            )
        ]
    )
    back = [
        [(kind, unmark_cell(cell) if kind == "text" else cell) for kind, cell in row]
        for row in person
    ]

    assert back == machine
    assert machine != person
    for row in person:
        assert not [cell for kind, cell in row if kind == "text" and cell[:1] in set("=+-@\t\r\n")]
    if source is Source.USAGE:
        assert ("number", "-1") in [cell for row in person for cell in row]


@pytest.mark.parametrize("format_", Format)
def test_the_manifest_says_marked_only_of_files_that_are(home, format_):
    named(home, "'quoted")
    types = ("products",)
    request = ExportRequest(
        source=Source.OPERATIONAL, types=types, format=format_, spreadsheet=True
    )
    done = export(home.organization, request)

    assert done.manifest["spreadsheet"] is (format_ is Format.CSV)
    content = Path(done.url, done.manifest["files"][0]["key"]).read_bytes()
    text = content if format_ is Format.PARQUET else gzip.decompress(content)
    assert (b"''quoted" in text) is (format_ is Format.CSV)


def named(home, name: str) -> None:
    """Create a product of a name."""
    with home.organization.transaction("test") as transaction:
        transaction.create(Product.from_wire({"name": name, "code": "odd"}))


def _rows(path: Path, columns: list[dict]) -> list[list[tuple[str, str]]]:
    text = gzip.decompress(path.read_bytes()).decode()
    kinds = [column["type"] for column in columns]
    header, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert header == [column["name"] for column in columns]
    return [list(zip(kinds, row, strict=True)) for row in rows]
