"""The folders and locks of backfills: each has a row first, and ids do not get in each other's way."""

import os
import shutil
from uuid import uuid4

import pytest

from meterlake.model.errors import Conflict, Invalid, NotFound
from meterlake.model.values import failpoint
from meterlake.model.work.backfill import BackfillSpec, BackfillStatus, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.maintenance.maintain import maintain
from tests.homes import HEADER, csv_row
from tests.integration.pipeline.backfill.test_rederive import prepare as derivable
from tests.integration.pipeline.backfill.test_replace import NEW, SEPTEMBER, lake, prepare

LONG_AGO = (1_000_000_000, 1_000_000_000)


@pytest.fixture(scope="module")
def home(copies):
    with copies(prepare) as home:
        yield home


@pytest.fixture
def dying(monkeypatch):
    """Makes the process die at a step."""

    def at(step):
        monkeypatch.setattr(failpoint, "hook", lambda name: 1 // (name != step))

    yield at
    monkeypatch.setattr(failpoint, "hook", None)


def replacement(home, id):
    path = home.stores.home / f"{id}.csv"
    path.write_text(NEW)
    return Order(
        BackfillSpec(Mode.REPLACE, window=SEPTEMBER, files=(path.name,)), "ann", id, [path]
    )


def old(folder):
    for path in [*folder.rglob("*"), folder]:
        os.utime(path, LONG_AGO)


def test_the_row_comes_before_the_folder(home, dying, monkeypatch):
    id_ = uuid4().hex
    dying("backfill.noted")
    with pytest.raises(ZeroDivisionError):
        backfill.start(home.organization, replacement(home, id_))
    monkeypatch.setattr(failpoint, "hook", None)

    assert backfill.show(home.organization, id_).status is BackfillStatus.STAGING
    assert not (home.organization.lake.folder / "backfills" / id_).exists()
    # Without its files it cannot go on; with them it does.
    with pytest.raises(Conflict, match="give them again"):
        backfill.restart(home.organization, id_, "ann")
    found = backfill.start(home.organization, replacement(home, id_))
    assert found.status is BackfillStatus.STAGED


def test_of_files_that_are_not_there_nothing_is_written_down(home):
    order = replacement(home, "never")
    order.files[0].unlink()

    with pytest.raises(Invalid, match="a file that is there"):
        backfill.start(home.organization, order)

    with pytest.raises(NotFound):
        backfill.show(home.organization, "never")


@pytest.mark.long
def test_upkeep_removes_old_folders_without_a_row_and_no_others(home):
    id_ = uuid4().hex
    backfill.start(home.organization, replacement(home, id_))
    folder = home.organization.lake.folder / "backfills"
    shutil.copytree(folder / id_, folder / "nobody")
    shutil.copytree(folder / id_, folder / "young")
    for name in (id_, "nobody", ".locks"):
        old(folder / name)

    maintain(home.organization)

    assert not (folder / "nobody").exists()
    assert (folder / "young").exists()
    assert (folder / ".locks").exists()
    found = backfill.apply(home.organization, id_, "ann")
    assert found.status is BackfillStatus.APPLIED
    backfill.revert(home.organization, id_, "ann")


@pytest.mark.long
def test_an_id_may_end_like_a_lock(home):
    before = lake(home)
    wanted = BackfillSpec(Mode.RETRACT, "wrong", uids=("a1",))
    orders = [Order(wanted, "ann", id_) for id_ in ("b", "b.lock")]
    for order in [*orders, *orders]:
        found = backfill.start(home.organization, order)
        assert found.status is BackfillStatus.STAGED
    backfill.drop(home.organization, "b.lock", "ann")
    backfill.apply(home.organization, "b", "ann")
    backfill.revert(home.organization, "b", "ann")
    assert lake(home) == before


@pytest.mark.long
def test_after_a_failure_no_other_partition_begins(copies, monkeypatch):
    with copies(derivable) as home:
        months = [f"{2000 + n // 12}-{n % 12 + 1:02}-02T00:00:00Z" for n in range(60)]
        home.ingest("m.csv", HEADER + "".join(csv_row(f"m{t}", ts=t) for t in months))
        begun = []

        def hook(name):
            if name == "backfill.partition_done":
                begun.append(name)
                raise ZeroDivisionError

        monkeypatch.setattr(failpoint, "hook", hook)
        window = type(SEPTEMBER)(SEPTEMBER.start.replace(year=1999), SEPTEMBER.end)
        order = Order(BackfillSpec(Mode.REDERIVE, window=window), "ann", "d")
        with pytest.raises(ZeroDivisionError):
            backfill.start(home.organization, order)
        monkeypatch.setattr(failpoint, "hook", None)

    assert 0 < len(begun) < 30
