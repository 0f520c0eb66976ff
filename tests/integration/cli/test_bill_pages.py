"""The pages on documents, statements, `explain` and `verify`: their commands run as they are printed."""

import re
import shlex
from pathlib import Path

import pytest

from meterlake.cli import run
from tests.bills import a_home_to_bill
from tests.statement_world import SEPTEMBER, bill_ids

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("documents.md", "statements.md", "explain.md", "billing.md")
BLOCKS = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(meterlake bill (?:document|explain|statement|verify) [^`\[]*)`")
# The names by which a page calls a bill, and a month.
A_BILL = re.compile(
    r"\bBILL\b|\bacme 20\d\d-\d\d\b|\bINV-\d+\b|\b[0-9a-f]{8}((-[0-9a-f]{4}){3}-[0-9a-f]{12})?\b"
)
A_MONTH = re.compile(r"\b20\d\d-\d\d\b")
# What the commands of a page leave behind.
NAMED = {
    "documents.md": {"bill.html", "bill.pdf", "templates"},
    "statements.md": set(),
    "explain.md": {"bill.html", "line-1.txt"},
    "billing.md": set(),
}
OWN = ("document", "explain", "statement", "template", "verify")


def commands(page):
    """The commands of a page about bills that exist; of alternatives, each."""
    text = (DOCS / page).read_text("utf-8")
    lines = [line for block in BLOCKS.findall(text) for line in block.splitlines()]
    for line in (*lines, *INLINE.findall(BLOCKS.sub("", text))):
        words = line.split(" #")[0].split()
        if words[:2] == ["meterlake", "bill"] and words[2:3] and words[2] in OWN:
            yield from alternatives(" ".join(words))


def alternatives(line):
    """Both `--format json` and `--format csv` of `--format json|csv`."""
    found = re.search(r"\b(\w+)\|(\w+)\b", line)
    if found is None:
        return [line]
    return [line[: found.start()] + each + line[found.end() :] for each in found.groups()]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    from meterlake.pipeline.billing.jobs.jobs import bill

    with a_home_to_bill(tmp_path_factory.mktemp("pages")) as found:
        bill(found.organization, SEPTEMBER)
        yield found


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_as_they_are_printed(home, page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("METERLAKE_HOME", str(home.stores.home))
    found = list(commands(page))
    assert found, page
    for line in found:
        own = A_MONTH.sub(str(SEPTEMBER), A_BILL.sub(bill_ids(home)[0], line))
        words, _, target = own.partition(" > ")
        assert run(shlex.split(words)[1:]) == 0, (line, capsys.readouterr().err)
        printed = capsys.readouterr().out
        assert printed, line
        if target:
            Path(target).write_text(printed, "utf-8")
    written = {each.name for each in tmp_path.iterdir() if each.stat().st_size}
    assert written == NAMED[page]
