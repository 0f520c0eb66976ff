"""What a job that fails means to those that wait behind it."""

from functools import partial

import pytest

from meterlake.model.errors import Busy, Conflict, StaleVersion, Unavailable
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.jobs.job_spec import JobSpec
from meterlake.pipeline.jobs.waiting import run_round, run_waiting
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.jobs import submit
from meterlake.worker.flow_runs import Executor
from tests.homes import a_home

KIND = JobKind.CLOSING_STEP


def add_job(home):
    with home.organization.transaction("ann") as transaction:
        made = {"id": transaction.new_id(), "created": transaction.now, "parameters": {}}
        submit(transaction.connection, Job(org_id=home.org_id, kind=KIND, author="ann", **made))


@pytest.fixture
def home(tmp_path):
    """A home where two jobs wait."""
    with a_home(tmp_path, prefect_url="") as home:
        for _ in range(2):
            add_job(home)
        yield home


def waiting(home):
    return home.stores.state.jobs.waiting(home.org_id, KIND)


def statuses(home):
    return sorted(job.status for job in home.stores.state.jobs.recent(home.org_id, KIND))


def a_kind(work, **more):
    """A kind of job whose first one does this."""
    begun = []

    def run(job_run):
        begun.append(job_run.job.id)
        if len(begun) == 1:
            work(job_run)

    return JobSpec(kinds=(KIND,), name="work", work=run, describe=lambda *_: "work", **more)


def go_round(home, spec, stop=lambda: False):
    list(run_round(spec, Executor(home.stores.settings), home.organization, stop))


def meets(error):
    def fail(_):
        raise error

    return fail


@pytest.mark.parametrize("error", [Conflict("it is closed"), ZeroDivisionError("0")])
def test_one_that_fails_is_logged_and_the_next_one_runs(home, error, caplog):
    go_round(home, a_kind(meets(error)))

    assert statuses(home) == [JobStatus.COMPLETE, JobStatus.FAILED]
    [record] = caplog.records
    assert record.getMessage().startswith("work ")
    # What people can mend is a line, what nobody foresaw has a traceback.
    assert bool(record.exc_info) is isinstance(error, ZeroDivisionError)


@pytest.mark.parametrize("error", [Busy("it", "wait"), StaleVersion("entity", "1", 2, 1)])
def test_one_that_waits_for_another_process_is_passed_over(home, error, caplog):
    go_round(home, a_kind(meets(error)))

    assert caplog.records == []
    assert len(waiting(home)) == 1
    assert JobStatus.COMPLETE in statuses(home)


def test_a_world_that_fails_leaves_the_job_waiting_and_the_round_pauses_after_the_others(home):
    with pytest.raises(Unavailable):
        go_round(home, a_kind(meets(Unavailable("the lake", "away"))))

    assert len(waiting(home)) == 1
    assert JobStatus.COMPLETE in statuses(home)


def test_an_error_of_ours_leaves_what_others_gave_us_waiting(home):
    with pytest.raises(ZeroDivisionError):
        go_round(home, a_kind(meets(ZeroDivisionError("0")), waits_after_errors=True))

    assert len(waiting(home)) == 1


def test_a_job_that_ended_although_the_world_failed_ends_no_round(home):
    def end(job_run):
        home.stores.state.jobs.finish(job_run.job, error="away")
        raise Unavailable("the lake", "away")

    go_round(home, a_kind(end))
    assert statuses(home) == [JobStatus.COMPLETE, JobStatus.FAILED]


def test_a_job_that_comes_meanwhile_runs_in_the_same_round(home):
    go_round(home, a_kind(lambda _: add_job(home)))
    assert statuses(home) == [JobStatus.COMPLETE] * 3


def test_none_is_begun_when_the_process_is_to_stop(home):
    ran = run_waiting(home.stores, partial(waiting, home), pytest.fail, lambda: True)
    assert list(ran) == []
    go_round(home, a_kind(meets(ZeroDivisionError("0"))), lambda: True)
    assert len(waiting(home)) == 2
