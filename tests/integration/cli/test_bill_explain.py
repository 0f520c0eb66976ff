"""`meterlake bill explain`: what it shows, and how it ends."""

import json
import re
from types import SimpleNamespace

import pytest
from sqlalchemy import text

from meterlake.cli import run
from meterlake.cli.billing import explanation_tree
from meterlake.cli.billing.explanation_tree import signs_of_terminal
from meterlake.stages.report.explained_text import ASCII, UNICODE
from tests.bills import a_home_to_bill
from tests.explained_trees import check_tree
from tests.integration.cli.test_bill import NO_ID, lines_of

BILLED = "--month", "2026-09"


@pytest.fixture(scope="module")
def billed(tmp_path_factory):
    """A home whose bills are made, and the ids of these."""
    with a_home_to_bill(tmp_path_factory.mktemp("billed")) as home:
        assert run(["bill", *BILLED, "--home", str(home.stores.home)]) == 0
        with home.stores.state.writing_home() as connection:
            query = text("SELECT id FROM bill ORDER BY total DESC")
            yield home, list(connection.execute(query).scalars())


def shown(billed, capsys, *options):
    """The exit status of a command, and what it prints."""
    capsys.readouterr()
    home, ids = billed
    code = run(["bill", "explain", ids[0], *options, "--home", str(home.stores.home)])
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((NO_ID,), f"no bill '{NO_ID}'"),
        (("bill",), "no bill 'bill'"),
        (
            ("ID", "9"),
            "line: '9' is not allowed: it must be one of the lines 1 (USAGE Sent), 2 (STAND",
        ),
        (("ID", "--rows", "-1"), "--rows: -1 is not allowed: it must be from 0 to 1000"),
        (("ID", "--rows", "1001"), "--rows: 1001 is not allowed: it must be from 0 to 1000"),
        (("ID", "--version", "0"), "--version: 0 is not allowed: it must be 1 or more"),
        (("ID", "--version", "2"), "no version of the bill"),
        (("ID", "--all"), "--all is not allowed here: it is about one line"),
        (
            ("ID", "1", "--all", "--html", "page.html"),
            "--all is not allowed here: leave it out when you give",
        ),
        (
            ("ID", "--html", "/"),
            "--html: '/' is not allowed: it must be a file in a folder that exists",
        ),
        (("ID", "1", "--html", "none/page.html"), "--html: 'none/page.html' is not allowed"),
    ],
)
def test_options_that_make_no_sense_are_refused(billed, capsys, options, told):
    home, ids = billed
    given = [ids[0] if each == "ID" else each for each in options]

    code, [line] = lines_of(home, capsys, "explain", *given)

    assert code != 0
    assert told in str(line)


def test_a_bill_is_a_tree_of_numbers_in_columns(billed, capsys):
    code, out, err = shown(billed, capsys)

    assert (code, err) == (0, "")
    rows = [line for line in out.splitlines() if " USD" in line or " GB" in line]
    assert rows[0].startswith("Total")
    assert re.search(r"├─ 1\. USAGE Sent +42\.50 USD +rounded to 2 decimals, halves up", out)
    assert re.search(r"│  └─ exact amount +42\.50 USD +42\.5 × 1", out)
    assert re.search(r"│     └─ SUM sent +42\.5 GB +2 measurements; Aggregation sent v1", out)
    assert re.search(r"└─ 2\. STANDING_CHARGE Standing Charge +31\.00 USD", out)
    assert len({line.index(" USD") for line in rows if " USD" in line}) == 1
    assert f"meterlake bill explain {billed[1][0]} 1" in out


@pytest.mark.long
def test_a_line_has_its_sql_and_its_measurements(billed, capsys):
    code, out, _ = shown(billed, capsys, "1", "--rows", "1")

    assert code == 0
    statement = re.search(r"SELECT sum.*?\n(?=Meas|\n)", out, re.DOTALL)[0]
    assert "AT (VERSION => " in statement
    assert re.search(r"1\.csv +2 +1 +2026-09-03T10:00:00Z +40", out)
    assert "The first 1 of 2" in out
    home = str(billed[0].stores.home)
    assert run(["sql", statement, "--home", home, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"quantity": 42.5, "measurements": 2}


@pytest.mark.long
def test_many_other_lines_are_one_number_that_the_total_follows_from(billed, capsys, monkeypatch):
    monkeypatch.setattr(explanation_tree, "_OTHERS_MAX", 0)

    code, out, _ = shown(billed, capsys, "1")

    assert code == 0
    assert re.search(r"Total +73\.50 USD +42\.50 \+ 31\.00", out)
    assert re.search(r"└─ 1 other line +31\.00 USD", out)


@pytest.mark.long
def test_json_is_the_tree_and_all_measurements_behind_it(billed, capsys):
    code, out, _ = shown(billed, capsys, "1", "--all", "--json")

    tree, *rows = map(json.loads, out.splitlines())
    assert (code, tree["same"], tree["bill"]["line"] is None) == (0, True, False)
    assert check_tree(tree["tree"]) > 5
    assert [(each["file"], each["row"], each["value"]) for each in rows] == [
        ("1.csv", 2, 40),
        ("1.csv", 3, 2.5),
    ]


@pytest.mark.long
def test_all_measurements_are_printed_behind_the_tree(billed, capsys):
    _, out, _ = shown(billed, capsys, "1", "--all")

    table = out[out.index("file\trow") :].splitlines()
    assert table == [
        "file\trow\tuid\tts\tvalue",
        "1.csv\t2\t1\t2026-09-03T10:00:00Z\t40",
        "1.csv\t3\t2\t2026-09-03T10:00:00Z\t2.5",
    ]


@pytest.mark.long
def test_a_page_has_all_of_it(billed, capsys, tmp_path):
    path = tmp_path / "bill.html"
    code, out, _ = shown(billed, capsys, "--html", str(path))

    assert (code, "bytes" in out) == (0, True)
    page = path.read_text("utf-8")
    assert "AT (VERSION =&gt; " in page
    assert "<td>1.csv</td>" in page


@pytest.mark.parametrize(
    ("encoding", "signs"), [("utf-8", UNICODE), ("latin-1", ASCII), ("ascii", ASCII), (None, ASCII)]
)
def test_a_terminal_without_the_signs_gets_others(monkeypatch, encoding, signs):
    monkeypatch.setattr(
        "meterlake.cli.billing.explanation_tree.sys",
        SimpleNamespace(stdout=SimpleNamespace(encoding=encoding)),
    )
    assert signs_of_terminal() is signs


@pytest.mark.long
def test_a_change_of_what_is_stored_ends_the_command_with_1(tmp_path, capsys):
    with a_home_to_bill(tmp_path) as home:
        _, made = lines_of(home, capsys, *BILLED)
        id_ = next(each["id"] for each in made if each["type"] == "bill")
        with home.stores.state.writing_home() as connection:
            connection.execute(text("UPDATE bill SET total = '7'"))
        code = run(["bill", "explain", id_, "--home", str(home.stores.home)])
    assert code == 1
    assert "1 difference from what is stored, the first: bill" in capsys.readouterr().err
