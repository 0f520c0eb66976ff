"""`meterlake bill --approve`: what was shown is approved, and approved bills stay as they are."""

import json
import re

import pytest

from meterlake.cli import run
from meterlake.model.bills.jobs import BillOrder
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill, refuse_bills, use
from tests.homes import configure

SEPTEMBER = ("--month", "2026-09")


@pytest.fixture
def home(tmp_path, monkeypatch):
    with a_home_to_bill(tmp_path) as home:
        monkeypatch.setenv("METERLAKE_HOME", str(home.stores.home))
        yield home


def bill(capsys, *options):
    """The exit status, and what became of bills: outcome, total and status by account."""
    capsys.readouterr()
    code = run(["bill", *options, "--json"])
    lines = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    found = [each for each in lines if each["type"] == "bill"]
    return code, {
        each["account"]: (each["outcome"], each["total"], each["status"]) for each in found
    }


def stored(home):
    with home.organization.reading() as reader:
        return {each.content.body["accountCode"]: each for each in bills.of_period(reader)}


@pytest.mark.long
def test_what_was_shown_is_approved_and_an_approved_bill_stays_as_it_is(home, capsys):
    made = {"acme": ("created", 73.5, "PENDING"), "bolt": ("created", 131, "PENDING")}
    assert bill(capsys, *SEPTEMBER) == (0, made)
    approved = {"acme": ("approved", 73.5, "APPROVED"), "bolt": ("approved", 131, "APPROVED")}
    assert bill(capsys, *SEPTEMBER, "--approve") == (0, approved)
    before = stored(home)
    use(home, ("late", "acme", 1))
    assert bill(capsys, *SEPTEMBER, "--approve") == (0, {})
    kept = {"acme": ("kept", 73.5, "APPROVED"), "bolt": ("unchanged", 131, "APPROVED")}
    assert bill(capsys, *SEPTEMBER) == (0, kept)
    assert bill(capsys, *SEPTEMBER, "--approve") == (0, {})
    # The last calculation is noted of one that came out the same; no version and no approval is.
    assert stored(home)["acme"] == before["acme"]
    assert stored(home)["bolt"].version == before["bolt"].version

    assert run(["bill", *SEPTEMBER]) == 0
    out = capsys.readouterr().out
    assert re.search(r"acme +2026-10-01 +73.50? USD +74.50? USD +kept", out)
    assert "meterlake bill --month 2026-09 --change-approved" in out
    changed = {"acme": ("updated", 74.5, "PENDING"), "bolt": ("unchanged", 131, "APPROVED")}
    assert bill(capsys, *SEPTEMBER, "--change-approved") == (0, changed)


@pytest.mark.slow
def test_approving_calculates_nothing(home, capsys):
    bill(capsys, *SEPTEMBER)
    use(home, ("late", "acme", 1))
    _, found = bill(capsys, *SEPTEMBER, "--approve")

    assert found["acme"] == ("approved", 73.5, "APPROVED")


@pytest.mark.long
def test_a_bill_that_was_changed_since_it_was_shown_waits(home, capsys):
    bill(capsys, *SEPTEMBER)
    use(home, ("late", "acme", 1))
    bill_order(home.organization, BillOrder(days=Month(2026, 9)), "bill schedule")
    code, found = bill(capsys, *SEPTEMBER, "--approve")

    assert code == 1
    assert found == {
        "acme": ("not shown", 74.5, "PENDING"),
        "bolt": ("approved", 131, "APPROVED"),
    }
    bill(capsys, *SEPTEMBER)
    assert bill(capsys, *SEPTEMBER, "--approve") == (0, {"acme": ("approved", 74.5, "APPROVED")})


@pytest.mark.slow
def test_bills_that_nobody_was_shown_wait(home, capsys):
    bill_order(home.organization, BillOrder(days=Month(2026, 9)), "bill schedule")
    code, found = bill(capsys, *SEPTEMBER, "--approve")

    assert code == 1
    assert {outcome for outcome, *_ in found.values()} == {"not shown"}
    assert run(["bill", *SEPTEMBER, "--approve"]) == 1
    assert (
        "2 bills were changed since shown, or never shown: run `meterlake bill --month 2026-09`"
        in (capsys.readouterr().err)
    )


@pytest.mark.slow
@pytest.mark.usefixtures("home")
def test_chosen_accounts_and_a_date_are_approved_alone(capsys):
    bill(capsys, *SEPTEMBER)
    _, found = bill(capsys, "--date", "2026-10-01", "--approve", "--account", "bolt")
    assert found == {"bolt": ("approved", 131, "APPROVED")}
    assert bill(capsys, *SEPTEMBER, "--approve") == (0, {"acme": ("approved", 73.5, "APPROVED")})


@pytest.mark.slow
def test_what_failed_when_the_bills_were_shown_is_told_with_the_approval(home, capsys):
    refuse_bills(home, "bolt")
    assert bill(capsys, *SEPTEMBER)[0] == 1
    capsys.readouterr()
    assert run(["bill", *SEPTEMBER, "--approve", "--json"]) == 0

    lines = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert [each["subject"] for each in lines if each["type"] == "open"] == ["bolt"]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["REPORT", "CARRY_FORWARD", "RECALCULATE"])
def test_no_policy_for_late_usage_lets_an_approval_change_a_bill(home, capsys, policy):
    wanted = {"daysBeforeBillDue": 14, "lateUsage": policy}
    configure(home.organization, organizationConfig=wanted)
    bill(capsys, *SEPTEMBER)
    bill(capsys, *SEPTEMBER, "--approve")
    before = stored(home)
    use(home, ("late", "acme", 1))

    assert bill(capsys, *SEPTEMBER, "--approve") == (0, {})
    assert stored(home) == before


@pytest.mark.slow
def test_organizations_are_approved_one_by_one(home, capsys):
    assert run(["bill", *SEPTEMBER, "--approve", "--all-orgs"]) == 1
    assert "there are no bills of 2026-09 yet" in capsys.readouterr().err
    assert run(["bill", *SEPTEMBER, "--all-orgs"]) == 0
    capsys.readouterr()
    assert run(["bill", *SEPTEMBER, "--approve", "--all-orgs", "--json"]) == 0

    [row] = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert (row["approved"], row["failed"], row["total"]) == (2, 0, "204.50 USD")
    assert {each.status.value for each in stored(home).values()} == {"APPROVED"}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            (*SEPTEMBER, "--approve", "--change-approved"),
            "--change-approved is not allowed here",
        ),
        (
            ("--recalculate", "x", "--approve"),
            "--approve is not allowed here: leave it out when you give",
        ),
        (("--recalculate", "x", "--change-approved"), "--change-approved is not allowed here"),
        (("--frequency", "monthly", "--approve"), "give it with --month or --date"),
    ],
)
def test_words_that_contradict_an_approval_are_refused(capsys, options, told):
    assert run(["bill", *options]) == 1
    assert told in capsys.readouterr().err
