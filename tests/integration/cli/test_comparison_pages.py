"""The pages on `diff`, `what-if` and late usage: their commands run as they are printed."""

import re
import shlex
from pathlib import Path

import pytest

from meterlake.cli import run
from meterlake.model.customers.accounts import Account
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from tests.bill_diffs import identity_of, make_bills
from tests.bills import a_home_to_bill, use
from tests.homes import configure

DOCS = Path(__file__).parents[3] / "docs"
BLOCKS = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(meterlake (?:late|bill diff BILL)\b[^`]*)`")
# The names by which a page calls a bill, or another account.
AN_ID = re.compile(
    r"\bBILL\b|\bacme 20\d\d-\d\d\b|\bINV-\d+\b|\b[0-9a-f]{8}((-[0-9a-f]{4}){3}-[0-9a-f]{12})?\b"
)
PLAN = """
plans:
  - {code: gold, name: Gold, planTemplateId: cloud}
"""
PRICE = """
pricings:
  - code: sent
    planId: basic
    aggregationId: sent
    startDate: "2026-01-01T00:00:00Z"
    cumulative: true
    pricingBands: [{lowerLimit: 0, fixedPrice: 0, unitPrice: 2}]
"""
# How many commands each page has, and what they leave behind.
PAGES = {
    "bill-diff.md": (4, set()),
    "what-if.md": (5, {"what-if.csv", "who.svg"}),
    "late-usage.md": (7, set()),
}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home with a bill of three contents, files to apply, and a backfill that is staged."""
    with a_home_to_bill(tmp_path / "home") as home:
        ada = {"code": "ada-ltd", "name": "Ada", "emailAddress": "a@ada.example"}
        configure(home.organization, accounts=[ada])
        home.bill = make_bills(home)["acme"]
        for name in ("late", "later"):
            use(home, (name, "acme", 5))
            make_bills(home)
        spec = BackfillSpec(Mode.RETRACT, "sent twice", source=identity_of(home, "late.csv"))
        backfill.start(home.organization, Order(spec, "ann", "sent-twice"))
        folder = tmp_path / "work"
        (folder / "new-plans").mkdir(parents=True)
        (folder / "new-plans" / "gold.yaml").write_text(PLAN)
        (folder / "prices.yaml").write_text(PRICE)
        monkeypatch.chdir(folder)
        monkeypatch.setenv("METERLAKE_HOME", str(home.stores.home))
        yield home


def commands(page):
    """The commands in the blocks of a page, and between its words."""
    text = (DOCS / page).read_text("utf-8")
    yield from (line for block in BLOCKS.findall(text) for line in block.splitlines())
    yield from INLINE.findall(BLOCKS.sub("", text))


def replace_ids(home, line):
    """A command about what is there: the bill; beside the code of an account, another one."""
    with home.organization.reading() as reader:
        bolt = reader.find(Account, "bolt").id
    return AN_ID.sub(bolt if "--accounts" in line else home.bill, line)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_as_they_are_printed(home, page, capsys):
    found = list(commands(page))
    count, files = PAGES[page]
    assert len(found) == count, found
    for line in found:
        assert run(shlex.split(replace_ids(home, line))[1:]) == 0, (line, capsys.readouterr().err)
        captured = capsys.readouterr()
        assert captured.out or captured.err, line
    left = {each.name for each in Path.cwd().iterdir() if each.stat().st_size}
    assert left - {"prices.yaml", "new-plans"} == files
