"""`meterlake bill diff` and `bill versions`: what they say, and how they end."""

import re

import pytest
from sqlalchemy import text

from meterlake.cli import run
from meterlake.model.values.period import Month
from tests.bill_diffs import make_bills
from tests.bills import a_home_to_bill, price_egress, use
from tests.homes import configure
from tests.integration.cli.test_bill import NO_ID, lines_of


@pytest.fixture
def home(tmp_path):
    """A home with a bill of acme."""
    with a_home_to_bill(tmp_path) as home:
        home.bill = make_bills(home)["acme"]
        yield home


def shown(home, capsys, *options):
    """The exit status and what people see."""
    capsys.readouterr()
    code = run(["bill", *options, "--home", str(home.stores.home)])
    found = capsys.readouterr()
    return code, found.out, found.err


@pytest.mark.long
def test_a_difference_is_a_table_whose_parts_add_up(home, capsys):
    for options, message in (
        ((NO_ID,), f"no bill '{NO_ID}'"),
        ((home.bill, "--from", "0"), "--from: 0 is not allowed: it must be 1 or more"),
        ((home.bill, "--to", "2", "--against", "now"), "leave it out when you give --to"),
        ((home.bill, "--from", "3"), "choose one that it has: 1"),
    ):
        code, [line] = lines_of(home, capsys, "diff", *options)
        assert code != 0
        assert message in str(line)
    code, out, _ = shown(home, capsys, "diff", home.bill)
    assert (code, "no difference" in out) == (0, True)
    use(home, ("9", "acme", 5))
    price_egress(home, price=2)
    make_bills(home)

    code, out, _ = shown(home, capsys, "diff", home.bill, "--lines")

    assert code == 0
    rows = [line.split() for line in out.splitlines() if line.strip()]
    assert "version 1" in out
    assert "73.50 USD → version 2" in out
    assert ["whole", "+52.50", "USD"] in rows
    assert "Without 9.csv, Pricing sent would add 5.00 USD less." in out
    assert "9.csv USAGE Sent 42.50 USD 47.50 USD +5.00 USD" in [" ".join(row) for row in rows]
    _, out, _ = shown(home, capsys, "versions", home.bill)
    assert f"bill diff {home.bill}" in out
    _, listed = lines_of(home, capsys, "versions", home.bill)
    assert [(each["version"], each["total"]) for each in listed] == [(1, 73.5), (2, 126)]


@pytest.mark.long
def test_amounts_have_the_decimals_of_their_currency(home, capsys):
    account = {"code": "acme", "name": "Acme", "emailAddress": "bills@acme.example"}
    configure(
        home.organization,
        currencies=[{"code": "JPY", "name": "Yen", "maxDecimalPlaces": 0}],
        organizationConfig={
            "daysBeforeBillDue": 14,
            "currencyConversions": [{"from": "USD", "to": "JPY", "multiplier": 150}],
        },
        accounts=[account | {"currency": "JPY"}],
    )
    make_bills(home)

    code, out, _ = shown(home, capsys, "diff", home.bill, "--lines")

    assert code == 0
    rows = [line.split() for line in out.splitlines() if line.strip()]
    assert ["whole", "-73.50", "USD"] in rows
    assert ["whole", "+11,025", "JPY"] in rows
    assert "11,025.0" not in out
    _, out, _ = shown(home, capsys, "versions", home.bill)
    assert [line.split()[1:3] for line in out.splitlines() if "USD" in line or "JPY" in line] == [
        ["73.50", "USD"],
        ["11,025", "JPY"],
    ]


@pytest.mark.slow
def test_programs_read_parts_with_what_goes_if_they_are_undone(home, capsys):
    use(home, ("9", "acme", 5))
    price_egress(home, price=2)
    code, [found] = lines_of(home, capsys, "diff", home.bill)
    assert (code, found["to"]["version"]) == (0, "now")
    late, price = found["differences"]
    assert (late["amount"], late["ifUndone"], late["shared"]) == (
        5,
        10,
        [{"name": "Pricing sent", "amount": 5}],
    )
    assert (price["cause"], price["amount"], price["ifUndone"]) == ("entity", 47.5, 47.5)
    assert found["totals"] == [{"currency": "USD", "from": 73.5, "to": 126, "difference": 52.5}]


def test_a_bill_stands_beside_the_one_before_it(home, capsys):
    code, out, err = shown(home, capsys, "compare", home.bill)
    assert (code, out) == (1, "")
    assert "bill before" in err
    make_bills(home, Month(2026, 10))
    code, out, _ = shown(home, capsys, "compare", "acme", "2026-10")
    assert code == 0
    assert re.search(r"Total +73\.50 USD +31\.00 USD +-42\.50 USD", out)
    _, [found] = lines_of(home, capsys, "compare", "acme", "2026-10")
    assert (found["before"], found["after"], found["difference"]) == (73.5, 31, -42.5)


@pytest.mark.slow
def test_what_has_no_known_cause_ends_the_command_with_1(home, capsys):
    with home.stores.state.writing_home() as connection:
        change = text("UPDATE bill_line SET body = replace(body, '42.5', '39') WHERE bill_id = :id")
        connection.execute(change, {"id": home.bill})
    code, out, err = shown(home, capsys, "diff", home.bill)
    assert code == 1
    assert "unknown" in out
    assert "+3.50 USD has no known cause" in err
