"""Bills as people name them, and the lists in which they find them."""

import json
import re

import pytest

import sample_data
from meterlake.cli import run
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import a_home_to_bill
from tests.homes import configure


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Bills of two accounts and two months; those of September have invoice numbers."""
    with a_home_to_bill(tmp_path_factory.mktemp("named")) as opened:
        bill(opened.organization, Month(2026, 8))
        numbered = {"daysBeforeBillDue": 14, "billPrefix": "INV-"}
        configure(opened.organization, organizationConfig=numbered)
        bill(opened.organization, Month(2026, 9))
        yield opened


@pytest.fixture
def command(home, capsys):
    """Runs a command; its exit code, and what it printed on both outputs."""

    def work(*words):
        code = run([*words, "--home", str(home.stores.home)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return work


@pytest.fixture
def bills(command):
    """The bills as programs see them, by account and date."""
    _, out, _ = command("bill", "list", "--json")
    found = [json.loads(line) for line in out.splitlines()]
    return {(each["accountCode"], each["billDate"]): each for each in found}


def test_bills_are_listed_by_date_and_account(command, bills):
    _, out, _ = command("bill", "list")

    rows = [line.split() for line in out.splitlines() if re.match(r" [0-9a-f]{8} ", line)]
    assert [(row[1], row[2]) for row in rows] == [
        ("acme", "2026-10-01"),
        ("bolt", "2026-10-01"),
        ("acme", "2026-09-01"),
        ("bolt", "2026-09-01"),
    ]
    assert rows[0][0] == bills["acme", "2026-10-01"]["id"][:8]
    assert rows[0][3:7] == ["73.50", "USD", "PENDING", "INV-1"]
    assert len(rows) == len(bills)
    assert "lineItems" not in bills["acme", "2026-10-01"]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--month", "2026-09"), 2),
        (("--account", "acme"), 2),
        (("--account", "acme", "--month", "2026-08"), 1),
        (("--status", "pending"), 4),
        (("--status", "approved"), 0),
        (("--limit", "3"), 3),
    ],
)
def test_a_list_can_be_narrowed(command, options, count):
    _, out, _ = command("bill", "list", *options, "--json")

    assert len(out.splitlines()) == count


@pytest.mark.long
def test_a_bill_shows_a_line_of_no_units(tmp_path, capsys):
    at = ["--home", str(tmp_path / "home")]
    assert run(["init", "--name", "Halvorsen Cloud", *at]) == 0
    assert run(["config", "apply", str(sample_data.CONFIGURATION), *at]) == 0
    assert run(["bill", "--month", "2026-10", "--account", "atlas-insurance", *at]) == 0
    assert run(["bill", "show", "atlas-insurance/2026-10", *at]) == 0
    assert re.search(r"Egress +0 × GB +0.00 EUR", capsys.readouterr().out)


def test_a_list_of_no_bills_says_how_they_are_made(command):
    code, out, _ = command("bill", "list", "--month", "2025-01")

    assert code == 0
    assert out.startswith("No bills: `meterlake bill --month MONTH")


@pytest.mark.long
@pytest.mark.parametrize("verb", ["show", "explain", "versions", "document", "statement"])
def test_a_bill_has_many_names_everywhere(command, bills, verb):
    id_ = bills["acme", "2026-10-01"]["id"]
    more = ("--format", "json") if verb == "document" else ()

    outs = {
        name: command("bill", verb, *name, *more, "--json" if verb != "document" else "--wide")
        for name in (
            (id_,),
            (id_.upper(),),
            (id_[:8],),
            (id_[:13],),
            ("INV-1",),
            ("acme", "2026-09"),
        )
    }

    assert {code for code, _, _ in outs.values()} == {0}, outs
    assert len({out for _, out, _ in outs.values()}) == 1


@pytest.mark.long
def test_several_bills_are_named_after_each_other(command, bills):
    names = ("acme", "2026-09", bills["bolt", "2026-10-01"]["id"][:8], "acme", "2026-08")

    code, out, _ = command("bill", "verify", *names)
    assert (code, out.startswith("3 bills verified")) == (0, True)
    code, out, _ = command("bill", "--recalculate", *names, "--json")
    assert code == 0
    assert len([line for line in out.splitlines() if '"type":"bill"' in line]) == 3


@pytest.mark.long
def test_a_line_stands_behind_every_name_of_a_bill(command, bills):
    id_ = bills["acme", "2026-10-01"]["id"]

    by_id = command("bill", "explain", id_, "1")
    assert by_id[0] == 0
    assert by_id == command("bill", "explain", "acme", "2026-09", "1")
    assert by_id != command("bill", "explain", "acme", "2026-09")
    assert "a line is named before it" in command("bill", "explain", id_[:8], "1", "2")[2]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (("acme", "2026-07"), "no bill 'acme 2026-07'; there are "),
        (("acme",), "no bill 'acme'; acme is an account: name the month, too; there are "),
        (("INV-99",), "no bill 'INV-99'; there are "),
        (("ffffffff",), "no bill 'ffffffff'; there are "),
        (("acne", "2026-09"), "no account 'acne'; did you mean 'acme'?"),
    ],
)
def test_an_unknown_name_is_told_what_there_is(command, bills, name, told):
    code, _, err = command("bill", "show", *name)

    assert code == 1
    assert told in err
    if "account 'acne'" not in told:
        newest = bills["acme", "2026-10-01"]["id"][:8]
        assert f"{newest} (acme 2026-09, 73.50 USD)" in err
        assert "`meterlake bill list --home " in err


@pytest.fixture
def charged_command(tmp_path, capsys):
    """Runs a command where acme has seven bills in September 2026, six of them of one charge."""
    with a_home_to_bill(tmp_path) as home:
        days = range(10, 16)
        charges = [
            {
                "code": f"setup-{day}",
                "name": "Setup",
                "accountId": "acme",
                "entityType": "AD_HOC",
                "lineItemType": "AD_HOC",
                "amount": day,
                "currency": "USD",
                "billDate": f"2026-09-{day}",
                "servicePeriodStartDate": "2026-09-01T00:00:00Z",
                "servicePeriodEndDate": "2026-09-02T00:00:00Z",
            }
            for day in days
        ]
        configure(home.organization, charges=charges)
        bill(home.organization, Month(2026, 9))

        def work(*words):
            code = run([*words, "--home", str(home.stores.home)])
            told = capsys.readouterr()
            return code, told.out, told.err

        yield work


@pytest.mark.long
@pytest.mark.parametrize("columns", ["80", ""])
def test_an_account_with_several_bills_in_a_month_is_told_which(
    charged_command, monkeypatch, columns
):
    monkeypatch.setenv("COLUMNS", columns)
    _, out, _ = charged_command("bill", "list", "--month", "2026-09", "--account", "acme", "--json")
    ids = {bill["billDate"]: bill["id"][:8] for bill in map(json.loads, out.splitlines())}

    for verb in ("show", "explain", "versions", "diff", "verify", "document", "statement"):
        code, out, err = charged_command("bill", verb, "acme", "2026-09")
        assert (code, out) == (1, ""), verb
        lines = err.splitlines()
        assert (len(lines) == 1) == (not columns), err
        assert not columns or max(len(line) for line in lines if "`" not in line) <= int(columns)
        told = " ".join(lines)
        assert "bill: 'acme 2026-09' is not allowed: several bills have this name" in told
        assert f"{ids['2026-10-01']} (acme 2026-09, bill date 2026-10-01, " in told
        assert f"{ids['2026-09-15']} (acme 2026-09, bill date 2026-09-15, 15.00 USD)" in told
        assert " and more; `meterlake bill list" in told
    assert charged_command("bill", "show", ids["2026-09-15"])[0] == 0


def test_a_bill_is_shown_with_its_lines_and_what_to_do_next(command, home):
    _, out, _ = command("bill", "show", "acme", "2026-09")

    assert re.search(r"\n total +73\.50 USD\n", out)
    assert re.search(r"\n +1  .* USD", out)
    assert "meterlake bill explain" in out
    assert f"--home {home.stores.home}" in out
