"""`meterlake bill credit`, `debit`, `delete-line`: lines that people put on bills, by name."""

import json

import pytest

from meterlake.cli import run
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import a_home_to_bill
from tests.homes import configure
from tests.people import allow, join, policy

ACME, BOLT = "acme/2026-09", "bolt/2026-09"
REASONS = {
    "creditReasons": [
        {"code": "goodwill", "name": "Goodwill"},
        {"code": "old", "name": "Old", "archived": True},
    ],
    "debitReasons": [{"code": "setup", "name": "Set-up"}],
}


def make_bills(home):
    configure(home.organization, **REASONS)
    bill(home.organization, Month(2026, 8))
    bill(home.organization, Month(2026, 9), approve=True)


@pytest.fixture
def home(tmp_path):
    with a_home_to_bill(tmp_path, make_bills) as opened:
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
def shown(command):
    """A bill as programs see it."""

    def work(name):
        return json.loads(command("bill", "show", name, "--json")[1])

    return work


def test_a_credit_lowers_the_bill_and_is_taken_back(command, shown):
    credit = ("bill", "credit", ACME, "--amount", "12.50", "--reason", "Goodwill")
    assert "Dry run" in command(*credit, "--dry-run")[1]
    assert shown(ACME)["billTotal"] == 73.5

    code, out, _ = command(*credit)

    assert code == 0
    for told in ("-12.50 USD", "73.50 USD", "61.00 USD", "waits for approval", "delete-line"):
        assert told in out
    after = shown(ACME)
    assert (after["billTotal"], after["status"]) == (61, "PENDING")
    line = after["lineItems"][-1]
    assert (line["description"], line["lineItemType"]) == ("Goodwill", "CREDIT_MEMO")
    # It is about the largest line: the usage of 42.50 USD.
    about = {each["id"]: each for each in after["lineItems"]}[line["referencedLineItemId"]]
    assert about["convertedSubtotal"] == 42.5

    number = str(line["sequenceNumber"])
    assert command("bill", "delete-line", ACME, number, "--dry-run")[0] == 0
    assert "+12.50 USD" in command("bill", "delete-line", ACME, number)[1]
    assert shown(ACME)["billTotal"] == 73.5


def test_a_debit_raises_the_bill_and_corrects_a_locked_one(command, shown):
    command("bill", "lock", BOLT, "--yes")
    debit = ("bill", "debit", "--amount", "40", "--description", "Set-up", "--about", BOLT)

    code, _, err = command(*debit, BOLT)
    assert code == 1
    assert "is locked" in err
    code, out, _ = command(*debit, ACME, "--line", "2", "--json")

    assert code == 0
    memo, bolt = json.loads(out), shown(BOLT)
    assert memo["referencedBillId"] == bolt["id"]
    assert memo["referencedLineItemId"] == bolt["lineItems"][1]["id"]
    assert shown(ACME)["billTotal"] == 113.5
    assert bolt["billTotal"] == 131


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--amount", "1,25", "--reason", "goodwill"), "--amount: '1,25' is not allowed"),
        (("--amount", "0", "--reason", "goodwill"), "--amount: 0 is not allowed"),
        (("--amount", "-1", "--reason", "goodwill"), "--amount: -1 is not allowed"),
        (("--amount", "NaN", "--reason", "goodwill"), "--amount: 'NaN' is not allowed"),
        (("--amount", "1.234", "--reason", "goodwill"), "at most 2 decimals, those of USD"),
        (("--amount", "1"), "--reason or --description is required"),
        (("--amount", "1", "--reason", "godwill"), "did you mean 'goodwill'?"),
        (("--amount", "1", "--reason", "setup"), "no credit reason 'setup'"),
        (("--amount", "1", "--reason", "old"), "--reason: 'old' is not allowed"),
        (("--amount", "1", "--description", "x", "--line", "9"), "no line '9'"),
        (("--amount", "1", "--description", "x", "--about", "acme/2026-01"), "no bill 'acme 2026"),
    ],
)
def test_a_bad_credit_changes_nothing(command, shown, words, told):
    before = shown(ACME)

    code, out, err = command("bill", "credit", ACME, *words)

    assert (code, out) == (1, "")
    assert told in " ".join(err.split()), err
    assert shown(ACME) == before


def test_only_lines_of_people_are_deleted(command, shown):
    code, _, err = command("bill", "delete-line", ACME, "1")

    assert code == 1
    assert "it must be a credit or a debit that somebody put on the bill" in err
    assert "no line '7'" in command("bill", "delete-line", ACME, "7")[2]
    assert shown(ACME)["billTotal"] == 73.5


def test_who_is_named_needs_the_right_and_is_the_author(home, command):
    state, org = home.stores.state, home.org_id
    reads = policy(state, org, allow("config:retrieve"))
    credits_ = policy(state, org, allow("config:create", "config:bill"))
    join(state, org, "reads@acme.example", permissionPolicyIds=[reads])
    ada = join(state, org, "ada@acme.example", permissionPolicyIds=[credits_])
    credit = ("bill", "credit", ACME, "--amount", "1", "--reason", "goodwill", "--json")

    assert (
        "--as: no permission for config:create on bill"
        in (command(*credit, "--as", "reads@acme.example")[2])
    )
    code, out, _ = command(*credit, "--as", "ada@acme.example")

    assert code == 0
    assert json.loads(out)["createdBy"] == f"USER_{ada}"


def test_a_list_says_what_the_bills_come_to(command):
    for words, told in (
        (("--month", "2026-09"), "2 bills, 204.50 USD"),
        (("--month", "2026-09", "--account", "acme"), "1 bill, 73.50 USD"),
        (("--month", "2026-09", "--limit", "1"), "2 bills, 204.50 USD"),
        (("--status", "pending"), "2 bills, 62.00 USD"),
    ):
        assert told in command("bill", "list", *words)[1], words
    assert "The first 1 are listed" in command("bill", "list", "--limit", "1")[1]
