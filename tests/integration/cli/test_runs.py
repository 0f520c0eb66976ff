"""`meterlake runs`: jobs of all kinds, cancelled and repeated."""

import json

import pytest

from meterlake.cli import run
from meterlake.model.bills.jobs import BillOrder
from meterlake.pipeline.billing.jobs.jobs import submit_order
from meterlake.pipeline.home.setup import initialize
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.organizations import prepare_home


@pytest.fixture
def home(tmp_path):
    settings = Settings(home=prepare_home(tmp_path / "home"), _env_file=None)
    initialize(settings, "Sample")
    return settings


@pytest.fixture
def waiting(home):
    """A bill job that no worker runs."""
    with open_stores(home) as stores:
        organization = stores.organization(stores.state.organization().id)
        with organization.transaction("test") as transaction:
            return submit_order(transaction, BillOrder()).id


def runs(home, capsys, *arguments):
    assert run(["runs", *arguments, "--home", str(home.home), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_a_run_is_listed_cancelled_and_repeated(home, waiting, capsys):
    [listed] = runs(home, capsys, "list", "--kind", "bill", "--status", "pending")
    [cancelled] = runs(home, capsys, "cancel", waiting)
    [again] = runs(home, capsys, "retry", waiting)
    found = runs(home, capsys, "list")

    assert (listed["id"], listed["kind"], listed["status"]) == (waiting, "BILL", "PENDING")
    assert cancelled["status"] == "CANCELLED"
    assert again["id"] != waiting
    assert {each["id"]: each["status"] for each in found} == {
        waiting: "CANCELLED",
        again["id"]: "PENDING",
    }
    assert runs(home, capsys, "show", waiting) == [found[-1]]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["list", "--kind", "walk"], "--kind"),
        (["list", "--status", "fine"], "--status"),
        (["show", "nothing"], "nothing"),
    ],
)
def test_what_names_nothing_is_refused(home, capsys, arguments, said):
    assert run(["runs", *arguments, "--home", str(home.home)]) == 1
    assert said in capsys.readouterr().err
