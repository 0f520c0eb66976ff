"""Flows come to the same, whatever carries their organizations."""

import sys

import pytest
from prefect.exceptions import ParameterTypeError

from flows.aggregate import aggregate
from flows.bill import bill
from flows.check import check
from flows.close_month import close_month
from flows.deliver import deliver
from flows.fan_out import task_runner_of
from flows.inbox import inbox
from flows.ingest import ingest
from flows.maintain import maintain
from flows.parameters import kept_open, open_home
from flows.publish import publish
from flows.upload_due import upload_due
from meterlake.model.errors import NotAvailable
from meterlake.model.work.jobs import FanOutRunner
from meterlake.pipeline.ingest.drop import ingest_inbox
from meterlake.pipeline.ingest.drop_folder import drop_folder
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.integration.flows.conftest import CODES, drop
from tests.runners import HEAVY_RUNNERS

# The flows whose organizations the runner carries; none of them has parts.
FLOWS = {
    "check": check,
    "deliver": deliver,
    "inbox": inbox,
    "ingest": ingest,
    "maintain": maintain,
    "publish": publish,
    "upload-due": upload_due,
}


@pytest.fixture
def used(home):
    """The home with measurements of both organizations."""
    for code in CODES:
        drop(home, code, "a.csv", "egress,acme,u1,2026-10-03T10:00:00Z,5,eu")
    with open_stores(Settings(home=home, _env_file=None)) as stores:
        for each in stores.state.organizations():
            list(ingest_inbox(stores.organization(each.id), drop_folder(stores, each.code), 0))
    return home


@pytest.mark.slow
@pytest.mark.parametrize("runner", HEAVY_RUNNERS)
@pytest.mark.usefixtures("prefect")
def test_organizations_come_to_the_same_with_any_runner(used, runner):
    expected = aggregate(home=used, month="2026-10")
    found = aggregate(home=used, month="2026-10", runner=runner)

    assert [row["organization"] for row in found] == list(CODES)
    unchanged = [row | {"appended": "no", "snapshot": None} for row in expected]
    assert [row | {"snapshot": None} for row in found] == unchanged


@pytest.mark.slow
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
@pytest.mark.usefixtures("prefect")
def test_flows_over_organizations_have_the_runner(used, flow):
    """What a runner makes of them is tried with one flow above."""
    found = flow(home=used, runner="threads")

    assert [row["organization"] for row in found] == list(CODES)
    assert {row["problems"] for row in found} == {0}


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
def test_processes_ingest_what_threads_do(home):
    for code in CODES:
        drop(home, code, "a.csv", "egress,acme,u1,2026-10-03T10:00:00Z,5,eu")
    found = ingest(home=home, runner="processes")

    assert [(row["organization"], row["accepted"]) for row in found] == [
        (each, 1) for each in CODES
    ]


@pytest.mark.long
@pytest.mark.usefixtures("prefect")
def test_a_single_organization_without_parts_is_worked_on_as_without_a_runner(used):
    [row] = check(home=used, org=("acme",), runner="processes")
    assert (row["organization"], row["measurements"]) == ("acme", 1)


def test_the_steps_of_a_closing_have_its_runner(used):
    """They are threads of its process, and open the home that it keeps open."""
    with kept_open(used) as before, kept_open(used, "threads") as kept:
        assert kept.settings.runner == "threads"
        with open_home(used) as stores:
            assert stores is kept
    with open_home(used) as after:
        assert after is not kept
        assert after.settings.runner is None
    assert before.settings.runner is None


@pytest.mark.usefixtures("prefect")
def test_a_closing_refuses_a_runner_that_is_none(used):
    with pytest.raises(ParameterTypeError, match="did you mean dask"):
        close_month(home=used, org="acme", month="2026-10", runner="dusk")


@pytest.mark.long
@pytest.mark.usefixtures("prefect")
def test_a_single_organization_carries_its_parts_by_the_runner(used):
    [row] = bill(home=used, org=("acme",), month="2026-10", runner="threads")
    assert row["organization"] == "acme"


@pytest.mark.usefixtures("prefect")
def test_a_runner_that_is_none_is_refused_before_a_run_is_made(used):
    with pytest.raises(ParameterTypeError, match="did you mean processes"):
        aggregate(home=used, month="2026-10", runner="proceses")


def test_dask_without_the_extra_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(NotAvailable, match="meterlake"):
        task_runner_of(FanOutRunner.parse("dask"))
