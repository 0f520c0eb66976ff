"""`meterlake late`: what people read of late usage, and what programs do."""

import json
import re
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from meterlake.cli.app import run
from meterlake.cli.billing.late import show_late_usage
from meterlake.cli.shell.amounts import AmountText
from meterlake.cli.shell.output import Output
from meterlake.model.bills.late_usage import (
    LateLine,
    LateSource,
    LateSourceKind,
    LateUsage,
    LateUsageStatus,
)
from meterlake.model.configuration.organization import Currency
from meterlake.model.values.entity import Record
from meterlake.stages.bill.pricing.currencies import Currencies
from tests.bills import a_home_to_bill, use
from tests.homes import configure

CAME = datetime(2026, 10, 2, 8, 30, tzinfo=UTC)
FILE = LateSource(LateSourceKind.SOURCE, "ab12", "late.csv", 1200, CAME, CAME)
YEN = Currency(name="Yen", code="JPY", max_decimal_places=0)
AMOUNTS = AmountText(Currencies({"JPY": Record("yen", 1, YEN, CAME, "ann", CAME, "ann")}, {}))
BACKFILL = LateSource(LateSourceKind.BACKFILL, "0f3a9c55-x", "retract, applied", None, CAME, CAME)


def late(status, **more):
    return LateUsage(
        **{
            "id": "l",
            "bill_id": "the-bill",
            "account_id": "a",
            "account_code": "acme",
            "period": "2026-09",
            "bill_date": date(2026, 10, 1),
            "currency": "USD",
            "since": 1,
            "until": 2,
            "status": status,
            "bill_version": 1,
            "sources": (FILE,),
            "found": CAME,
            **more,
        }
    )


def shown(capsys, *found):
    show_late_usage(found, AMOUNTS, Output(json=False))
    return capsys.readouterr().out


def test_what_is_carried_names_the_bill_of_the_memo_and_asks_for_nothing(capsys):
    line = LateLine("USAGE/", "x", "Sent", Decimal(-7), "november", "memo", Decimal(-7), "USD")
    out = shown(
        capsys,
        late(
            LateUsageStatus.CARRIED,
            difference=Decimal(-7),
            lines=(line,),
            carriers={"november": date(2026, 11, 1)},
            sources=(FILE, BACKFILL),
        ),
    )

    [row] = [each for each in out.splitlines() if "acme" in each]
    assert "late.csv, backfill 0f3a9c55: retract, applied" in row
    assert "2026-10-02T08:30:00Z" in row
    assert "1,200" in row
    assert "-7.00" in row
    assert "memo on the bill of 2026-11-01" in row
    assert "together" not in out


def test_what_is_open_is_added_up_and_the_next_command_is_said(capsys):
    amounts = (Decimal("12.345"), Decimal(-2))
    out = shown(capsys, *(late(LateUsageStatus.REPORTED, difference=each) for each in amounts))

    assert "+12.345" in out
    assert "On no bill: 2, together +10.345 USD." in out
    assert "meterlake bill --recalculate the-bill" in out
    assert "CARRY_FORWARD" in out


def test_amounts_have_the_decimals_of_their_currency(capsys):
    out = shown(
        capsys,
        late(LateUsageStatus.REPORTED, currency="JPY", difference=Decimal(1200)),
        late(LateUsageStatus.REPORTED, currency="JPY", difference=Decimal(0)),
        late(LateUsageStatus.REPORTED, currency="EUR", difference=Decimal(-3)),
    )

    rows = [each for each in out.splitlines() if "acme" in each]
    for row, amount in zip(rows, ("+1,200 JPY", " 0 JPY", "-3.00 EUR"), strict=True):
        assert f"{amount}  reported" in row
    assert "On no bill: 3, together -3.00 EUR, +1,200 JPY." in out


def test_nobody_is_told_to_make_a_locked_bill_again(capsys):
    locked = late(LateUsageStatus.REPORTED, difference=Decimal(1), reason="the bill is locked")
    out = shown(capsys, locked)

    assert "the bill is locked" in out
    assert "--recalculate" not in out
    assert "CARRY_FORWARD" in out


@pytest.mark.slow
def test_the_policy_is_applied_and_what_was_done_is_listed(tmp_path, capsys):
    with a_home_to_bill(tmp_path) as home:
        at = ["--home", str(home.stores.home)]
        for month in ("2026-08", "2026-09"):
            assert run(["bill", "--month", month, *at]) == 0
        use(home, ("late", "acme", 1))
        capsys.readouterr()
        assert run(["late", "--apply", "--json", *at]) == 0
        [found] = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
        assert (found["type"], found["status"], found["difference"]) == ("lateUsage", "REPORTED", 1)

        wanted = {"daysBeforeBillDue": 14, "lateUsage": "CARRY_FORWARD"}
        configure(home.organization, organizationConfig=wanted)
        assert run(["late", "--apply", *at]) == 0
        assert "waits" in capsys.readouterr().out
        assert run(["late", "--month", "2026-08", "--account", "bolt", *at]) == 0
        assert "Nothing came late" in capsys.readouterr().out


@pytest.mark.slow
def test_the_command_that_is_printed_puts_late_usage_onto_its_bill(tmp_path, capsys):
    with a_home_to_bill(tmp_path) as home:
        at = ["--home", str(home.stores.home)]
        assert run(["bill", "--month", "2026-08", *at]) == 0
        assert run(["bill", "--month", "2026-09", *at]) == 0
        use(home, ("late", "acme", 1))
        capsys.readouterr()
        assert run(["late", "--apply", *at]) == 0
        [command] = re.findall("meterlake (bill --recalculate .*)", capsys.readouterr().out)
        # It names the home by itself.
        assert run(command.split()) == 0
        capsys.readouterr()
        assert run(["late", *at]) == 0

    out = capsys.readouterr().out
    assert "version 2 of the bill" in out
    assert "On no bill" not in out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [(["--month", "soon"], "month"), (["--account", "nobody"], "no account 'nobody'")],
)
@pytest.mark.slow
def test_wrong_options_are_one_line_of_error(tmp_path, capsys, options, sentence):
    with a_home_to_bill(tmp_path) as home:
        assert run(["late", *options, "--home", str(home.stores.home)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert sentence in captured.err
