"""The pages of runs: what is listed, what one can do about it, and what is not offered."""

import re

import pytest
from argon2 import PasswordHasher

from meterlake.console.runs import done_of, duration
from meterlake.model.bills.jobs import BillOrder
from meterlake.pipeline.access import login
from meterlake.pipeline.billing.jobs.jobs import submit_order
from meterlake.stores.state.jobs.flow_run import ask_for_flow_runs
from tests.console_world import CONSOLE, a_console
from tests.people import allow

PREFECT = "https://prefect.example.com"
RUNS = f"{CONSOLE}/runs"
ATTACK = '"><script>alert(1)</script>'


@pytest.fixture(scope="module", autouse=True)
def _quick_passwords():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(login, "_HASHER", PasswordHasher(1, 64, 1))
        yield


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    with a_console(tmp_path_factory.mktemp("console"), prefect_url=f"{PREFECT}/api") as found:
        found.join("ada@example.com", allow())
        found.join("reader@example.com", allow("config:retrieve"))
        found.join("catalog@example.com", allow("config:retrieve", "config:product/*"))
        yield found


@pytest.fixture
def waiting(world):
    """A bill job that no worker runs; its id."""
    organization = world.home.organization
    with organization.transaction("test") as transaction:
        return submit_order(transaction, BillOrder()).id


def failed(world, error):
    """A bill job that failed; its id."""
    jobs = world.home.stores.state.jobs
    job = jobs.start(world.home.org_id, "bill", BillOrder().to_wire())
    jobs.finish(job, error=error)
    return job.id


def test_runs_are_listed_with_who_asked_and_how_they_ended(world):
    ada = world.browser("ada@example.com")
    failed(world, "the disk is full")
    ada.go(f"{RUNS}?status=FAILED")

    assert "the disk is full" in ada.text
    assert "Failed" in ada.text
    assert "bill monthly 2026-10-01" not in ada.text
    assert "Nothing matches" in ada.go(f"{RUNS}?kinds=EXPORT")


def test_a_run_leads_to_the_flow_run_of_prefect_that_began_it(world):
    flow_run = "0d0c0b0a-0000-4000-8000-000000000001"
    before = ask_for_flow_runs(lambda: flow_run)
    try:
        by_prefect = failed(world, "of a flow run")
    finally:
        ask_for_flow_runs(before)
    alone = failed(world, "of no flow run")
    ada = world.browser("ada@example.com")

    ada.go(f"{RUNS}/{by_prefect}")
    assert f'href="{PREFECT}/runs/flow-run/{flow_run}"' in ada.page.text
    ada.go(f"{RUNS}/{alone}")
    assert PREFECT not in ada.page.text


def test_a_run_that_could_not_bill_some_says_so(world):
    jobs = world.home.stores.state.jobs
    job = jobs.start(world.home.org_id, "bill", BillOrder().to_wire())
    job.result["failed"] = [["acme", "a price is missing"]]
    jobs.finish(job)
    ada = world.browser("ada@example.com")
    ada.go(f"{RUNS}?status=COMPLETE")
    assert "1 customer failed: account acme: a price is missing" in ada.text

    ada.go(f"{RUNS}/{job.id}")
    assert "Partly failed 1 customer failed" in ada.text
    assert "Complete" not in ada.text
    assert "1 customer failed: account acme: a price is missing" in ada.text


def test_a_run_that_waits_is_cancelled_and_run_again(world, waiting):
    ada = world.browser("ada@example.com")
    ada.go(f"{RUNS}/{waiting}")
    assert "It waits for a worker." in ada.text

    assert "You cancelled the run." in ada.press("cancel")
    assert not ada.offers("cancel")
    assert "The worker does it once more." in ada.press("retry")
    assert ada.path.startswith(RUNS)
    assert not ada.path.endswith(waiting)
    ada.go(f"{RUNS}/{waiting}")
    assert re.search(r"cancelled by Ada .*run again by Ada", ada.text)


def test_who_may_only_read_sees_no_button(world, waiting):
    reader = world.browser("reader@example.com")
    reader.go(f"{RUNS}/{waiting}")

    assert reader.page.status_code == 200
    assert not reader.offers("cancel")
    fields = {**reader.hidden(), "action": "cancel"}
    reader.page = reader.client.post(str(reader.page.url), data=fields)
    assert reader.page.status_code == 403


def test_who_may_not_read_runs_has_no_such_room(world):
    catalog = world.browser("catalog@example.com")
    catalog.go(CONSOLE)

    assert f'href="{RUNS}"' not in catalog.page.text
    catalog.go(RUNS)
    assert catalog.page.status_code == 403


def test_an_error_is_only_text(world):
    ada = world.browser("ada@example.com")
    id_ = failed(world, ATTACK)
    for path in (RUNS, f"{RUNS}/{id_}"):
        ada.go(path)
        assert "<script>alert" not in ada.page.text
        assert "&lt;script&gt;" in ada.page.text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "under 1 s"), (59, "59 s"), (125, "2 min 5 s"), (3_600, "1 h"), (90_061, "1 d 1 h")],
)
def test_a_duration_has_its_two_largest_units(seconds, text):
    assert duration(seconds) == text


def test_a_run_that_counts_says_how_much_is_done():
    assert done_of({"progress": {"total": 10, "pending": 4}}) == (6, 10)
    assert done_of({"progress": {"phase": "writing"}}) is None
    assert done_of({}) is None
