from decimal import Decimal

import pytest

from meterlake.model.errors import Busy, NotFound, StaleVersion
from meterlake.stores.state import JobStatus
from meterlake.stores.state.jobs import LEASE


def test_a_job_is_complete_with_its_result(state, org, clock):
    started = clock()
    with state.jobs.running(org, "bill", {"month": "2026-10"}, snapshot=2**40) as job:
        assert state.jobs.get(job.id).status is JobStatus.RUNNING
        clock.advance(minutes=1)
        job.result = {"lines": 3, "total": Decimal("0.10")}

    stored = state.jobs.get(job.id)

    assert stored == job
    assert stored.status is JobStatus.COMPLETE
    assert (stored.started, stored.finished, stored.lease_until) == (started, clock(), None)
    assert (stored.parameters, stored.snapshot) == ({"month": "2026-10"}, 2**40)
    assert stored.result["total"] == Decimal("0.1")


def test_a_job_that_raises_has_failed_with_the_reason(state, org):
    with pytest.raises(ZeroDivisionError), state.jobs.running(org, "bill", {}):
        raise ZeroDivisionError("no share")

    [stored] = state.jobs.recent(org)

    assert (stored.status, stored.error) == (JobStatus.FAILED, "ZeroDivisionError: no share")


def test_recent_jobs_are_the_newest_of_the_organization(state, org, clock):
    ids = []
    for kind in ("bill", "export", "bill"):
        ids.append(state.jobs.start(org, kind, {}).id)
        clock.advance(seconds=1)

    assert [job.id for job in state.jobs.recent(org)] == ids[::-1]
    assert [job.id for job in state.jobs.recent(org, limit=1)] == ids[2:]
    assert [job.id for job in state.jobs.recent(org, kind="bill")] == [ids[2], ids[0]]
    assert state.jobs.recent("nobody") == []


def test_a_job_whose_executor_is_dead_is_taken_over_and_its_late_end_refused(state, org, clock):
    dead = state.jobs.start(org, "bill", {})
    with pytest.raises(Busy):
        state.jobs.take_over(dead.id)
    clock.advance(seconds=int(LEASE.total_seconds()))

    job = state.jobs.take_over(dead.id)

    assert job.attempt == 2
    with pytest.raises(StaleVersion):
        state.jobs.finish(dead)
    state.jobs.finish(job)
    with pytest.raises(StaleVersion):
        state.jobs.finish(job)
    with pytest.raises(Busy):
        state.jobs.take_over(dead.id)


def test_there_is_no_job_of_that_id(state):
    with pytest.raises(NotFound):
        state.jobs.get("nobody")
    with pytest.raises(NotFound):
        state.jobs.take_over("nobody")
