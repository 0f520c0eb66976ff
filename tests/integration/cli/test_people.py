"""`--as` and METERLAKE_USER: who of an organization gives a command."""

import json
from datetime import timedelta

import pytest

from meterlake.cli import run
from tests.bills import a_home_to_bill, use
from tests.people import allow, join, policy


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with a_home_to_bill(tmp_path_factory.mktemp("people")) as opened:
        state = opened.stores.state
        all_ = {"permissionPolicyIds": [policy(state, opened.org_id, allow())]}
        opened.ada = join(state, opened.org_id, **all_)
        opened.bob = join(state, opened.org_id, "bob@example.com", firstName="Bob", **all_)
        ends = (opened.clock() + timedelta(hours=1)).isoformat()
        join(state, opened.org_id, "eve@example.com", firstName="Eve", dtEndAccess=ends)
        opened.clock.advance(hours=2)
        yield opened


@pytest.fixture
def command(home, capsys):
    """Runs a command; its exit code, and what it printed on both outputs."""

    def work(*words):
        code = run([*words, "--home", str(home.stores.home)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return work


def rows(command, *words):
    code, out, err = command(*words, "--json")
    assert code == 0, err
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.long
def test_what_a_person_does_on_the_command_line_is_theirs(home, command, tmp_path, monkeypatch):
    ada, bob = f"USER_{home.ada}", f"USER_{home.bob}"

    rows(command, "bill", "--month", "2026-09", "--as", "Ada@Example.com")
    rows(command, "bill", "--month", "2026-09", "--approve", "--as", "Ada@Example.com")
    [bill] = rows(command, "bill", "show", "acme", "2026-09")
    assert (bill["approvedBy"], bill["createdBy"]) == (ada, ada)
    assert "approved by  ada@example.com" in command("bill", "show", "acme", "2026-09")[1]

    monkeypatch.setenv("METERLAKE_USER", "Bob Lovelace")
    [backfill] = rows(command, "backfill", "start", "retract", "--uid", "1", "--reason", "twice")
    assert (backfill["author"], backfill["history"][0]["author"]) == (bob, bob)
    assert "bob@example.com" in command("backfill", "list", "--wide")[1]
    [dropped] = rows(command, "backfill", "drop", backfill["id"], "--as", home.ada)
    assert [each["author"] for each in dropped["history"]] == [bob, ada]

    changed = tmp_path / "plans.yaml"
    changed.write_text(
        "plans: [{code: basic, name: Basic, planTemplateId: cloud, standingCharge: 40}]"
    )
    [plan] = rows(command, "config", "apply", str(changed))
    assert plan["action"] == "updated"
    use(home, ("late", "acme", 1))
    _, out, _ = command("bill", "diff", "acme", "2026-09", "--against", "now", "--json")
    assert f'"{bob}"' in out, "a cause is his"
    assert "bob@example.com" in command("bill", "diff", "acme", "2026-09", "--against", "now")[1]
    rows(command, "bill", "--recalculate", "acme", "2026-09")
    assert [
        each["modifiedBy"] for each in rows(command, "bill", "versions", "acme", "2026-09")
    ] == [
        ada,
        bob,
    ]


@pytest.mark.long
def test_without_a_person_the_author_is_the_command_line(home, command):
    use(home, ("bad", "acme", "no number"))

    rows(command, "bill", "--month", "2026-08")
    start = ("backfill", "start", "retract", "--uid", "2", "--reason", "twice")
    [backfill] = rows(command, *start)
    [dropped] = rows(command, "backfill", "drop", backfill["id"])
    [rejected] = rows(command, "rejected", "list")
    rows(command, "rejected", "dismiss", rejected["id"], "--because", "test")

    [bill] = rows(command, "bill", "show", "acme", "2026-08")
    [row] = rows(command, "rejected", "show", rejected["id"])
    assert bill["createdBy"] == "cli"
    assert [each["author"] for each in dropped["history"]] == ["cli", "cli"]
    assert [each["author"] for each in row["decisions"]] == ["cli"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("status", "--as", "nobody@example.com"),
            "no user 'nobody@example.com'; name one that this organization has: ",
        ),
        (("status", "--as", "eve@example.com"), "--as: the access of eve@example.com ended at "),
        (
            ("bill", "--month", "2026-09", "--all-orgs", "--as", "ada@example.com"),
            "--as: 'ada@example.com' is not allowed: leave it out when you give --all-orgs",
        ),
    ],
)
def test_who_is_no_person_of_the_organization_is_refused(command, words, told):
    code, _, err = command(*words)

    assert code == 1
    assert told in err
    if "nobody" in told:
        assert "ada@example.com" in err


@pytest.mark.long
def test_a_name_of_several_people_asks_for_the_address(home, command):
    join(home.stores.state, home.org_id, "ada@other.example")

    code, _, err = command("status", "--as", "Ada Lovelace")

    assert code == 1
    assert "several users have this name; give one of ada@example.com, ada@other.example" in err
