"""Backfills come to the same, whatever carries their months."""

import pytest

from meterlake.model.errors import Busy, Unavailable
from meterlake.model.values.period import Month, Period
from meterlake.model.work.backfill import BackfillSpec, BackfillStatus, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order, month_tasks, partitions, rederive
from meterlake.pipeline.usage.aggregate import aggregate
from meterlake.stores.fan_out.tasks import TasksFailed
from tests.bills import price_egress
from tests.e2e.backfilling import ID, METER, SEPTEMBER, corrected, prepared
from tests.homes import HEADER, configure, csv_row, open_home
from tests.runners import HEAVY_RUNNERS

WINDOW = Period(SEPTEMBER.start.replace(month=7), SEPTEMBER.end)


def prepare(home):
    """Measurements of three months with quantities, and a derived field that came after them."""
    prepared(home)
    for month, uid in ((7, "j"), (8, "a")):
        rows = [csv_row(f"{uid}{n}", n, ts=f"2026-0{month}-1{n}T00:00:00Z") for n in range(4)]
        home.ingest(f"{uid}.csv", HEADER + "".join(rows))
    price_egress(home)
    for month in (7, 8, 9):
        aggregate(home.organization, Month(2026, month))
    home.ingest("late.csv", HEADER + csv_row("l", 30, ts="2026-08-20T00:00:00Z"))
    configure(home.organization, meters=[METER])


def run_mode(home, mode):
    """A backfill of a mode, applied, reverted and applied again; and all that there is then."""
    found = corrected(home, Order(BackfillSpec(mode, window=WINDOW), "ann", ID))
    quantities = "SELECT period, account_id, quantity::VARCHAR FROM lake.quantity ORDER BY ALL"
    return found, home.measurements(of_source=True), home.query(quantities)


def with_runner(home, runner):
    """The same home, opened with a runner."""
    return open_home(home.stores.home, home.org_id, runner=runner)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", [Mode.REAGGREGATE, pytest.param(Mode.REDERIVE, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("runner", HEAVY_RUNNERS)
def test_backfills_are_the_same_with_any_runner(copies, mode, runner):
    with copies(prepare) as home:
        expected = run_mode(home, mode)
    with copies(prepare) as home, with_runner(home, runner) as other:
        found = run_mode(other, mode)

    assert expected[0]["status"] == "APPLIED"
    assert found == expected


def start(home):
    return backfill.start(
        home.organization, Order(BackfillSpec(Mode.REDERIVE, window=WINDOW), "ann", ID)
    )


@pytest.mark.long
def test_a_month_that_fails_is_named_and_the_others_are_kept(copies, monkeypatch):
    calculate, calls = partitions.calculate_part, []

    def fail_august(found, part):
        calls.append(part[1].month)
        if part[1].month == 8 and len(calls) <= 3:
            raise ZeroDivisionError("no such luck")
        return calculate(found, part)

    monkeypatch.setattr(rederive.partitions, "calculate_part", fail_august)
    with copies(prepare) as home, with_runner(home, "threads") as other:
        with pytest.raises(TasksFailed, match=f"egress 2026-08 of backfill {ID}: ZeroDivision"):
            start(other)
        assert backfill.show(other.organization, ID).status is BackfillStatus.FAILED
        folder = home.organization.lake.folder / "backfills" / ID / "rows"
        notes = [each.name for each in folder.glob("*-2026-*.json")]
        assert sorted(calls) == [7, 8, 9]
        assert len(notes) == 2

        assert start(other).status is BackfillStatus.STAGED


@pytest.mark.long
def test_a_worker_with_another_folder_is_refused(copies, monkeypatch):
    """On another machine a note may be written that the run never sees."""
    monkeypatch.setattr(rederive.partitions, "calculate_part", lambda *_: "elsewhere.json")
    with copies(prepare) as home, with_runner(home, "threads") as other:
        with pytest.raises(Unavailable, match="give all workers the folder of the lake"):
            start(other)
        assert backfill.show(other.organization, ID).status is BackfillStatus.STAGING


@pytest.mark.long
def test_a_task_of_another_snapshot_calculates_nothing(copies):
    with copies(prepare) as home:
        staged = start(home)
        with pytest.raises(Busy, match="begun again from another snapshot"):
            month_tasks.open_job(home.organization, ID, staged.snapshot + 1)
