"""The table of the members of bills and lines: one more row is a member of everything that it names."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from meterlake.model.bills.members import BILL_MEMBERS, LINE_MEMBERS, ShownIn
from tests.added_member import MEANING, VALUE

ROOT = Path(__file__).parents[3]
STATEMENT = json.loads((ROOT / "docs" / "statement.schema.json").read_text())
# What a statement has beyond the members of bills and lines.
MORE_OF_BILLS, MORE_OF_LINES = {"accountName", "total"}, {"bands", "usageOf", "usage"}


@pytest.mark.long
def test_a_member_that_is_added_is_shown_wherever_its_row_says(tmp_path):
    program = [sys.executable, "-m", "tests.added_member", str(tmp_path)]
    done = subprocess.run(program, check=False, capture_output=True, text=True, cwd=ROOT)

    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "shown.json").read_text()) == {
        # Its value.
        **dict.fromkeys(("bill", "line", "memo", "statement", "csv"), VALUE),
        **dict.fromkeys(("export", "exported csv", "focus", "published"), VALUE),
        # Its type and its meaning.
        **dict.fromkeys(("BillLineItem", "BillLineItemResponse"), "string"),
        "dictionary": [["VARCHAR", MEANING]],
        "page": [f"| `cost_centre` | VARCHAR | {MEANING} |"],
    }


@pytest.mark.parametrize("members", [BILL_MEMBERS, LINE_MEMBERS], ids=["bill", "line"])
def test_a_member_has_one_row_and_a_meaning(members):
    names = [each.name for each in members]
    columns = [each.published_column for each in members if ShownIn.PUBLISHED in each.shown]

    assert len(set(names)) == len(names)
    assert len(set(columns)) == len(columns)
    assert [each.name for each in members if not each.meaning.endswith(".")] == []


@pytest.mark.parametrize(
    ("members", "schema", "more"),
    [
        (BILL_MEMBERS, STATEMENT["properties"]["bill"], MORE_OF_BILLS),
        (LINE_MEMBERS, STATEMENT["$defs"]["line"], MORE_OF_LINES),
    ],
    ids=["bill", "line"],
)
def test_the_schema_of_statements_has_the_members_that_they_show(members, schema, more):
    shown = {each.statement or each.name for each in members if ShownIn.STATEMENT in each.shown}

    assert set(schema["properties"]) == shown | more
    assert set(schema["required"]) - more <= shown
