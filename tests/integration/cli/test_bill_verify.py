"""`meterlake bill verify`: what it says, and how it ends."""

import json

import pytest
from sqlalchemy import text

from meterlake.cli import run
from tests.bills import a_home_to_bill
from tests.integration.cli.test_bill import NO_ID, lines_of


@pytest.fixture
def empty(tmp_path):
    """A home without bills."""
    with a_home_to_bill(tmp_path) as home:
        yield home


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "BILL, --month or --all is required"),
        ((NO_ID,), f"no bill '{NO_ID}'"),
        ((NO_ID, "--month", "2026-09"), "--month: '2026-09' is not allowed: leave it out"),
        (("--all", "--month", "2026-09"), "--all is not allowed here: leave it out"),
        (("--month", "September"), "month: 'September' is not allowed"),
    ],
)
def test_options_that_make_no_sense_are_refused(empty, capsys, options, told):
    code, [line] = lines_of(empty, capsys, "verify", *options)

    assert code != 0
    assert told in str(line)


@pytest.mark.long
def test_bills_are_verified_and_a_change_ends_the_command_with_1(empty, capsys):
    _, made = lines_of(empty, capsys, "--date", "2026-10-01")
    ids = [each["id"] for each in made if each["type"] == "bill"]
    for options in (("--all",), ("--month", "2026-09"), ids):
        code, [found] = lines_of(empty, capsys, "verify", *options)
        assert (code, found["verified"], found["same"]) == (0, len(ids), True)
    assert lines_of(empty, capsys, "verify", "--month", "2026-08")[1][0]["verified"] == 0

    with empty.stores.state.writing_home() as connection:
        change = text("UPDATE bill SET total = '7' WHERE id = :id")
        connection.execute(change, {"id": ids[0]})
    code, [found] = lines_of(empty, capsys, "verify", "--all")
    assert code == 1
    [difference] = found["differences"]
    assert (difference["billId"], difference["subject"]) == (ids[0], "bill")
    assert (difference["field"], difference["stored"]) == ("total", "7")
    assert run(["bill", "verify", ids[0], "--home", str(empty.stores.home)]) == 1
    shown = capsys.readouterr()
    assert "1 bill verified, 1 differs" in shown.out
    assert f"bill {ids[0]} total: stored 7, calculated" in shown.err


@pytest.mark.long
def test_bills_of_before_are_counted_and_bills_of_other_code_compared_by_values(empty, capsys):
    _, made = lines_of(empty, capsys, "--date", "2026-10-01")
    first, second = (each["id"] for each in made if each["type"] == "bill")
    with empty.stores.state.writing_home() as connection:
        change = text("UPDATE bill SET calculation_id = NULL WHERE id = :id")
        connection.execute(change, {"id": first})
        connection.execute(text("UPDATE bill_calculation SET digest = 'other'"))
        rewrite = text("UPDATE bill SET total = total || '.000', pins = '{}' WHERE id = :id")
        connection.execute(rewrite, {"id": second})

    code, [found] = lines_of(empty, capsys, "verify", "--all")

    assert (code, found["differences"]) == (0, [])
    assert (found["verified"], found["unpinned"], found["otherCode"]) == (1, [first], 1)
    assert json.dumps(found)
