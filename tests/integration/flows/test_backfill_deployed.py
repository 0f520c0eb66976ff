"""The deployments of backfills as `meterlake serve` serves them: runs wait without a process."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from meterlake.stores.processes import child
from tests.integration.flows.test_backfill import backfills, ingested

ROOT = Path(__file__).parents[3]
WAIT_S = 180

pytestmark = [
    pytest.mark.usefixtures("prefect"),
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.slow,
]


@pytest.fixture
def deployments(home: Path, tmp_path: Path) -> Iterator[None]:
    """The process that serves all deployments of a home on the tests' server."""
    from prefect.settings import get_current_settings

    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    api = get_current_settings().to_environment_variables(exclude_unset=True)["PREFECT_API_URL"]
    command = [sys.executable, "-m", "flows.schedules", "--home", str(home), "--api", api]
    environment = {**os.environ, "PYTHONPATH": path}
    with (
        (tmp_path / "schedules.log").open("wb") as log,
        child(command, environment, tmp_path, log),
    ):
        yield


def until(found: Any, what: str) -> Any:
    """What a question gives as soon as it gives anything."""
    give_up = time.monotonic() + WAIT_S
    while time.monotonic() < give_up:
        if answer := found():
            return answer
        time.sleep(0.5)
    raise AssertionError(what)


def started(home: Path, deployment: str, **parameters: Any) -> UUID:
    """A run of a deployment of a home, begun as somebody does on Prefect's pages."""
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    def found() -> Any:
        try:
            there = client.read_deployment_by_name(deployment)
        except ObjectNotFound:
            return None
        return there if there.parameters["home"] == str(home) else None

    with get_client(sync_client=True) as client:
        id_ = until(found, f"{deployment} is not deployed").id
        return client.create_flow_run_from_deployment(id_, parameters=parameters).id


def state_of(run: UUID) -> Any:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return client.read_flow_run(run).state


def ends(run: UUID, name: str) -> bool:
    """Whether a run comes to a state, and to no other end."""

    def found() -> Any:
        state = state_of(run)
        return state if state.name == name or state.is_final() else None

    state = until(found, f"the run never was {name}")
    assert state.name == name, state.message
    return True


def processes_of(run: UUID) -> list[str]:
    """The processes that work on a run."""
    done = subprocess.run(["ps", "axeww"], capture_output=True, text=True, check=True)
    return [line for line in done.stdout.splitlines() if str(run) in line]


@pytest.mark.usefixtures("deployments")
def test_runs_wait_without_a_process_for_somebody_who_resumes_them(home: Path) -> None:
    from prefect import resume_flow_run

    ingested(home)
    about = {"source": "a.csv", "reason": "sent twice", "org": "acme"}
    first = started(home, "backfill/backfill", mode="retract", id="first", **about)
    assert ends(first, "Suspended")
    until(lambda: not processes_of(first), "a run that waits has a process")
    # The one that waits does not hold up others.
    second = started(home, "backfill/backfill", mode="re-derive", month="2026-10", org="acme")
    assert ends(second, "Suspended")
    # What else is ingested meanwhile does not matter.
    ingested(home, "egress,acme,9,2026-09-01T00:00:00Z,1,eu")

    resume_flow_run(first, run_input={"decision": "apply"})
    resume_flow_run(second, run_input={"decision": "drop"})

    assert ends(first, "Completed")
    assert ends(second, "Completed")
    found = {each.id: each.status.value for each in backfills(home)}
    assert found == {"first": "APPLIED", str(second): "DROPPED"}
    [applied] = [each for each in backfills(home) if each.id == "first"]
    # Resumed, it was not staged once more: what was seen is what is done.
    assert [each.action.value for each in applied.history] == ["stage", "apply"]

    decided = started(
        home, "backfill-decision/backfill-decision", decision="revert", id="first", org="acme"
    )
    assert ends(decided, "Completed")
    assert {each.status.value for each in backfills(home)} == {"REVERTED", "DROPPED"}


@pytest.mark.usefixtures("deployments")
def test_what_changed_since_it_was_staged_is_asked_again_on_retry(home: Path) -> None:
    from prefect import resume_flow_run
    from prefect.client.orchestration import get_client
    from prefect.states import Scheduled

    ingested(home)
    about = {"month": "2026-10", "org": "acme", "id": "again"}
    run = started(home, "backfill/backfill", mode="re-aggregate", **about)
    assert ends(run, "Suspended")
    ingested(home, "egress,acme,9,2026-10-02T00:00:00Z,1,eu")
    resume_flow_run(run, run_input={"decision": "apply"})
    assert ends(run, "Failed")
    assert "the measurements of 2026-10 have changed" in state_of(run).message

    async def retry() -> None:
        async with get_client() as client:
            await client.set_flow_run_state(run, Scheduled(), force=False)

    asyncio.run(retry())
    assert ends(run, "Suspended")
    resume_flow_run(run, run_input={"decision": "apply"})

    assert ends(run, "Completed")
    [found] = backfills(home)
    assert found.status == "APPLIED"
    assert [each.action.value for each in found.history][:2] == ["stage", "stage"]
