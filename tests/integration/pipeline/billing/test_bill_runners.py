"""Bills are the same to the byte, whatever carries the buckets of accounts."""

from dataclasses import replace

import pytest

from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.jobs import bucket_tasks
from meterlake.pipeline.billing.jobs.jobs import bill, cancel, create, run_bill_job
from meterlake.pipeline.jobs.attempt import Cancelled
from meterlake.stores.fan_out.tasks import TasksFailed
from meterlake.stores.state import JobStatus
from meterlake.stores.state.billing.bills import bills
from tests.bills import a_home_to_bill, refuse_bills, subscribe, use
from tests.databases import copy_home
from tests.homes import configure, open_home
from tests.runners import RUNNERS

SEPTEMBER = Month(2026, 9)


def fill(home):
    """A family in one pool, a commitment, an account that cannot be billed, one that is gone."""
    address = {"emailAddress": "a@b.example", "parentAccountId": "acme"}
    children = [{"code": code, "name": code, **address} for code in ("zoe", "anna")]
    others = [{"code": f"c{n}", "name": f"C{n}", "emailAddress": "c@d.example"} for n in range(6)]
    configure(home.organization, accounts=[*children, *others])
    subscribe(home, "anna", start="2026-09-20T00:00:00Z")
    subscribe(home, *(each["code"] for each in others))
    use(home, ("5", "zoe", 7), ("6", "anna", 9), *((f"c{n}", f"c{n}", n) for n in range(6)))
    of_bolt = {"accountId": "bolt", "startDate": "2026-09-10", "endDate": "2026-12-01"}
    commitments = [{**of_bolt, "currency": "USD", "amount": 50}]
    configure(home.organization, commitments=commitments)
    refuse_bills(home, "c3")


@pytest.fixture(scope="module")
def template(tmp_path_factory, lake_location):
    del lake_location  # It is made again where the lakes are elsewhere.
    with a_home_to_bill(tmp_path_factory.mktemp("billed")) as home:
        fill(home)
        return home.stores.home, home.org_id


@pytest.fixture
def opened(template, tmp_path, monkeypatch):
    """Opens copies of the home, with a runner or without one."""
    monkeypatch.setattr(bucket_tasks, "_LEAST", 1)
    path, org_id = template

    def open_copy(runner, workers=2):
        target = copy_home(path, tmp_path / f"{runner}".replace("/", "-"))
        return open_home(target, org_id, runner=runner, runner_workers=workers)

    return open_copy


def stored(home):
    """All that is stored of bills, but for their ids and those of their calculations."""
    with home.organization.reading() as reader:
        found = [(each.status, each.content) for each in bills.of_period(reader)]
    return sorted((each, repr(replace(content, calculation_id=None))) for each, content in found)


def shown(result):
    """What a run answers, in its order, but for the ids."""
    return (
        [replace(each, bill_id="") for each in result.bills],
        result.failures,
        result.unpriced,
        list(result.without),
        result.totals,
    )


@pytest.mark.slow
@pytest.mark.parametrize("runner", RUNNERS)
def test_bills_are_the_same_with_any_runner(opened, runner):
    with opened(None) as home:
        expected, listed = shown(bill(home.organization, SEPTEMBER)), stored(home)
    with opened(runner) as home:
        result = bill(home.organization, SEPTEMBER)
        job = home.stores.state.jobs.get(result.job_id)

        assert len(listed) == 7
        assert stored(home) == listed
        assert shown(result) == expected
        assert [each.account_code for each in result.failures] == ["c3"]
        assert (job.status, job.progress["pending"]) == (JobStatus.COMPLETE, 0)


@pytest.mark.long
def test_a_changed_configuration_is_not_mixed_into_a_run(opened, monkeypatch):
    """The run itself makes the buckets of which a task would read something newer."""
    with opened(None) as home:
        expected = shown(bill(home.organization, SEPTEMBER))
    with opened("threads") as home:
        run_tasks = bucket_tasks.run_tasks
        ended = []

        def change_first(stores, runner, tasks, note):
            new = [{"code": "new", "name": "New", "emailAddress": "n@n.example"}]
            configure(home.organization, accounts=new)
            ended.extend(run_tasks(stores, runner, tasks, note))
            return ended

        monkeypatch.setattr(bucket_tasks, "run_tasks", change_first)
        result = bill(home.organization, SEPTEMBER)

        assert ended == [None] * 2
        assert shown(result) == expected


@pytest.mark.long
def test_a_bucket_that_fails_is_named_and_the_others_are_billed(opened, monkeypatch):
    make = bucket_tasks.make_bucket

    def fail_second(run, reading, number, result):
        if number == 1:
            raise ZeroDivisionError("no such luck")
        return make(run, reading, number, result)

    monkeypatch.setattr(bucket_tasks, "make_bucket", fail_second)
    with opened("threads") as home:
        code = home.stores.state.organization(home.org_id).code
        with pytest.raises(TasksFailed, match=rf"bucket 2 of 2 of {code}: ZeroDivisionError"):
            bill(home.organization, SEPTEMBER)
        assert 0 < len(stored(home)) < 7
        monkeypatch.undo()
        monkeypatch.setattr(bucket_tasks, "_LEAST", 1)
        again = bill(home.organization, SEPTEMBER)
        assert {each.stored.value for each in again.bills} == {"created", "unchanged"}
        assert len(stored(home)) == 7


def test_a_bucket_of_an_older_attempt_stores_nothing(opened, monkeypatch):
    """A task that comes late, after the job was cancelled or begun again, changes nothing."""
    with opened("threads") as home:
        create(home.organization, "ann", {"billDate": "2026-10-01"})
        [job] = home.stores.state.jobs.waiting(home.org_id, "bill")

        def cancel_first(stores, runner, tasks, note):
            cancel(stores.organization(home.org_id), job.id)
            return bucket_tasks_run(stores, runner, tasks, note)

        bucket_tasks_run = bucket_tasks.run_tasks
        monkeypatch.setattr(bucket_tasks, "run_tasks", cancel_first)
        with pytest.raises(Cancelled):
            run_bill_job(home.stores, job.id)
        assert stored(home) == []


def test_a_wrong_runner_gets_the_nearest_word(opened):
    with pytest.raises(Invalid, match="did you mean processes"), opened("proceses") as home:
        bill(home.organization, SEPTEMBER)


@pytest.mark.slow
def test_a_scheduler_that_is_not_there_changes_nothing(opened):
    with opened("dask://127.0.0.1:9") as home:
        with pytest.raises(
            Unavailable, match=r"dask://127\.0\.0\.1:9 is unavailable: it cannot be"
        ):
            bill(home.organization, SEPTEMBER)
        assert stored(home) == []
