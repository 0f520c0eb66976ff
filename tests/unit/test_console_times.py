"""The times of the console's pages in the documentation are those that the benchmark wrote down."""

import json
from pathlib import Path

import pytest

from tests.benchmarks import console

FOUND = json.loads(Path(console.__file__).with_name("console.json").read_text())
PAGE = (Path(__file__).parents[2] / "docs" / "performance.md").read_text()


@pytest.mark.parametrize("organization", ["large", "small"])
def test_the_page_of_performance_has_what_was_measured(organization):
    lines = console.table(FOUND[organization])
    assert len(lines) > 10
    assert "\n".join(lines) in PAGE
