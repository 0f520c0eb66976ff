"""Backfills of several machines that share State and a lake in a bucket: any goes on with any."""

from contextlib import ExitStack

import pytest

from meterlake.model.errors import Busy, Conflict
from meterlake.model.work.backfill import BackfillSpec, BackfillStatus, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order, background
from meterlake.pipeline.backfill.background import BackfillAction
from meterlake.pipeline.backfill.job import lock_backfill
from meterlake.stores import open_stores
from meterlake.stores.lake.backends.location import open_lake_objects
from tests.e2e.backfilling import DATA, ID, METER, NEW, SEPTEMBER
from tests.e2e.remote_homes import installation
from tests.homes import HEADER, Home, configure, csv_row
from tests.organizations import Clock

pytestmark = pytest.mark.slow
MODES = [Mode.RETRACT, Mode.REDERIVE, Mode.REAGGREGATE, Mode.REPLACE]


@pytest.fixture
def machines(tmp_path, postgresql, s3_lakes):
    """Two machines, with a home each; only PostgreSQL and the bucket are shared."""
    with installation(tmp_path, postgresql, s3_lakes) as made, ExitStack() as opened:
        org_id, clock = made.initialize().org_id, Clock()
        homes = [
            Home(opened.enter_context(open_stores(made.machine(name), now=clock)), org_id, clock)
            for name in ("first", "second")
        ]
        homes[0].ingest("a.csv", DATA)
        yield homes


def order_of(home, mode, content=NEW):
    """A backfill of a mode that changes something."""
    if mode is Mode.RETRACT:
        [[source]] = home.query("SELECT DISTINCT identity FROM lake.source WHERE name = 'a.csv'")
        return Order(BackfillSpec(mode, "wrong", source=source), "ann", ID)
    if mode is not Mode.REPLACE:
        return Order(BackfillSpec(mode, window=SEPTEMBER), "ann", ID)
    path = home.stores.home / "new.csv"
    path.write_text(content)
    spec = BackfillSpec(mode, window=SEPTEMBER, files=("new.csv",))
    return Order(spec, "ann", ID, [path])


def prepare(home, mode):
    if mode is Mode.REDERIVE:
        configure(home.organization, meters=[METER])


def start(home, mode, content=NEW):
    prepare(home, mode)
    return backfill.start(home.organization, order_of(home, mode, content))


def apply(home):
    return backfill.apply(home.organization, ID, "ann")


def revert(home):
    return backfill.revert(home.organization, ID, "ann")


def objects(home):
    store = open_lake_objects(home.stores.settings, home.org_id, "backfills")
    return [info.key for info in store.list()]


def values(home):
    return sorted(home.measurements(), key=str)


@pytest.mark.parametrize("mode", MODES)
def test_what_one_machine_staged_another_applies_and_the_first_reverts(machines, mode):
    first, second = machines
    before = values(first)

    assert start(first, mode).status is BackfillStatus.STAGED
    assert apply(second).status is BackfillStatus.APPLIED
    changed = values(first)
    assert revert(first).status is BackfillStatus.REVERTED

    if mode is not Mode.REAGGREGATE:
        assert changed != before
    assert [row[:5] for row in values(second)] == [row[:5] for row in before]


def test_the_files_that_one_machine_was_given_are_staged_by_the_worker_of_another(machines):
    first, second = machines
    background.submit_start(first.organization, order_of(first, Mode.REPLACE))
    [job] = second.stores.state.jobs.waiting(second.org_id, background.KIND)

    assert background.run_step(second.stores, job.id).status is BackfillStatus.STAGED
    background.submit_step(first.organization, ID, BackfillAction.APPLY, "ann")
    [job] = first.stores.state.jobs.waiting(first.org_id, background.KIND)
    assert background.run_step(first.stores, job.id).status is BackfillStatus.APPLIED
    assert [uid for uid, *_ in second.uids()] == ["n1", "u1"]


def test_files_given_to_another_machine_take_the_place_of_those_that_were_staged(machines):
    first, second = machines
    start(second, Mode.REPLACE)
    other = HEADER + csv_row("other", 1)

    backfill.note(first.organization, order_of(first, Mode.REPLACE, other))
    with pytest.raises(
        Conflict, match=r"is not staged on machine '.*' staged is out of date: start"
    ):
        apply(second)
    backfill.restart(second.organization, ID, "ann")
    apply(second)

    assert [uid for uid, *_ in first.uids()] == ["other"]


def test_what_another_machine_staged_anew_is_applied_and_not_what_lies_here(machines):
    first, second = machines
    start(first, Mode.RETRACT)
    first.ingest("b.csv", HEADER + csv_row("v1", 7, account="bolt"))
    backfill.restart(second.organization, ID, "ann")

    assert apply(first).status is BackfillStatus.APPLIED
    assert [uid for uid, *_ in second.uids()] == ["v1"]


def test_a_backfill_without_a_copy_is_refused_with_the_name_of_the_machine(machines):
    first, second = machines
    start(first, Mode.RETRACT)
    store = open_lake_objects(first.stores.settings, first.org_id, "backfills")
    for key in objects(first):
        store.delete(key)

    with pytest.raises(
        Conflict, match=r"'the-backfill' is not staged on machine '.+': start it again"
    ):
        apply(second)
    assert backfill.restart(second.organization, ID, "ann").status is BackfillStatus.STAGED
    assert apply(second).status is BackfillStatus.APPLIED


def test_machines_keep_each_other_out_of_one_backfill(machines):
    first, second = machines
    with (
        lock_backfill(first.organization, ID),
        pytest.raises(Busy, match="a process of another machine works on it"),
    ):
        start(second, Mode.RETRACT)
    assert start(second, Mode.RETRACT).status is BackfillStatus.STAGED


def test_a_dropped_backfill_leaves_nothing_in_the_bucket(machines):
    first, second = machines
    start(first, Mode.REPLACE)
    assert objects(first)

    backfill.drop(second.organization, ID, "ann")

    assert objects(first) == []
