"""`meterlake balance`: balances by account and code, and top-ups."""

import json

import pytest

from meterlake.cli import run
from tests.homes import a_home, configure
from tests.people import allow, join, policy

YEAR = {"startDate": "2026-01-01", "endDate": "2030-01-01", "currency": "USD"}


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        configure(
            opened.organization,
            transactionTypes=[{"code": "payment", "name": "Payment"}],
            balances=[
                {"code": "prepaid", "name": "Prepaid", "accountId": "acme", **YEAR},
                {"code": "second", "name": "Extra", "accountId": "acme", **YEAR},
                {"code": "third", "name": "Extra", "accountId": "acme", **YEAR},
                {"code": "of-bolt", "name": "Prepaid", "accountId": "bolt", **YEAR},
            ],
        )
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
def held(command):
    """What the balances hold, by code."""

    def work(*words):
        _, out, _ = command("balance", "list", "--json", *words)
        rows = [json.loads(each) for each in out.splitlines()]
        return {each["code"]: each["amount"] for each in rows}

    return work


def test_money_comes_into_a_balance_and_leaves_it(command, held):
    top_up = ("balance", "top-up", "acme", "prepaid")
    assert "Dry run" in command(*top_up, "--amount", "500", "--dry-run")[1]
    assert held("--account", "acme") == {"prepaid": 0, "second": 0, "third": 0}

    more = ("--description", "Invoice 17", "--type", "Payment", "--paid", "450")
    code, out, _ = command(*top_up, "--amount", "500.25", *more)
    assert code == 0
    for told in ("+500.25 USD", "0.00 USD", "held after   500.25 USD"):
        assert told in out
    code, out, _ = command("balance", "top-up", "Acme", "Prepaid", "--amount", "-0.25", "--json")
    assert (code, json.loads(out)["amount"]) == (0, -0.25)

    assert held()["prepaid"] == 500
    _, out, _ = command("balance", "show", "acme", "prepaid")
    assert "Invoice 17" in out
    assert "-0.25 USD" in out
    assert "2026-01-01" in out


def test_a_top_up_that_counts_only_after_the_end_is_said_to_come_late(command):
    top_up = ("balance", "top-up", "acme", "third", "--amount", "5")
    late = "It counts only after the balance has ended"
    first = command(*top_up)
    assert (first[0], late in "".join(first[1:])) == (0, False)
    last = command(*top_up, "--date", "2031-01-01")

    assert last[0] == 0
    assert late in " ".join("".join(last[1:]).split())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("nobody", "prepaid", "--amount", "5"), "no account 'nobody'"),
        (("acme", "prepayd", "--amount", "5"), "did you mean 'prepaid'?"),
        (("acme", "of-bolt", "--amount", "5"), "no balance 'acme of-bolt'"),
        (("acme", "Extra", "--amount", "5"), "several have this name"),
        (("acme", "prepaid", "--amount", "5,5"), "--amount: '5,5' is not allowed"),
        (("acme", "prepaid", "--amount", "-5"), "it must be at most what the balance holds"),
        (("acme", "prepaid", "--amount", "5", "--type", "paymet"), "did you mean 'payment'?"),
        (("acme", "prepaid", "--amount", "5", "--date", "never"), "--date: 'never'"),
        (("acme", "prepaid", "--amount", "5", "--paid", "x"), "--paid: 'x'"),
    ],
)
def test_a_bad_top_up_books_nothing(command, held, words, told):
    code, out, err = command("balance", "top-up", *words)

    assert (code, out) == (1, "")
    assert told in " ".join(err.split()), err
    assert set(held().values()) == {0}


def test_who_is_named_is_the_cause_and_needs_the_right(home, command):
    state, org = home.stores.state, home.org_id
    reads = policy(state, org, allow("config:retrieve"))
    pays = policy(state, org, allow("config:create", "config:balancetransaction"))
    join(state, org, "reads@acme.example", permissionPolicyIds=[reads])
    ada = join(state, org, "ada@acme.example", permissionPolicyIds=[pays])
    top_up = ("balance", "top-up", "acme", "prepaid", "--amount", "5", "--json")

    code, _, err = command(*top_up, "--as", "reads@acme.example")
    assert code == 1
    assert "--as: no permission for config:create on balancetransaction" in " ".join(err.split())
    booked = json.loads(command(*top_up, "--as", "ada@acme.example")[1])
    assert (booked["createdBy"], booked["entityType"], booked["entityId"]) == (
        *(f"USER_{ada}", "USER"),
        ada,
    )
    assert "ada@acme.example" in command("balance", "show", "acme", "prepaid")[1]
    nobody = json.loads(command(*top_up)[1])
    assert (nobody["createdBy"], nobody["entityId"]) == ("cli", "cli")
