"""kill -9 at every step of aggregation and billing, and once more at every step of who goes on.

A month has its old quantities or its new ones, never some of both; an account has one bill for a
period, as it was or as it becomes; and whoever died, the end is that of the undisturbed run.
"""

import pytest

from tests.databases import copy_home
from tests.e2e.billing import prepared
from tests.e2e.crashing import zygote
from tests.e2e.lives import Lives, marked
from tests.every_lake import IN_S3_TOO
from tests.homes import new_home, open_home

pytestmark = [IN_S3_TOO, pytest.mark.slow]
_MADE = ("pipeline/billing/calculation/reading.py", "pipeline/billing/run.py")
SOURCES = {
    "aggregated": ("stores/lake/quantities.py", "stores/lake/lake.py"),
    "billed": _MADE,
    "billed_by_jobs": (*_MADE, "pipeline/billing/jobs/jobs.py"),
}
# Where files of aggregations come into the lake.
FILES = {
    "folder": "stores/lake/backends/data_files.py",
    "s3": "stores/lake/backends/bucket_files.py",
}
# Who makes bills here and now has a job, too, which nobody takes.
OF_THE_JOB = {"billed": {"bill.submitted", "bill.finished"}}
# Tasks one after the other, so that each life has the same steps.
IN_TURN = {"runner": "threads", "runner_workers": "1"}
ALL = pytest.mark.parametrize("work", SOURCES)
# What is seen before somebody goes on is the only thing that may differ.
ALIKE = ("measurements", "uids", "ledger", "accounts", "events", "runs", "bills", "bill events")


@pytest.fixture(scope="module")
def processes(lake_location):  # noqa: ARG001
    with zygote() as parent:
        yield parent


@pytest.fixture(scope="module")
def lives(processes, tmp_path_factory):
    """The lives of one home, by what is done in them."""
    folder = tmp_path_factory.mktemp("billing")
    org_id = new_home(folder / "billed" / "template")
    with open_home(folder / "billed" / "template", org_id) as opened:
        prepared(opened)
    for work in (*SOURCES.keys() - {"billed"}, "billed_by_tasks"):
        copy_home(folder / "billed" / "template", folder / work / "template")
    return {
        work: Lives(
            *(processes, folder / work / "template", org_id, f"tests.e2e.billing:{work}"),
            **(IN_TURN if work == "billed_by_tasks" else {}),
        )
        for work in (*SOURCES, "billed_by_tasks")
    }


def alike(lives):
    return [name for name in ALIKE if name in lives.undisturbed["state"]]


@pytest.mark.slow
@ALL
def test_the_work_meets_every_step_that_the_source_marks(lives, work, lake_location):
    steps = marked(*SOURCES[work]) | OF_THE_JOB.get(work, set())
    if work == "aggregated":
        steps |= marked(FILES[lake_location])

    assert steps == set(lives[work].undisturbed["reached"])


def test_a_month_has_the_old_run_or_the_new_one_whoever_dies_around_the_commit(lives):
    """At the last time of these steps: the second month's; the first one has its new run."""
    quantities = lives["aggregated"]
    old, new = (quantities.undisturbed["state"][name] for name in ("seen", "runs"))
    around = quantities.last_steps("lake.before_commit", "lake.after_commit")

    # Of acme and, in September, of bolt, two quantities each; then of who came later, too.
    assert [len(rows) for rows in new] == [2, 2, 4, 6]
    assert old == [new[0], new[2]]
    before, after = quantities.ends(around)
    assert before["seen"] == new[:3]
    assert after["seen"] == new
    assert {**before, "seen": old} == {**after, "seen": old} == quantities.undisturbed["state"]


def test_each_bill_is_as_it_was_or_as_it_becomes_whoever_dies_between_two(lives):
    """The second of four bills that change: 1 USD a gigabyte, 31 USD a month."""
    billing = lives["billed"]
    old, new = (billing.undisturbed["state"][name] for name in ("seen", "bills"))
    [state] = billing.ends(billing.every_step("bill.stored")[1:2])

    assert [[*bill[:3], bill[4]] for bill in new] == [
        ["acme", "2026-08", 2, "43"],
        ["acme", "2026-09", 2, "131"],
        ["bolt", "2026-08", 1, "31"],
        ["bolt", "2026-09", 1, "33.5"],
        ["newcomer", "2026-08", 1, "31"],
        ["newcomer", "2026-09", 1, "32"],
    ]
    assert state["seen"] not in (old, new)
    assert all(bill in old or bill in new for bill in state["seen"])
    assert {**state, "seen": old} == billing.undisturbed["state"]


@pytest.mark.slow
def test_a_job_whose_worker_dies_is_ended_by_the_next_one_with_the_same_bills(lives):
    by_jobs, billing = lives["billed_by_jobs"], lives["billed"]
    state = by_jobs.undisturbed["state"]
    assert state["bills"] == billing.undisturbed["state"]["bills"]
    assert (state["jobs"], state["made"]) == ([["COMPLETE", 0]] * 2, [True, True])

    steps = ("bill.submitted", "bill.taken", "bill.folded", "bill.stored", "bill.finished")
    assert (
        by_jobs.broken(by_jobs.last_steps(*steps), [*alike(by_jobs), "job events", "jobs", "made"])
        == []
    )


@pytest.mark.slow
def test_a_job_dies_between_two_tasks_and_the_next_attempt_has_the_same_bills(lives):
    tasks = lives["billed_by_tasks"]
    names = tasks.undisturbed["reached"]

    assert names.count("bill.bucket_done") > 2
    assert tasks.undisturbed["state"]["bills"] == lives["billed"].undisturbed["state"]["bills"]
    assert tasks.broken(tasks.every_step("bill.bucket_done"), [*alike(tasks), "jobs", "made"]) == []


@pytest.mark.slow
@ALL
def test_no_crash_at_any_step_leaves_a_half_or_changes_the_end(lives, work, lake_location):
    steps = lives[work].chosen_steps(lake_location, "")
    state = lives[work].undisturbed["state"]
    old, new = state["seen"], state["runs" if work == "aggregated" else "bills"]

    for end in lives[work].ends(steps):
        assert all(each in old or each in new for each in end["seen"])
        assert {**end, "seen": old} == state


@pytest.mark.slow
@ALL
def test_no_two_crashes_change_the_end(lives, work, lake_location):
    pairs = lives[work].some_pairs(12 if lake_location == "folder" else 5)

    assert lives[work].broken(pairs, alike(lives[work])) == []
