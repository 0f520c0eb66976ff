"""`meterlake bill approve`, `unapprove`, `lock`, `delete` and `recalculate`: bills by name."""

import json

import pytest

from meterlake.cli import run
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import bill
from tests.bills import a_home_to_bill, use
from tests.homes import configure
from tests.people import allow, join, policy

ACME, BOLT = "acme/2026-09", "bolt/2026-09"


def make_bills(home):
    bill(home.organization, Month(2026, 9))


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
def outcomes(command):
    """Runs a command about bills; its exit code, and what became of each account's bill."""

    def work(*words):
        code, out, _ = command("bill", *words, "--json")
        lines = [json.loads(each) for each in out.splitlines()]
        return code, {each["account"]: each["outcome"] for each in lines}

    return work


@pytest.fixture
def statuses(command):
    """The status of each account's bill; LOCKED if it is locked."""

    def work(*words):
        _, out, _ = command("bill", "list", "--json", *words)
        bills = [json.loads(each) for each in out.splitlines()]
        return {
            each["accountCode"]: "LOCKED" if each["locked"] else each["status"] for each in bills
        }

    return work


def test_bills_are_approved_and_taken_back_by_name(outcomes, statuses):
    assert outcomes("approve", ACME, "--dry-run") == (0, {"acme": "approved"})
    assert statuses() == {"acme": "PENDING", "bolt": "PENDING"}
    assert outcomes("approve", ACME, "bolt", "2026-09") == (
        0,
        {"acme": "approved", "bolt": "approved"},
    )
    assert outcomes("approve", ACME) == (0, {"acme": "as it was"})
    assert outcomes("unapprove", ACME, "--dry-run") == (0, {"acme": "waits"})
    assert outcomes("unapprove", ACME) == (0, {"acme": "waits"})
    assert statuses() == {"acme": "PENDING", "bolt": "APPROVED"}


def test_what_is_refused_is_told_and_stops_no_other(outcomes, statuses, command):
    outcomes("approve", ACME)
    assert outcomes("lock", BOLT, ACME, "--yes") == (1, {"bolt": "refused", "acme": "locked"})
    assert statuses() == {"acme": "LOCKED", "bolt": "PENDING"}

    code, out, err = command("bill", "unapprove", ACME, BOLT)
    assert code == 1
    assert "To approve again" not in out
    assert "acme, bill date 2026-10-01: bill" in err
    assert "is locked and stays as it is" in err
    code, _, err = command("bill", "delete", ACME, BOLT, "--yes")
    assert (code, err.count("is locked")) == (1, 1)
    assert statuses() == {"acme": "LOCKED"}


@pytest.mark.parametrize("verb", ["approve", "unapprove", "lock", "delete"])
def test_a_name_that_no_bill_has_changes_nothing(command, statuses, verb):
    more = ["--yes"] if verb in {"lock", "delete"} else []
    for words in (
        (ACME, "acme/2026-01"),
        (ACME, "nobody/2026-09"),
        (ACME, "8a8724bf-0000-4000-8000-000000000000"),
        (ACME, "INV-9"),
    ):
        code, out, err = command("bill", verb, *words, *more)
        assert (code, out) == (1, ""), words
        assert err.startswith("meterlake: no "), err
    assert statuses() == {"acme": "PENDING", "bolt": "PENDING"}


def test_what_nobody_can_undo_is_asked_first(command, statuses):
    for verb in ("lock", "delete"):
        code, _, err = command("bill", verb, ACME)
        assert code == 1
        assert "--yes is required: nobody can be asked here" in err
    assert statuses()["acme"] == "PENDING"
    code, out, _ = command("bill", "delete", ACME, "--dry-run")
    assert code == 0
    assert "Dry run: nothing was written." in out
    assert command("bill", "delete", ACME, "--yes")[0] == 0
    assert "acme" not in statuses()


def test_a_bill_is_made_again_by_name(home, command, outcomes):
    outcomes("approve", ACME)
    use(home, ("late", "acme", 1))

    code, out, _ = command("bill", "recalculate", ACME)

    assert code == 0
    assert "74.50 USD" in out
    assert "updated" in out
    assert command("bill", "recalculate", "nobody/2026-09")[0] == 1


@pytest.mark.long
def test_who_is_named_is_the_author_and_needs_the_right_to_it(home, command, outcomes, statuses):
    state, org = home.stores.state, home.org_id
    reads = policy(state, org, allow("config:retrieve"))
    approves = policy(state, org, allow("config:update", "config:bill"))
    deletes = policy(state, org, allow("config:delete", "config:bill"))
    join(state, org, "reads@acme.example", permissionPolicyIds=[reads])
    ada = join(state, org, "ada@acme.example", permissionPolicyIds=[approves])

    for words in (("approve", ACME), ("approve", ACME, "--dry-run"), ("delete", ACME, "--yes")):
        code, out, err = command("bill", *words, "--as", "reads@acme.example")
        assert (code, out) == (1, ""), words
        assert "--as: no permission for config:" in err
    assert (
        "no permission" in command("bill", "delete", ACME, "--yes", "--as", "ada@acme.example")[2]
    )
    assert statuses()["acme"] == "PENDING"
    assert outcomes("approve", ACME, "--as", "ada@acme.example") == (0, {"acme": "approved"})
    _, out, _ = command("bill", "show", "acme", "2026-09", "--json")
    assert json.loads(out)["approvedBy"] == f"USER_{ada}"

    bo = join(state, org, "bo@acme.example", permissionPolicyIds=[deletes])
    assert outcomes("delete", ACME, "--yes", "--as", "bo@acme.example") == (0, {"acme": "deleted"})
    _, out, _ = command("bill", "versions", json.loads(out)["id"], "--json")
    assert json.loads(out)["replacedBy"] == f"USER_{bo}"


def test_bills_of_another_organization_are_not_found(command, statuses):
    _, out, _ = command("bill", "show", "acme", "2026-09", "--json")
    id_ = json.loads(out)["id"]
    assert command("init", "--name", "Other")[0] == 0

    for name in (id_, id_[:8], ACME):
        code, out, err = command("bill", "delete", name, "--yes", "--org", "other")
        assert (code, out) == (1, ""), name
        assert err.startswith("meterlake: no "), err
    assert statuses("--org", "sample")["acme"] == "PENDING"


def test_the_lock_date_refuses_as_a_lock_does(home, command, statuses):
    command("bill", "approve", ACME, BOLT)
    configure(home.organization, billConfig={"billLockDate": "2026-09-30"})

    code, out, err = command("bill", "unapprove", ACME)

    assert code == 1
    assert "refused" in out
    assert "locked" in err
    assert statuses() == {"acme": "LOCKED", "bolt": "LOCKED"}


def test_a_dry_run_lists_what_a_calculation_touches_and_makes_no_bill(command):
    code, out, err = command("bill", "recalculate", ACME, "--dry-run")
    assert (code, err) == (0, "")
    assert "No other bill is touched." in out
    assert "Dry run: nothing was calculated." in out
    code, _, err = command("bill", "recalculate", "nobody/2026-09", "--dry-run")
    assert code == 1
    assert err.startswith("meterlake: no ")
