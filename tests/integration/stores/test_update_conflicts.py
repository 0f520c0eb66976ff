"""Two connections of DuckDB that change a row at the same time: one of them tries again, later."""

import duckdb
import pytest

from meterlake.model.bills.jobs import BillOrder
from meterlake.model.errors import Unavailable
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs.jobs import submit_order
from meterlake.pipeline.jobs.attempt import Patience, running
from meterlake.stores.lake.connection import translate_errors
from tests.homes import a_home

COUNT = "UPDATE counter SET n = n + 1"


@pytest.fixture
def attempt(tmp_path):
    """An attempt at a job, which may try what depends on the world again."""
    with a_home(tmp_path) as home:
        jobs = home.stores.state.jobs
        with home.organization.transaction("test") as transaction:
            job = submit_order(transaction, BillOrder(days=Month(2026, 9)), 0)
        with running(jobs, jobs.get(job.id)) as found:
            yield found


@pytest.fixture
def counter():
    """Two connections to a table of one row, in the first of which a change waits for its commit."""
    with duckdb.connect() as first, first.cursor() as second:
        first.execute("CREATE TABLE counter AS SELECT 0 AS n")
        first.execute(f"BEGIN; {COUNT}")
        yield first, second


def repeat(work, attempt, tries):
    for trial in Patience(attempt, tries, 0.001):
        with trial:
            work()


def test_a_change_that_met_another_is_made_when_that_is_through(attempt, counter):
    first, second = counter
    tries = []

    def count():
        tries.append(attempt.job.progress.get("trouble"))
        if len(tries) == 3:
            first.execute("COMMIT")
        with translate_errors():
            second.execute(COUNT)

    repeat(count, attempt, 4)

    assert len(tries) == 3
    assert "Conflict on update" in tries[1]
    assert second.execute("FROM counter").fetchall() == [(2,)]


def test_a_change_that_meets_another_each_time_is_given_up_and_not_made(attempt, counter):
    first, second = counter

    def count():
        with translate_errors():
            second.execute(COUNT)

    with pytest.raises(Unavailable, match="Conflict on update"):
        repeat(count, attempt, 3)

    first.execute("COMMIT")
    assert first.execute("FROM counter").fetchall() == [(1,)]
