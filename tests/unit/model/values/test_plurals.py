"""Numbers of things agree with their nouns, wherever they are said."""

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

import meterlake
from meterlake.model.values.plurals import counted, first_of

SOURCES = Path(meterlake.__file__).parent
# A number that a text counts with: its noun follows at once.
NOUN = re.compile(r" ([a-z]+ )?[a-z]+s\b")
# Numbers that are never one, and words that are no nouns; the reason beside each.
OTHERWISE = {
    ("cli/billing/what_if_output.py", "found.less"): "they pay",
    ("cli/billing/changes.py", "len(ids)"): "several",
    ("console/start/first_file.py", "len(lines) - 1"): "more than are allowed",
    ("model/measurements/columns.py", "len(columns)"): "more than are allowed",
    ("model/custom_sql/table.py", "len(types)"): "not one",
    ("model/work/backfill.py", "_LONGEST.days"): "a limit",
    ("model/resources/listing.py", "len(found)"): "more than are allowed",
    ("model/values/problems.py", "len(found)"): "several",
    ("api/submit.py", "len(found)"): "none, or more than are allowed",
    ("pipeline/backfill/selection.py", "len(rows)"): "several",
    ("pipeline/home/alerts.py", "received"): "some of several",
    ("pipeline/integrations/connectors/connector.py", "len(outcomes)"): "a mistake of a program",
    ("pipeline/integrations/connectors/connector.py", "len(sent)"): "a mistake of a program",
    ("pipeline/integrations/connectors/http.py", "len(external_id)"): "more than are allowed",
    ("pipeline/integrations/connectors/stripe_invoices.py", "len(items)"): "more than are allowed",
    ("pipeline/lookups/lookups.py", "len(documents)"): "more than are allowed",
    ("stages/ingest/validate/former_fields.py", "len(names)"): "more than are allowed",
    ("stages/ingest/derive/__init__.py", "field.text_max"): "a limit",
    ("stages/report/explanation_page.py", "count"): "more than are shown",
    ("stages/report/movers_picture.py", "movers.less"): "they pay",
    ("stages/report/movers_picture.py", "shown"): "as many as fit",
    ("stores/files/zip_file.py", "len(files)"): "not one",
    ("stores/lake/backfill/rows.py", "meters"): "a lake that somebody changed by hand",
    ("stores/lake/moves/catalog_rows.py", "theirs.rows"): "a catalog that is damaged",
    ("stores/lake/moves/file_copies.py", "found"): "a file that is damaged",
}


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (counted(0, "file"), "0 files"),
        (counted(1, "file"), "1 file"),
        (counted(2000, "file"), "2,000 files"),
        (counted(1, "entry", "entries"), "1 entry"),
        (counted(2, "bill was", "bills were"), "2 bills were"),
        (first_of(["a", "b"], 2), "a; b"),
        (first_of(["a", "b", "c", "d"], 2, ", "), "a, b, and 2 more"),
    ],
)
def test_a_number_stands_with_its_noun(said, text):
    assert said == text


def numbers_with_nouns(tree):
    """The numbers of texts that a plural follows; constants are known not to be one."""
    for node in ast.walk(tree):
        parts = node.values if isinstance(node, ast.JoinedStr) else []
        for number, text in pairwise(parts):
            if not isinstance(number, ast.FormattedValue) or not isinstance(text, ast.Constant):
                continue
            value = ast.unparse(number.value)
            grouped = number.format_spec is not None and "," in ast.unparse(number.format_spec)
            counts = (grouped or "len(" in value) and not value.isupper()
            if counts and NOUN.match(text.value):
                yield value


@pytest.mark.long
def test_every_number_agrees_with_its_noun():
    found = {
        (str(path.relative_to(SOURCES)), value)
        for path in SOURCES.rglob("*.py")
        for value in numbers_with_nouns(ast.parse(path.read_text("utf-8")))
    }

    assert found == set(OTHERWISE)
