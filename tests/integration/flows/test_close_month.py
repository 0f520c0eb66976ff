"""The flow `close-month`: each step a run of its own, a review, and nothing done twice."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from meterlake.cli import run
from meterlake.pipeline.closing.close_month import ClosingStep
from meterlake.settings import Settings
from meterlake.stores import open_stores
from meterlake.stores.state.jobs import lease
from tests.integration.flows.conftest import drop
from tests.integration.flows.test_deployments import ROOT
from tests.integration.flows.test_flows import artifact, ended, reports_of, run_of, usage

pytestmark = [pytest.mark.usefixtures("prefect"), pytest.mark.filterwarnings("ignore")]

STEPS = [each.value for each in ClosingStep]
RUNS = [
    "ingest dropped files for acme",
    "poll bucket inboxes for acme",
    "ingest uploaded files for acme",
    "check reconciliation and alerts for acme",
    "aggregate 2026-10 for acme",
    "bill 2026-10 for acme",
    "export usage for acme",
    "export operational for acme",
    "publish the analysts' file for acme",
    "deliver what is due for acme",
    "maintain the lake for acme",
]
# A run of the flow that dies at a step; the leases of dead processes are over soon.
CHILD = """
import sys
from datetime import timedelta
from meterlake.model.values import failpoint
from meterlake.stores.state.jobs import lease
from tests.killing import die_at
lease.LEASES = dict.fromkeys(lease.LEASES, timedelta(seconds=1))
failpoint.hook = die_at(sys.argv[1], int(sys.argv[2]))
from flows.close_month import close_month
close_month(home=sys.argv[3], org="acme", month="2026-10", approve=sys.argv[4] == "approve")
"""


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


def runs_below(run: Any) -> list[Any]:
    """The runs that a run started, in their order."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId

    mine = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run.id]))
    with get_client(sync_client=True) as client:
        found = client.read_flow_runs(flow_run_filter=mine)
    return sorted(found, key=lambda each: each.start_time)


def children(run: Any) -> list[str]:
    """The names of the runs that a run started, in their order."""
    return [each.name for each in runs_below(run)]


@pytest.mark.slow
@pytest.mark.parametrize("runner", [None, "threads", "processes"])
def test_each_step_is_a_run_of_its_own_and_none_is_repeated(
    closing: dict[str, Any], runner: str | None
) -> None:
    from flows.close_month import close_month

    closing["runner"] = runner

    with answered(decision="approve", reason=""):
        state = ended(close_month, **closing)

    [row] = state.result()
    assert (row["organization"], row["month"], row["steps"]) == ("acme", "2026-10", len(STEPS))
    assert run_of(state).name == "close 2026-10 for acme"
    assert children(run_of(state)) == RUNS
    for each in (run_of(state), *runs_below(run_of(state))):
        assert len(reports_of(each)) == 1, each.name
    summary, done = artifact("close-month")
    assert summary[0]["month"] == "2026-10"
    assert [each["step"] for each in done] == STEPS
    assert "accepted 2" in done[1]["outcome"]

    again = ended(close_month, approve=True, **closing)

    assert again.result() == [row]
    assert children(run_of(again)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("step", "last", "left"),
    [
        ("closing.step_done", "ingest", 11),
        ("closing.step_done", "bill", 6),
        ("closing.step_noted", "export-usage", 4),
    ],
)
def test_a_run_that_was_killed_is_started_again_and_goes_on_where_it_was(
    closing: dict[str, Any], monkeypatch: pytest.MonkeyPatch, step: str, last: str, left: int
) -> None:
    from prefect.settings import get_current_settings

    from flows.close_month import close_month

    # Behind the review the command is where it was shown.
    behind = STEPS.index(last) > STEPS.index("review")
    if behind:
        assert run(["close-month", "2026-10", "--home", str(closing["home"]), "--org", "acme"]) == 0
    times = STEPS.index(last) + 1 - behind * STEPS.index("review")
    decision = "approve" if behind else "ask"
    told = get_current_settings().to_environment_variables(exclude_unset=True)
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    died = subprocess.run(
        [sys.executable, "-c", CHILD, step, str(times), str(closing["home"]), decision],
        env={**os.environ, **told, "PYTHONPATH": path},
        capture_output=True,
        check=False,
    )
    assert died.returncode == -signal.SIGKILL, died.stderr
    monkeypatch.setattr(lease, "LEASES", dict.fromkeys(lease.LEASES, timedelta(seconds=1)))

    if behind:
        state = ended(close_month, approve=True, **closing)
    else:
        with answered(decision="approve", reason=""):
            state = ended(close_month, **closing)

    assert state.is_completed(), state.message
    assert children(run_of(state)) == RUNS[-left:]
    with open_stores(Settings(home=closing["home"], _env_file=None)) as stores:
        organization = stores.find_organization("acme")
        exports = [
            each.status.value for each in stores.state.jobs.recent(organization.id, "export")
        ]
        with organization.lake.reader() as reader:
            rows = reader.execute("SELECT count(*) FROM lake.uid_index").fetchone()
    assert exports == ["COMPLETE", "COMPLETE"]
    assert rows == (2,)


def test_a_file_that_does_not_come_is_told(closing: dict[str, Any]) -> None:
    from flows.close_month import close_month

    state = ended(close_month, **{**closing, "file": ("b*.csv",)})

    assert state.is_failed()
    assert "acme: no file b*.csv came in time" in state.message
    assert children(run_of(state)) == []


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ({"approve": True}, "the bills of 2026-10 were not shown yet"),
        ({"month": "2099-01", "early": True}, "2099-01 has not begun: it begins at 2099-01-01"),
        ({"to": "ftp://here/one"}, "--to: 'ftp://here/one' is not allowed"),
        ({"hours": -1}, "hours: -1.0 is not allowed: it must be 0 or more"),
        ({"look": float("nan")}, "look: nan is not allowed"),
    ],
)
def test_what_is_not_allowed_is_refused_before_any_step(
    closing: dict[str, Any], wrong: dict[str, Any], rule: str
) -> None:
    from flows.close_month import close_month

    state = ended(close_month, **{**closing, **wrong})

    assert state.is_failed()
    assert rule in state.message
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
        assert len(children(run_of(state))) == 11
    else:
        assert "the bills of 2026-10 are rejected: a price" in state.message
        assert len(children(run_of(state))) == 6


@pytest.mark.long
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
