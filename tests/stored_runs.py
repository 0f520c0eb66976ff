"""Runs of integrations as a test needs them: written, claimed and ended by the real functions."""

from datetime import datetime, timedelta
from typing import Any

from meterlake.model.configuration.integrations import RunStatus
from meterlake.stores import Organization
from meterlake.stores.state.integrations.queues import (
    ClaimedRun,
    RunStep,
    RunTry,
    claim_runs,
    write_steps,
)
from meterlake.stores.state.integrations.runs import NewRuns, RunContent

REQUEST = "POST https://x.test/\nKey: ********"


def add_run(organization: Organization, now: datetime, key: str, **facts: Any) -> str:
    """Have a run wait since an instant; its id."""
    content = RunContent(
        **{"entity_type": "Bill", "entity_id": "b1", "destination": "HTTP", **facts}, run_key=key
    )
    with organization.transaction("t") as transaction:
        new = NewRuns(transaction.connection, organization.id, now, transaction.new_id)
        [id_] = new.add([content])
    return id_


def end_run(
    organization: Organization, now: datetime, status: RunStatus, **facts: Any
) -> ClaimedRun:
    """Claim the one run that is due and write its end down, or its next try."""
    ended = now + timedelta(seconds=1)
    tried = RunTry(number=1, started=now, ended=ended, request=REQUEST, **facts.pop("tried", {}))
    with organization.transaction("t") as transaction:
        connection = transaction.connection
        [run] = claim_runs(connection, dict.fromkeys(["HTTP", *facts.pop("queues", ())], 9), now)
        step = RunStep(run=run, status=status, tried=tried, **facts)
        assert write_steps(connection, [step], ended) == [step]
    return run
