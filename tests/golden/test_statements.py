"""The statement of a bill with all kinds of lines, byte for byte; `ACCEPT_GOLDEN=1` writes it anew."""

import json
import os
from pathlib import Path

import pytest

from meterlake.model.bills.statements import StatementFormat
from meterlake.pipeline.statements.files import write_format
from tests.statement_world import a_billed_home, bill_ids, content_of, name_ids

FOLDER = Path(__file__).parent / "statements"


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    with a_billed_home(tmp_path_factory.mktemp("golden")) as home:
        [bill_id] = bill_ids(home)
        assert content_of(home, bill_id) == content_of(home, bill_id)
        yield content_of(home, bill_id)


@pytest.mark.parametrize("format_", StatementFormat)
def test_a_statement_of_all_kinds_of_lines(content, format_):
    data = write_format(content, format_)
    text = name_ids(data.decode())
    if format_ is StatementFormat.JSON:
        # For people who read the difference.
        text = json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"
    path = FOLDER / f"everything.{format_}"
    if os.environ.get("ACCEPT_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")

    assert data == write_format(content, format_)
    assert text == path.read_text("utf-8")
