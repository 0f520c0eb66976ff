"""`--runner` and `--all-orgs` on the command line: what is refused, what fails, what comes of it."""

import json
import shutil
import time

import pytest

from meterlake.cli import run
from meterlake.pipeline.billing.jobs import bucket_tasks
from meterlake.stores.fan_out import dask_cluster
from meterlake.stores.lake.backends.location import lake_folder
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill, price_egress, refuse_bills, subscribe, use
from tests.homes import ACCOUNTS, CALLS, EGRESS, Home, configure
from tests.runners import DASK, HEAVY_RUNNERS, PROCESSES

MONTH = "2026-09"
COMMANDS = {
    "aggregate": ["aggregate", MONTH],
    "bill": ["bill", "--month", MONTH],
    "export": ["export", "usage", "--format", "csv"],
    "backfill": ["backfill", "start", "re-derive", "--month", MONTH],
}
NOBODY = "dask://127.0.0.1:9"


@pytest.fixture
def home(tmp_path):
    """A home of one organization that can be billed."""
    with a_home_to_bill(tmp_path) as opened:
        yield opened


@pytest.fixture
def two(home):
    """The home with a second organization, `other`, that can be billed, too."""
    add_other(home)
    return home


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory):
    """Such a home for commands that are refused."""
    with a_home_to_bill(tmp_path_factory.mktemp("refused")) as opened:
        add_other(opened)
        yield opened


def add_other(home):
    stores = home.stores
    assert run(["init", "--name", "Other", "--home", str(stores.home), "--json"]) == 0
    other = Home(stores, stores.state.organization("other").id, home.clock)
    configure(stores.organization(other.org_id), meters=[EGRESS, CALLS], accounts=ACCOUNTS)
    price_egress(other)
    subscribe(other, "acme", "bolt")
    use(other, ("1", "acme", 7), ("2", "bolt", 9))


def answer(home, capsys, *command):
    """The exit status of a command, the rows that it prints, and its errors."""
    capsys.readouterr()
    code = run([*command, "--home", str(home.stores.home), "--json"])
    shown = capsys.readouterr()
    rows, errors = ([json.loads(each) for each in text.splitlines()] for text in shown)
    return code, rows, [each["error"] for each in errors]


def stored_bills(home):
    with home.organization.reading() as reader:
        return list(bills.of_period(reader))


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_wrong_runner_is_refused_before_anything_is_done(home, capsys, command):
    code, rows, [error] = answer(home, capsys, *command, "--runner", "proceses")

    assert (code, rows, error["code"]) == (1, [], "Invalid")
    assert (
        "--runner: 'proceses' is not allowed: it must be threads, processes, dask, or"
        in error["message"]
    )
    assert "did you mean processes?" in error["message"]
    assert stored_bills(home) == []


@pytest.mark.parametrize("command", ["bill", "aggregate"])
def test_a_wrong_runner_of_the_environment_is_refused_by_its_name(
    home, capsys, monkeypatch, command
):
    monkeypatch.setenv("METERLAKE_RUNNER", "tasks")
    code, rows, [error] = answer(home, capsys, *COMMANDS[command], "--all-orgs")

    assert (code, rows) == (1, [])
    assert "METERLAKE_RUNNER: 'tasks' is not allowed" in error["message"]


@pytest.mark.parametrize("command", ["bill", "export", "backfill"])
def test_a_scheduler_that_is_not_there_is_refused_in_bounded_time(
    home, capsys, monkeypatch, command
):
    monkeypatch.setattr(dask_cluster, "_CONNECT_S", 0.5)
    monkeypatch.setattr(bucket_tasks, "_LEAST", 1)
    begun = time.monotonic()
    code, rows, [error] = answer(home, capsys, *COMMANDS[command], "--runner", NOBODY)

    assert (code, rows, error["code"]) == (1, [], "RunnerUnavailable")
    assert f"the Dask scheduler {NOBODY} is unavailable: it cannot be reached" in error["message"]
    assert time.monotonic() - begun < 120
    assert stored_bills(home) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            ["bill", "--month", MONTH, "--org", "sample"],
            "--org: 'sample' is not allowed: leave it out",
        ),
        (["aggregate", MONTH, "--org", "sample"], "--org: 'sample' is not allowed: leave it out"),
        (["bill", "--month", MONTH, "--account", "acme"], "leave it out when you give --account"),
        (["bill"], "--month, --date, --frequency or --recalculate is required"),
        (["aggregate", "2026-13"], "2026-13"),
    ],
)
def test_what_makes_no_sense_for_all_organizations_is_refused(unchanged, capsys, options, told):
    code, rows, [error] = answer(unchanged, capsys, *options, "--all-orgs")

    assert (code, rows) == (1, [])
    assert told in error["message"]


@pytest.mark.long
@pytest.mark.parametrize("runner", [None, PROCESSES, DASK])
def test_all_organizations_are_aggregated_and_billed(two, capsys, runner):
    chosen = ["--all-orgs", *(["--runner", runner] if runner else [])]
    aggregated = answer(two, capsys, *COMMANDS["aggregate"], *chosen)
    billed = answer(two, capsys, *COMMANDS["bill"], *chosen)

    quantities = {"period": MONTH, "quantities": 4, "failed": 0, "appended": True}
    assert aggregated == (
        0,
        [{"organization": name, **quantities} for name in ("sample", "other")],
        [],
    )
    assert billed == (
        0,
        [
            {"organization": "sample", "bills": 2, "left": 0, "failed": 0, "total": "204.50 USD"},
            {"organization": "other", "bills": 2, "left": 0, "failed": 0, "total": "78.00 USD"},
        ],
        [],
    )


@pytest.fixture
def broken(two):
    """The home, whose second organization has lost its lake."""
    organization = two.stores.state.organization("other")
    shutil.rmtree(lake_folder(two.stores.settings, organization.id))
    return two


@pytest.mark.long
@pytest.mark.parametrize("runner", [None, PROCESSES, DASK])
@pytest.mark.parametrize("command", ["aggregate", "bill"])
def test_an_organization_that_fails_is_named_and_the_others_finish(broken, capsys, runner, command):
    chosen = ["--all-orgs", *(["--runner", runner] if runner else [])]
    code, [row], [error] = answer(broken, capsys, *COMMANDS[command], *chosen)

    assert (code, row["organization"], row["failed"]) == (1, "sample", 0)
    assert error["message"].startswith("other: ")
    assert len(stored_bills(broken)) == (2 if command == "bill" else 0)


@pytest.mark.long
def test_an_account_that_is_not_billed_fails_the_command_and_nothing_else(two, capsys):
    refuse_bills(two, "acme")
    code, rows, errors = answer(two, capsys, *COMMANDS["bill"], "--all-orgs")

    assert (code, errors) == (1, [])
    assert [(each["organization"], each["bills"], each["failed"]) for each in rows] == [
        ("sample", 1, 1),
        ("other", 2, 0),
    ]


@pytest.mark.long
def test_without_json_there_is_a_table_and_a_line_of_error(broken, capsys):
    capsys.readouterr()
    code = run([*COMMANDS["bill"], "--all-orgs", "--home", str(broken.stores.home)])
    shown = capsys.readouterr()

    assert code == 1
    assert "sample" in shown.out
    assert "204.50 USD" in shown.out
    [line] = shown.err.splitlines()
    assert line.startswith("meterlake: other: ")


@pytest.mark.parametrize("runner", HEAVY_RUNNERS)
@pytest.mark.parametrize("command", ["export", "backfill"])
def test_exports_and_backfills_have_the_runner_of_the_command_line(home, capsys, runner, command):
    code, rows, errors = answer(home, capsys, *COMMANDS[command], "--runner", runner)

    assert (code, errors) == (0, [])
    assert rows
