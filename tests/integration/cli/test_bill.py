"""`meterlake bill` of an account whose bill is refused now, while one of before stands."""

import json
import re

import pytest

from meterlake.cli import run
from meterlake.model.bills.requests import BillStatus
from meterlake.model.customers.accounts import Account
from meterlake.stores.state.billing.bills import bills
from tests.bill_diffs import change
from tests.bills import a_home_to_bill, refuse_bills, subscribe, use

REFUSED = "the organization has no conversion rate from EUR to USD; add it to currencyConversions"
STANDS = "its bill of 2026-10-01 stands"
NO_ID = "00000000-0000-0000-0000-000000000000"


def lines_of(home, capsys, *options):
    """The exit status and the lines of a command."""
    capsys.readouterr()
    code = run(["bill", *options, "--home", str(home.stores.home), "--json"])
    shown = capsys.readouterr()
    return code, [json.loads(each) for each in (shown.out or shown.err).splitlines()]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "--month, --date, --frequency or --recalculate is required"),
        (("--month", "2026-09", "--date", "2026-10-01"), "--date: '2026-10-01' is not allowed"),
        (("--date", "tomorrow"), "--date: 'tomorrow' is not allowed: it must be a date"),
        (
            ("--recalculate", NO_ID, "--account", "acme"),
            "--account: 'acme' is not allowed: leave it out",
        ),
        (
            ("--recalculate", NO_ID, "--month", "2026-09"),
            "--month: '2026-09' is not allowed: leave it out",
        ),
        (
            ("--recalculate", NO_ID),
            f"--recalculate: '{NO_ID}' is not allowed: it must be the id of an exi",
        ),
        (("--recalculate", "one"), "no bill 'one'; there are no bills"),
        (("--date", "2026-10-01", "--account", "nobody"), "no account 'nobody'"),
    ],
)
def test_options_that_make_no_sense_are_refused(empty, capsys, options, told):
    code, [line] = lines_of(empty, capsys, *options)

    assert code != 0
    assert told in str(line)


@pytest.mark.long
def test_a_month_that_has_not_begun_is_refused(empty, capsys):
    begins = "--month: '2099-01' is not allowed: it has not begun: it begins at 2099-01-01T00:00:00"

    code, [line] = lines_of(empty, capsys, "--month", "2099-01")
    assert (code, line["error"]["code"]) == (1, "Invalid")
    assert begins in line["error"]["message"]
    assert "meterlake bill --date 2099-02-01" in line["error"]["message"]
    code, [line] = lines_of(empty, capsys, "--month", "2099-01", "--all-orgs")
    assert code == 1
    assert "it has not begun" in str(line)
    with empty.organization.reading() as reader:
        assert bills.of_period(reader, "2099-01") == []
    # Whoever means a day to come says it.
    code, made = lines_of(empty, capsys, "--date", "2099-02-01", "--account", "acme")
    assert (code, [each["billDate"] for each in made]) == (0, ["2099-02-01"])


@pytest.mark.long
def test_bills_of_a_date_of_a_frequency_and_chosen_ones_again(empty, capsys):
    code, made = lines_of(empty, capsys, "--date", "2026-10-01")
    assert (code, [(each["account"], each["outcome"]) for each in made]) == (
        0,
        [("acme", "created"), ("bolt", "created")],
    )
    _, open_ = lines_of(empty, capsys, "--frequency", "monthly", "--account", "bolt")
    assert [(each["account"], each["outcome"]) for each in open_] == [("bolt", "created")]
    assert open_[0]["billDate"] > made[0]["billDate"]
    _, none = lines_of(empty, capsys, "--frequency", "weekly", "--date", "2026-10-01")
    assert {each["type"] for each in none} <= {"noBill", "unpriced"}

    _, [again] = lines_of(empty, capsys, "--recalculate", made[1]["id"])

    assert again == made[1] | {"outcome": "unchanged"}


def test_totals_of_nothing_have_the_decimals_of_the_organizations_currency(empty, capsys):
    weekly = ["--frequency", "weekly", "--date", "2026-10-01"]
    assert run(["bill", *weekly, "--home", str(empty.stores.home)]) == 0

    assert "0 bills (none), 0.00 USD" in capsys.readouterr().out


@pytest.mark.long
def test_last_jobs_have_no_parameters_of_which_nothing_was_said(empty, capsys):
    at = ["--home", str(empty.stores.home)]
    assert run(["bill", "--month", "2026-09", *at]) == 0
    capsys.readouterr()

    assert run(["status", *at]) == 0

    [job] = capsys.readouterr().out.partition("Last jobs")[2].splitlines()[3:4]
    # The body of a request over the API is empty.
    assert re.split(r"\s{2,}", job.strip())[:3] == [
        "bill",
        "COMPLETE",
        "days 2026-09, keepApproved yes, type CREATE",
    ]


@pytest.mark.long
def test_several_accounts_and_bills_are_named_at_once(empty, capsys):
    _, made = lines_of(empty, capsys, "--month", "2026-09", "--accounts", "bolt", "acme")
    assert [each["account"] for each in made] == ["acme", "bolt"]

    _, again = lines_of(empty, capsys, "--recalculate", made[0]["id"], made[1]["id"])

    assert again == [each | {"outcome": "unchanged"} for each in made]


@pytest.mark.long
def test_a_locked_bill_is_shown_as_it_stands_beside_what_it_would_be(tmp_path, capsys):
    with a_home_to_bill(tmp_path) as home:
        _, made = lines_of(home, capsys, "--month", "2026-09")
        with home.organization.transaction("ann") as transaction:
            bills.set_status(transaction, made[0]["id"], BillStatus.APPROVED)
            bills.lock(transaction, made[0]["id"])
        use(home, ("late", "acme", 1))
        _, again = lines_of(home, capsys, "--month", "2026-09")
        assert run(["bill", "--month", "2026-09", "--home", str(home.stores.home)]) == 0
        out = capsys.readouterr().out

    changed = {"status": "APPROVED", "outcome": "locked", "wouldBe": 74.5, "wouldBeCurrency": "USD"}
    differs = again[0].pop("differs")
    assert again == [made[0] | changed, made[1] | {"outcome": "unchanged"}]
    assert {"member": "total", "is": "73.5", "wouldBe": "74.5"} in differs
    assert made[0]["total"] == 73.5
    assert re.search(r"acme +2026-10-01 +73.50? USD +74.50? USD +locked", out)
    assert re.search(r"1 locked, 1 unchanged\), 204.50? USD", out)


@pytest.mark.long
def test_an_approved_bill_that_would_be_due_on_another_day_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    with a_home_to_bill(tmp_path) as home:
        _, made = lines_of(home, capsys, "--month", "2026-09", "--account", "acme")
        with home.organization.transaction("ann") as transaction:
            bills.set_status(transaction, made[0]["id"], BillStatus.APPROVED)
        change(home, Account, "acme", daysBeforeBillDue=14)
        _, [again] = lines_of(home, capsys, "--month", "2026-09", "--account", "acme")
        assert run(["bill", "--month", "2026-09", "--home", str(home.stores.home)]) == 0
        out = capsys.readouterr().out

    assert (again["outcome"], again["total"], again["wouldBe"]) == ("kept", 73.5, 73.5)
    differs = {"member": "dueDate", "is": "2026-10-31", "wouldBe": "2026-10-15"}
    assert again["differs"] == [differs]
    assert "due date 2026-10-31, would be 2026-10-15" in " ".join(out.split())
    table = [line for line in out.splitlines() if "--home" not in line]
    assert max(map(len, table)) <= 80, out


def billed(home, capsys):
    """The exit status, the rows of usage on no bill, and why accounts have no new bill."""
    capsys.readouterr()
    at = ["--month", "2026-09", "--home", str(home.stores.home), "--json"]
    code = run(["bill", *at])
    lines = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    unpriced = [line for line in lines if line["type"] == "unpriced"]
    failures = {line["account"]: line["reason"] for line in lines if line["type"] == "failure"}
    return code, unpriced, failures


@pytest.fixture
def empty(tmp_path):
    """A home without bills."""
    with a_home_to_bill(tmp_path) as home:
        yield home


@pytest.fixture
def home(tmp_path, capsys):
    """A home whose account acme is billed, and is on a plan that cannot be billed since."""
    with a_home_to_bill(tmp_path) as home:
        assert billed(home, capsys) == (0, [], {})
        refuse_bills(home, "acme")
        yield home


@pytest.mark.long
def test_an_account_whose_bill_stands_is_listed_with_it(home, capsys):
    assert billed(home, capsys) == (1, [], {"acme": f"{REFUSED}; {STANDS}"})


@pytest.mark.long
def test_an_account_that_never_had_a_bill_is_listed_with_the_reason_alone(home, capsys):
    subscribe(home, "bolt", start="2026-12-01T00:00:00Z")
    use(home, ("4", "newcomer", 5))
    subscribe(home, "newcomer")
    refuse_bills(home, "newcomer")
    _, rows, failures = billed(home, capsys)

    assert {row["accountCode"]: (row["reason"], row.get("detail")) for row in rows} == {
        "bolt": ("NoAccountPlan", None),
    }
    assert failures == {"acme": f"{REFUSED}; {STANDS}", "newcomer": REFUSED}


@pytest.mark.long
def test_the_table_for_people_names_the_standing_bill(home, capsys):
    at = ["--month", "2026-09", "--home", str(home.stores.home)]
    assert run(["bill", *at]) == 1
    shown = capsys.readouterr().out

    assert "Usage that no bill charges for" not in shown
    assert f"{REFUSED}; {STANDS}" in shown
