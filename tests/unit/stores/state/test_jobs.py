from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from uuid import uuid4

import pytest

from meterlake.model.errors import Busy, Conflict, NotFound, StaleVersion
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state import JobStatus
from meterlake.stores.state.billing.calculations.pins import RETRIED, pinned_snapshots
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.jobs import LEASES, Job, JobFilters, Lease, newest_due, submit


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
        state.jobs.take(dead.id, 7)
    clock.advance(seconds=int(LEASES["bill"].total_seconds()))

    job = state.jobs.take(dead.id, 7)

    assert job.attempt == 2
    with pytest.raises(StaleVersion):
        state.jobs.finish(dead)
    state.jobs.finish(job)
    with pytest.raises(StaleVersion):
        state.jobs.finish(job)
    with pytest.raises(Busy):
        state.jobs.take(dead.id, 7)


def test_there_is_no_job_of_that_id(state):
    with pytest.raises(NotFound):
        state.jobs.get("nobody")
    with pytest.raises(NotFound):
        state.jobs.take("nobody", 7)


SHORT_LEASE = LEASES["export"]


def submitted(state, org, clock, begun=None, **more):
    """The id of a job that waits."""
    job = Job(
        id=str(uuid4()), org_id=org, kind="export", parameters={"n": 1}, created=clock(), **more
    )
    with state.transaction(org, "me") as transaction:
        assert submit(transaction.connection, job if begun is None else job.begin(begun))
    return job.id


def test_a_job_that_waits_is_taken_by_one_only(state, org, clock):
    id_ = submitted(state, org, clock, author="me")
    assert state.jobs.get(id_).status is JobStatus.PENDING
    assert [job.id for job in state.jobs.waiting(org, "export")] == [id_]

    job = state.jobs.take(id_, snapshot=7)

    assert (job.status, job.attempt, job.snapshot, job.author) == (JobStatus.RUNNING, 1, 7, "me")
    assert state.jobs.waiting(org, "export") == []
    with pytest.raises(Busy):
        state.jobs.take(id_, snapshot=7)


def test_a_job_whose_attempt_fell_silent_goes_on_with_the_snapshot_of_the_first(state, org, clock):
    id_ = submitted(state, org, clock)
    dead = state.jobs.take(id_, snapshot=7)
    clock.advance(seconds=30)
    dead.progress = {"files": 2}
    assert state.jobs.renew(dead) is False
    clock.advance(seconds=int(SHORT_LEASE.total_seconds()) - 1)
    with pytest.raises(Busy):
        state.jobs.take(id_, snapshot=9)
    clock.advance(seconds=1)

    job = state.jobs.take(id_, snapshot=9)

    assert (job.attempt, job.snapshot, job.progress) == (2, 7, {"files": 2})
    with pytest.raises(StaleVersion):
        state.jobs.renew(dead)
    with pytest.raises(StaleVersion):
        state.jobs.finish(dead)


def test_an_attempt_that_gives_up_leaves_the_job_to_the_next(state, org, clock):
    id_ = submitted(state, org, clock)
    state.jobs.release(state.jobs.take(id_, snapshot=7))

    assert state.jobs.take(id_, snapshot=8).attempt == 2


def test_who_dies_at_a_job_is_counted_and_who_gives_it_back_is_not(state, org, clock):
    id_ = submitted(state, org, clock)
    for deaths in range(3):
        state.jobs.release(state.jobs.take(id_, snapshot=7))
        assert state.jobs.get(id_).has_died(clock()) is (deaths > 0)
        taken = state.jobs.take(id_, snapshot=7)
        assert (taken.deaths, taken.has_died(clock())) == (deaths, deaths > 0)
        clock.advance(seconds=int(SHORT_LEASE.total_seconds()))
        assert taken.has_died(clock())
    job = state.jobs.take(id_, snapshot=7)
    assert (job.deaths, job.attempt) == (3, 7)
    state.jobs.finish(job, error="no")

    assert not state.jobs.retry(org, id_, "export").has_died(clock())


def test_a_job_that_its_maker_works_on_never_waits(state, org, clock):
    id_ = submitted(state, org, clock, begun=7)
    job = state.jobs.get(id_)

    assert (job.status, job.attempt, job.snapshot) == (JobStatus.RUNNING, 1, 7)
    assert (job.started, job.lease_until) == (clock(), clock() + SHORT_LEASE)
    assert state.jobs.waiting(org, "export") == []
    with pytest.raises(Busy):
        state.jobs.take(id_, snapshot=8)
    assert state.jobs.renew(job) is False
    clock.advance(seconds=int(SHORT_LEASE.total_seconds()))
    assert [job.id for job in state.jobs.waiting(org, "export")] == [id_]


def test_the_first_attempt_says_what_was_left_open(state, org, clock):
    id_ = submitted(state, org, clock)
    first = state.jobs.take(id_, 7, {"n": 1, "m": 2})
    state.jobs.release(first)
    second = state.jobs.take(id_, 7, {"n": 1, "m": 3})

    assert first.parameters == second.parameters == {"n": 1, "m": 2}


def test_how_far_a_job_came_is_told_to_its_end_and_forgotten_by_the_next_one(state, org, clock):
    id_ = submitted(state, org, clock)
    job = state.jobs.take(id_, 7)
    job.progress = {"rows": 1}
    state.jobs.release(job)
    job = state.jobs.take(id_, 7)
    assert job.progress == {"rows": 1}
    job.progress = {"rows": 2}
    state.jobs.finish(job, error="no")

    assert state.jobs.get(id_).progress == {"rows": 2}
    assert state.jobs.retry(org, id_, "export").progress == {}


def test_snapshots_of_jobs_that_may_go_on_stay(state, org, clock):
    ids = [submitted(state, org, clock) for _ in range(4)]
    for number, id_ in enumerate(ids, start=1):
        state.jobs.take(id_, number)
    state.jobs.finish(state.jobs.get(ids[0]), error="it failed")
    state.jobs.retry(org, ids[0], "export")
    state.jobs.finish(state.jobs.get(ids[1]), error="it failed")
    state.jobs.finish(state.jobs.get(ids[2]))
    other = state.jobs.start(org, "bill", {}, 5)
    state.jobs.finish(other, error="it failed")

    assert pinned_snapshots(state, org) == {1, 2, 4}
    assert pinned_snapshots(state, "another organization") == set()
    clock.advance(seconds=int(RETRIED.total_seconds()))
    assert pinned_snapshots(state, org) == {1, 4}


def test_a_run_of_a_schedule_has_one_job(state, org, clock):
    run = {"schedule_id": "s", "due": clock()}
    id_ = submitted(state, org, clock, **run)
    with state.transaction(org, "me") as transaction:
        again = Job(
            id=str(uuid4()), org_id=org, kind="export", parameters={}, created=clock(), **run
        )
        assert submit(transaction.connection, again) is False
        assert newest_due(transaction.connection, "s") == clock()
        assert newest_due(transaction.connection, "other") is None

    assert [job.id for job in state.jobs.waiting(org, "export")] == [id_]


def test_what_waits_is_cancelled_at_once_and_what_runs_is_asked_to_stop(state, org, clock):
    waits, runs = submitted(state, org, clock), submitted(state, org, clock)
    job = state.jobs.take(runs, snapshot=7)

    assert state.jobs.cancel(org, waits, "export").status is JobStatus.CANCELLED
    assert state.jobs.cancel(org, runs, "export").cancel_asked
    assert state.jobs.renew(job) is True
    state.jobs.finish(job, error="it was cancelled", status=JobStatus.CANCELLED)
    for each in (waits, runs):
        with pytest.raises(Conflict):
            state.jobs.cancel(org, each, "export")
    with pytest.raises(NotFound):
        state.jobs.cancel("another organization", waits, "export")
    assert state.jobs.waiting(org, "export") == []


def test_jobs_are_listed_by_page_and_filter(state, org, clock):
    ids = []
    for n in range(5):
        run = {"schedule_id": "s", "due": clock()} if n % 2 else {}
        ids.append(submitted(state, org, clock, **run))
        clock.advance(seconds=1)
    third = state.jobs.get(ids[2]).created

    def listed(**filters):
        found, token = state.jobs.page(org, "export", JobFilters(**filters), Page(3))
        if token is not None:
            found += state.jobs.page(org, "export", JobFilters(**filters), Page(3, token))[0]
        return [job.id for job in found]

    assert listed() == ids[::-1]
    assert listed(schedule_id="s") == [ids[3], ids[1]]
    assert listed(start=third) == ids[:1:-1]
    assert listed(end=third) == [ids[1], ids[0]]
    assert listed(ids=(ids[4], ids[0])) == [ids[4], ids[0]]
    state.jobs.take(ids[0], snapshot=1)
    assert listed(statuses=(JobStatus.RUNNING,)) == [ids[0]]
    assert listed(statuses=(JobStatus.COMPLETE, JobStatus.FAILED)) == []


def test_who_is_given_back_with_a_pause_is_taken_after_it(state, org, clock):
    id_ = submitted(state, org, clock)
    job = state.jobs.take(id_, snapshot=7)
    with state.writing_home() as connection:
        job.lease.release(connection, clock(), timedelta(minutes=3), error="it was away")
    assert state.jobs.get(id_).error == "it was away"
    with pytest.raises(Busy):
        state.jobs.take(id_, snapshot=7)
    clock.advance(minutes=3)
    assert [job.id for job in state.jobs.waiting(org, "export")] == [id_]

    assert state.jobs.take(id_, snapshot=7).attempt == 2
    # The pause of one attempt is none of the next.
    clock.advance(seconds=int(SHORT_LEASE.total_seconds()))
    assert state.jobs.take(id_, snapshot=7).attempt == 3


def test_a_job_that_waits_for_its_file_is_nobodys(state, org, clock):
    id_ = submitted(state, org, clock, status=JobStatus.AWAITING_FILE)

    assert state.jobs.waiting(org, "export") == []
    with pytest.raises(Busy, match="it waits for its file"):
        state.jobs.take(id_, snapshot=7)


def test_what_an_attempt_writes_is_kept_with_the_transaction_or_not_at_all(state, org, clock):
    job = state.jobs.take(submitted(state, org, clock), snapshot=7)
    with suppress(ZeroDivisionError), state.writing_home() as connection:
        job.lease.finish(connection, clock(), JobStatus.COMPLETE)
        raise ZeroDivisionError

    assert state.jobs.get(job.id).status is JobStatus.RUNNING
    with state.writing_home() as connection:
        late = replace(job.lease, attempt=2)
        late.release(connection, clock())
        with pytest.raises(StaleVersion):
            late.renew(connection, clock())
        with pytest.raises(StaleVersion):
            late.finish(connection, clock(), JobStatus.COMPLETE)
        job.lease.finish(connection, clock(), JobStatus.COMPLETE)
    assert state.jobs.get(job.id).status is JobStatus.COMPLETE


def test_every_kind_of_work_has_a_lease_time():
    assert set(LEASES) == set(JobKind)


@pytest.mark.parametrize("kind", JobKind)
def test_a_job_of_every_kind_is_taken_renewed_and_finished_alike(state, org, clock, kind):
    job = Job(str(uuid4()), org, kind, clock())
    with state.writing_home() as connection:
        submit(connection, job)
        lease = Lease.take(connection, job.id, clock())
        assert Lease.take(connection, job.id, clock()) is None
        clock.advance(seconds=1)
        assert lease.renew(connection, clock()) is False
    assert state.jobs.get(job.id).lease_until == clock() + LEASES[kind]
    clock.advance(seconds=int(LEASES[kind].total_seconds()))
    with state.writing_home() as connection:
        again = Lease.take(connection, job.id, clock())
        assert (again.kind, again.attempt) == (kind, 2)
        with pytest.raises(StaleVersion):
            lease.finish(connection, clock(), JobStatus.COMPLETE)
        again.finish(connection, clock(), JobStatus.FAILED, error="no")
    assert (state.jobs.get(job.id).status, state.jobs.get(job.id).error) == (JobStatus.FAILED, "no")


@pytest.mark.parametrize(
    "said", ["a\0b", "a\ud800b", "x" * (10 << 20)], ids=["nul", "half", "10 MB"]
)
def test_a_job_ends_whatever_a_stranger_said_of_it(state, org, said):
    """A store of objects, a file, a receiver: their words are in the reason."""
    with pytest.raises(ValueError, match=r".+"), state.jobs.running(org, "export", {}):
        raise ValueError(said)

    [stored] = state.jobs.recent(org)
    assert stored.status is JobStatus.FAILED
    assert stored.error.startswith("ValueError: ")
    assert len(stored.error) <= 1 << 16
    assert not {"\0", "\ud800"} & set(stored.error)
