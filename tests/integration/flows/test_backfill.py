"""The flows of backfills: staged and shown, then applied or dropped by whoever decides."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from meterlake.model.errors import Unavailable
from meterlake.model.values import failpoint
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline.backfill import Backfill, Order, history
from meterlake.pipeline.backfill.background import KIND, submit_start
from meterlake.pipeline.config.months import month_named
from tests.integration.flows.conftest import drop
from tests.integration.flows.test_flows import artifact, ended, run_of, titles

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.filterwarnings("ignore")]

UTC = ZoneInfo("UTC")
ROW = "egress,acme,{0},2026-10-01T00:00:00Z,1.50,eu"


def ingested(home: Path, *rows: str) -> None:
    from flows.ingest import ingest

    drop(home, "acme", "a.csv", *(rows or (ROW.format(1), ROW.format(2))))
    ingest(home=home, org=("acme",))


def backfills(home: Path) -> list[Backfill]:
    from flows.parameters import open_home

    with open_home(home) as stores:
        return history(stores.find_organization("acme"))


def asked_for(home: Path, **more: Any) -> dict[str, Any]:
    about = {"source": "a.csv", "reason": "sent twice", "id": "b"}
    return {"home": home, "org": "acme", **about, **more}


@contextmanager
def resumed(decision: str) -> Iterator[list[UUID]]:
    """Somebody who resumes the run that pauses next, once it does."""
    done: list[UUID] = []

    def look() -> None:
        from prefect import resume_flow_run
        from prefect.client.orchestration import get_client
        from prefect.client.schemas.filters import (
            FlowRunFilter,
            FlowRunFilterState,
            FlowRunFilterStateType,
        )
        from prefect.client.schemas.objects import StateType

        paused = FlowRunFilter(
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.PAUSED]))
        )
        give_up = time.monotonic() + 60
        while not done and time.monotonic() < give_up:
            with get_client(sync_client=True) as client:
                for run in client.read_flow_runs(flow_run_filter=paused):
                    resume_flow_run(run.id, run_input={"decision": decision})
                    done.append(run.id)
            time.sleep(0.1)

    thread = threading.Thread(target=look)
    thread.start()
    yield done
    thread.join()


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """A paused run looks often whether it is resumed."""
    from flows import waiting

    monkeypatch.setattr(waiting, "POLL_S", 0.2)


@pytest.mark.long
def test_what_is_staged_is_shown_and_decided_by_the_other_deployment(home: Path) -> None:
    from flows.backfill import backfill
    from flows.backfill_decision import backfill_decision
    from flows.outcome import Incomplete

    ingested(home)
    staged = ended(backfill, mode="retract", **asked_for(home))

    assert run_of(staged).name == "stage retract a.csv for acme"
    [row] = staged.result()
    assert (row["status"], row["measurementsGone"]) == ("STAGED", 2)
    summary, quantities = artifact("backfill")
    assert summary[0]["backfill"] == "b"
    assert [(each["before"], each["after"]) for each in quantities] == [("3 GBy", "")]
    assert [each["units before"] for each in quantities] == ["3 × GB"]
    assert titles("backfill") == ["How to go on", "Quantities before and after"]
    assert backfills(home)[0].status == "STAGED"

    for decision, status in (("apply", "APPLIED"), ("revert", "REVERTED")):
        state = ended(backfill_decision, decision=decision, id="b", home=home, org="acme")
        assert state.result()[0]["status"] == status
        assert (run_of(state).name, run_of(state).tags) == (
            f"{decision} a backfill for acme",
            ["org:acme"],
        )
    with pytest.raises(Incomplete, match="acme: Conflict: backfill 'b' is REVERTED"):
        backfill_decision("drop", "b", home=home, org="acme")


@pytest.mark.long
def test_at_once_it_is_applied_without_a_question(home: Path) -> None:
    from flows.backfill import backfill
    from flows.outcome import Incomplete

    ingested(home)
    [applied] = backfill("retract", **asked_for(home), apply=True, wait=True)

    assert applied["status"] == "APPLIED"
    with pytest.raises(Incomplete, match=r"acme: NotFound: no source 'gone\.csv'"):
        backfill("retract", **asked_for(home, source="gone.csv"))


@pytest.mark.long
@pytest.mark.usefixtures("quickly")
@pytest.mark.parametrize(
    ("decision", "status"),
    [("apply", "APPLIED"), pytest.param("drop", "DROPPED", marks=pytest.mark.slow)],
)
def test_a_run_waits_until_it_is_resumed_with_a_decision(
    home: Path, decision: str, status: str
) -> None:
    from flows.backfill import backfill

    ingested(home)
    with resumed(decision) as done:
        state = ended(backfill, mode="retract", wait=True, **asked_for(home, id=None))

    run = run_of(state)
    assert (state.result()[0]["status"], done) == (status, [run.id])
    assert run.name == f"{decision} retract a.csv for acme"
    [found] = backfills(home)
    # Whoever runs it again goes on with the same one.
    assert (found.id, found.status) == (str(run.id), status)
    assert question(run.id).startswith("This is staged")


def question(run_id: UUID) -> str:
    """What stood above the form of a decision."""
    from prefect.input.actions import read_flow_run_input

    return str(read_flow_run_input("paused-decision-1-description", run_id))


def test_a_step_over_the_api_is_a_run_with_a_name(home: Path) -> None:
    from flows.backfill_job import backfill_job
    from flows.parameters import open_home

    with open_home(home) as stores:
        organization = stores.find_organization("acme")
        window = month_named(organization, "2026-10").period(UTC)
        order = Order(BackfillSpec(Mode.REDERIVE, window=window), "somebody", "over-http")
        submit_start(organization, order)
        [job] = stores.state.jobs.waiting(organization.id, KIND)

    given = {"home": home, "org": organization.id, "job": job.id, "name": "stage re-derive"}
    state = ended(backfill_job, **given)

    assert (state.result()[0]["status"], run_of(state).name) == (
        "STAGED",
        "stage re-derive for acme",
    )
    assert [(each.status.value, each.author) for each in backfills(home)] == [
        ("STAGED", "somebody")
    ]


@pytest.mark.long
def test_tried_again_it_is_the_same_backfill(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows import backfill as module

    left = [Unavailable("lake", "gone")]

    def fail_once(name: str) -> None:
        if name == "backfill.staged" and left:
            raise left.pop()

    monkeypatch.setattr(failpoint, "hook", fail_once)
    quickly = module.stage.with_options(retry_delay_seconds=[0, 0, 0])
    monkeypatch.setattr(module, "stage", quickly)
    month = {"home": home, "org": "acme", "month": "2026-10"}

    [staged] = module.backfill("re-aggregate", **month)

    assert not left
    assert [each.id for each in backfills(home)] == [staged["backfill"]]
