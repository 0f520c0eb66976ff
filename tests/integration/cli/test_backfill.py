"""`meterlake backfill`: what it prints, and how it fails."""

import json

import pytest

from meterlake.cli import run
from tests.homes import HEADER, a_home, configure, csv_row, new_home, open_home
from tests.integration.pipeline.backfill.test_retract import SUM
from tests.integration.pipeline.ingest.test_derived import DERIVED, PRICE_SUM, publish, save

SOURCE = "a.csv"


@pytest.fixture(scope="module")
def small_home(tmp_path_factory):
    """One home for all tests; each uses ids of its own and leaves the measurements as they were."""
    with a_home(tmp_path_factory.mktemp("backfill")) as home:
        configure(home.organization, aggregations=[SUM])
        home.ingest(SOURCE, HEADER + csv_row("a1", 4) + csv_row("a2", 1, account="bolt"))
        return home.stores.home


@pytest.fixture
def at(small_home):
    return ["--home", str(small_home), "--json"]


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    "command",
    [
        ["start", "retract", "--source", "nothing.csv", "--reason", "x"],
        ["start", "re-derive"],
        ["start", "re-derive", "--since", "2026-10-02", "--until", "2026-10-01"],
        ["start", "replace", "--month", "2026-10", "--file", "nothing.csv"],
        ["start", "--id", "b", "--month", "2026-10"],
        ["apply", "nothing"],
    ],
)
def test_what_cannot_be_done_is_one_line_of_error(small_home, capsys, command):
    assert run(["backfill", *command, "--home", str(small_home)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


@pytest.mark.long
def test_a_file_is_withdrawn_and_comes_back(at, small_home, capsys):
    command = ["backfill", "start", "retract", "--source", SOURCE, "--reason", "twice", "--id", "b"]
    assert run([*command, "--apply", *at]) == 0
    [found] = lines(capsys)
    assert (found["status"], found["reason"]) == ("APPLIED", "twice")
    assert found["summary"]["measurementsGone"] > 0
    assert found["summary"]["quantitiesChanged"] == len(found["summary"]["quantities"]) > 0
    assert run(["backfill", "list", "--home", str(small_home)]) == 0
    assert "APPLIED" in capsys.readouterr().out
    assert run(["receipts", "list", "--home", str(small_home)]) == 0
    assert f"b ({found['summary']['measurementsGone']:,})" in capsys.readouterr().out
    assert run(["backfill", "revert", "b", *at]) == 0
    assert [each["action"] for each in lines(capsys)[0]["history"]] == ["stage", "apply", "revert"]
    assert run(["backfill", "show", "b", "--home", str(small_home)]) == 0
    assert "REVERTED" in capsys.readouterr().out


@pytest.mark.long
def test_a_reason_does_not_steer_the_terminal(at, small_home, capsys):
    command = ["backfill", "start", "retract", "--uid", "a2", "--reason", "[red]\x1b[31m\u202ex\ny"]
    assert run([*command, "--id", "evil", *at]) == 0
    assert lines(capsys)[0]["reason"] == command[-1]
    assert run(["backfill", "list", "--home", str(small_home)]) == 0
    shown = capsys.readouterr().out
    assert "[red]\\u001b[31m\\u202ex" in shown
    assert "\x1b" not in shown


@pytest.fixture
def priced(tmp_path):
    """A home with a derived price: gigabytes by the region's rate by the account's factor."""
    path = tmp_path / "home"
    org_id = new_home(path)
    with open_home(path, org_id) as home:
        organization = home.stores.organization(org_id)
        lookups = [{"code": "rates", "name": "Rates"}]
        configure(organization, customFields={"account": {"factor": 2}}, lookupTables=lookups)
        publish(home, "first", {"eu": "0.5", "us": "0.25"})
        save(home, [each for each in DERIVED if each["code"] == "price"])
        configure(organization, aggregations=[PRICE_SUM])
        home.ingest("a.csv", HEADER + csv_row("a1", 4) + csv_row("b1", 8, "bolt"))
    return path, org_id


def prices(priced, capsys):
    """What is stored, and what aggregating gives: by account, both."""
    path, org_id = priced
    with open_home(path, org_id) as home:
        [table] = [name for name in home.stores.lake(org_id).tables() if name.startswith("m_")]
        rows = home.query(f'SELECT account_id, "cost.price" FROM lake."{table}"')
        stored = {home.account_codes()[account]: int(price) for account, price in rows}
    assert run(["aggregate", "2026-09", "--home", str(path), "--json"]) == 0
    found = [line for line in lines(capsys) if line.get("aggregation") == "price_sum"]
    assert {line["account"]: int(line["quantity"]) for line in found} == stored
    return stored


def another_lookup(path, org_id):
    with open_home(path, org_id) as home:
        publish(home, "second", {"eu": "1.5", "us": "0.25"})


def another_field(path, _org_id):
    account = "accounts: [{code: bolt, name: Bolt, emailAddress: b@c.example"
    document = path.with_name("bolt.yaml")
    document.write_text(f"{account}, customFields: {{factor: 10}}}}]")
    assert run(["config", "apply", str(document), "--home", str(path)]) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "after"),
    [
        (another_lookup, {"acme": 12, "bolt": 24}),
        pytest.param(another_field, {"acme": 4, "bolt": 40}, marks=pytest.mark.slow),
    ],
)
def test_what_calculations_look_up_changes_and_is_derived_again(priced, capsys, change, after):
    path, org_id = priced
    at, before = ["--home", str(path), "--json"], {"acme": 4, "bolt": 8}
    assert prices(priced, capsys) == before
    change(path, org_id)
    # What is stored stays until somebody says so.
    capsys.readouterr()
    assert prices(priced, capsys) == before

    assert run(["backfill", "start", "re-derive", "--month", "2026-09", "--id", "d", *at]) == 0

    [found] = lines(capsys)
    assert {
        each["account"]: (int(each["before"]["quantity"]), int(each["after"]["quantity"]))
        for each in found["summary"]["quantities"]
    } == {code: (before[code], after[code]) for code in before if before[code] != after[code]}
    assert run(["backfill", "apply", "d", *at]) == 0
    capsys.readouterr()
    assert prices(priced, capsys) == after
    assert run(["backfill", "revert", "d", *at]) == 0
    capsys.readouterr()
    assert prices(priced, capsys) == before
