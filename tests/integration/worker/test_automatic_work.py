"""What the worker and Prefect do by themselves is what `serve` prints, and obeys organizations."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.schedules import DEPLOYMENTS, _served
from meterlake.model.bills.jobs import KIND
from meterlake.model.work.automatic_work import AUTOMATIC_WORK
from meterlake.settings import Settings
from meterlake.worker.flow_runs import Executor
from meterlake.worker.rounds import ROUNDS, RUNNERS, SCHEDULES, Loop, rounds_of, submit_schedules
from tests.bills import a_home_to_bill
from tests.homes import configure

PLAIN = Settings(home=Path("home"), _env_file=None)


def test_each_round_of_the_worker_is_printed_with_its_pace():
    printed = {each.name: each.when for each in AUTOMATIC_WORK if not each.needs_prefect}
    rounds = {each.key: each.every for each in ROUNDS if each not in {RUNNERS, SCHEDULES}}
    # One round looks for both.
    rounds |= dict.fromkeys(("scheduled-bills", "scheduled-exports"), SCHEDULES.every)
    paces = {
        name: every if isinstance(every, float) else every(PLAIN) for name, every in rounds.items()
    }

    assert printed == {name: f"every {pace:g} s" for name, pace in paces.items()}


def test_each_schedule_of_prefect_is_printed_with_its_time():
    printed = {each.name: each.when for each in AUTOMATIC_WORK if each.needs_prefect}
    assert printed == {
        each.name: each.cron for each in DEPLOYMENTS if each.cron and not each.worked
    }


def test_nothing_bills_or_closes_a_month_by_a_schedule_that_no_organization_made():
    flows = {each.flow for each in DEPLOYMENTS if each.cron}
    assert flows.isdisjoint({"bill", "close_month"})


@pytest.mark.parametrize(("without", "cron"), [((), "15 5 * * *"), (("verify",), None)])
def test_a_schedule_of_prefect_is_switched_off_by_name(without, cron):
    [verify] = [each for each in DEPLOYMENTS if each.name == "verify"]

    served = _served(verify, Path("home"), without)

    # It can still be started by hand.
    assert served.name == "verify"
    assert [each.schedule.cron for each in served.schedules] == ([cron] if cron else [])


def test_a_round_of_the_worker_is_switched_off_by_name():
    settings = PLAIN.model_copy(update={"without": ("lost-segments", "verify")})
    assert {each.name for each in ROUNDS} - {each.name for each in rounds_of(settings)} == {
        "lost segments"
    }


@pytest.mark.parametrize(
    ("interval", "without", "jobs"),
    [(0, (), 0), (1, (), 1), (1, ("scheduled-bills",), 0), (1, ("scheduled-exports",), 1)],
)
def test_bills_by_a_schedule_are_those_of_organizations_that_want_them(
    tmp_path, interval, without, jobs
):
    with a_home_to_bill(tmp_path) as home:
        home.stores.settings = home.stores.settings.model_copy(update={"without": without})
        home.clock.time = datetime(2027, 1, 1, 0, 5, tzinfo=UTC)
        fields = {"daysBeforeBillDue": 14, "scheduledBillInterval": interval}
        configure(home.organization, organizationConfig=fields)
        home.clock.advance(hours=1)
        loop = Loop(home.stores, Executor(home.stores.settings), lambda: False)

        list(submit_schedules(loop, home.organization, lambda: False))

        assert len(home.stores.state.jobs.waiting(home.org_id, KIND)) == jobs
