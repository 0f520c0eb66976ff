"""The flow `close-month`: each step a run of its own, a review, and nothing done twice."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from meterlake.pipeline.home.closing import ClosingStep
from tests.integration.flows.conftest import drop
from tests.integration.flows.test_flows import artifact, ended, run_of, usage

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.filterwarnings("ignore")]

STEPS = [each.value for each in ClosingStep]


@contextmanager
def answered(**answer: str) -> Iterator[list[Any]]:
    """Somebody who resumes the run that waits, with an answer."""
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
    done: list[Any] = []

    def look() -> None:
        give_up = time.monotonic() + 120
        while not done and time.monotonic() < give_up:
            with get_client(sync_client=True) as client:
                for run in client.read_flow_runs(flow_run_filter=paused):
                    resume_flow_run(run.id, run_input=answer)
                    done.append(run.id)
            time.sleep(0.1)

    thread = threading.Thread(target=look)
    thread.start()
    yield done
    thread.join()


@pytest.fixture
def closing(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The parameters of a closing, of a home with a file that waits."""
    from flows import waiting

    monkeypatch.setattr(waiting, "POLL_S", 0.2)
    drop(home, "acme", "a.csv", *usage("1", "2"))
    return {"home": home, "org": "acme", "month": "2026-10", "file": ("a*.csv",), "hours": 0}


def children(run: Any) -> list[str]:
    """The names of the runs that a run started, in their order."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId

    mine = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run.id]))
    with get_client(sync_client=True) as client:
        found = client.read_flow_runs(flow_run_filter=mine)
    return [each.name for each in sorted(found, key=lambda each: each.start_time)]


@pytest.mark.slow
def test_each_step_is_a_run_of_its_own_and_none_is_repeated(closing: dict[str, Any]) -> None:
    from flows.close_month import close_month

    state = ended(close_month, approve=True, **closing)

    [row] = state.result()
    assert (row["organization"], row["month"], row["steps"]) == ("acme", "2026-10", len(STEPS))
    assert run_of(state).name == "close 2026-10 for acme"
    assert children(run_of(state)) == [
        "ingest dropped files for acme",
        "poll bucket inboxes for acme",
        "ingest uploaded files for acme",
        "aggregate 2026-10 for acme",
        "bill 2026-10 for acme",
        "export usage for acme",
        "export operational for acme",
        "publish the analysts' file for acme",
    ]
    summary, done = artifact("close-month")
    assert summary[0]["month"] == "2026-10"
    assert [each["step"] for each in done] == STEPS
    assert "accepted 2" in done[1]["outcome"]

    again = ended(close_month, approve=True, **closing)

    assert again.result() == [row]
    assert children(run_of(again)) == []


def test_a_file_that_does_not_come_is_told(closing: dict[str, Any]) -> None:
    from flows.close_month import close_month

    state = ended(close_month, **{**closing, "file": ("b*.csv",)})

    assert state.is_failed()
    assert "acme: no file b*.csv came in time" in state.message
    assert children(run_of(state)) == []


@pytest.mark.slow
@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_bills_wait_for_somebody_who_looked_at_them(closing: dict[str, Any], decision: str) -> None:
    from flows.close_month import close_month

    with answered(decision=decision, reason="a price") as done:
        state = ended(close_month, **closing)

    assert done == [run_of(state).id]
    if decision == "approve":
        assert state.is_completed()
        assert len(children(run_of(state))) == 8
    else:
        assert "the bills of 2026-10 are rejected: a price" in state.message
        assert len(children(run_of(state))) == 5


def test_other_verbs_are_flows_too(home: Path) -> None:
    from flows.aggregate import aggregate
    from flows.deliver import deliver
    from flows.upload_due import upload_due

    drop(home, "acme", "a.csv", *usage("1", "2"))
    [uploads] = upload_due(home=home, org=("acme",))
    [quantities] = aggregate(home=home, org=("acme",), month="2026-10")
    [events] = deliver(home=home, org=("acme",))

    assert (uploads["files"], uploads["problems"]) == (0, 0)
    assert (quantities["month"], quantities["problems"]) == ("2026-10", 0)
    assert events["events"] > 0
