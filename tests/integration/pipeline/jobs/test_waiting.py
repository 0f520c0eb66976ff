"""What a job that fails means to those that wait behind it."""

import pytest

from meterlake.model.errors import Busy, Conflict, StaleVersion, Unavailable
from meterlake.model.jobs import JobKind
from meterlake.pipeline.jobs.waiting import run_waiting
from meterlake.stores.state import Job
from meterlake.stores.state.jobs import submit
from tests.homes import a_home

KIND = JobKind.STATEMENT


@pytest.fixture
def home(tmp_path):
    """A home where two jobs wait."""
    with a_home(tmp_path) as home:
        for _ in range(2):
            with home.stores.state.transaction(home.org_id, "ann") as transaction:
                made = {"id": transaction.new_id(), "created": transaction.now, "parameters": {}}
                job = Job(org_id=home.org_id, kind=KIND, author="ann", **made)
                submit(transaction.connection, job)
        yield home


def waiting(home):
    return home.stores.state.jobs.waiting(home.org_id, KIND)


def places_of(home, first):
    """The places of the jobs that ran, and of those that were noted, if the first one does this."""
    ran, noted, jobs = [], [], waiting(home)

    def run(job):
        ran.append(job)
        if len(ran) == 1:
            first(job)

    run_waiting(home.stores, jobs, lambda: False, run, lambda job: f"work {job.id}", noted.append)
    return [jobs.index(job) for job in ran], [jobs.index(job) for job in noted]


def meets(error):
    def fail(_):
        raise error

    return fail


@pytest.mark.parametrize("error", [Conflict("it is closed"), ZeroDivisionError("0")])
def test_one_that_fails_is_logged_and_the_next_one_runs(home, error, caplog):
    assert places_of(home, meets(error)) == ([0, 1], [0, 1])
    [record] = caplog.records
    assert record.getMessage().startswith("work ")
    # What people can mend is a line, what nobody foresaw has a traceback.
    assert bool(record.exc_info) is isinstance(error, ZeroDivisionError)


@pytest.mark.parametrize("error", [Busy("it", "wait"), StaleVersion("job", "1", 2, 1)])
def test_one_that_another_process_has_is_passed_over(home, error, caplog):
    assert places_of(home, meets(error)) == ([0, 1], [1])
    assert caplog.records == []


def test_a_world_that_fails_ends_the_round(home):
    with pytest.raises(Unavailable):
        places_of(home, meets(Unavailable("the lake", "away")))


def test_a_job_that_ended_although_the_world_failed_ends_no_round(home):
    jobs = home.stores.state.jobs

    def end(job):
        jobs.finish(jobs.take(job.id, None), error="away")
        raise Unavailable("the lake", "away")

    assert places_of(home, end) == ([0, 1], [0, 1])


def test_none_is_begun_when_the_process_is_to_stop(home):
    run_waiting(home.stores, waiting(home), lambda: True, pytest.fail, str)
    assert len(waiting(home)) == 2
