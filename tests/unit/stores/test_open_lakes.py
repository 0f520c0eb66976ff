"""Only some lakes are open at a time, and none is closed that somebody uses."""

import shutil
from contextlib import ExitStack

import pytest

from meterlake.stores import open_stores
from meterlake.stores.lake.backends.location import open_lake
from tests.homes import settings
from tests.organizations import prepare_home

NAMES = ("a", "b", "c", "d")


@pytest.fixture
def stores(tmp_path):
    options = settings(tmp_path / "home", lakes_open=2)
    prepare_home(options.home)
    lake = open_lake(options, NAMES[0])
    lake.create()
    lake.close()
    for name in NAMES[1:]:
        shutil.copytree(lake.folder, lake.folder.parent / name)
    with open_stores(options) as opened:
        yield opened


def is_open(lake):
    return lake._reader is not None or lake._writer is not None


def test_those_that_were_used_last_stay_open(stores):
    lakes = {}
    for name in NAMES:
        lakes[name] = stores.lake(name)
        lakes[name].snapshot()

    assert [is_open(each) for each in lakes.values()] == [False, False, True, True]
    assert stores.lake("d") is lakes["d"]


@pytest.mark.long
def test_one_that_was_closed_can_be_used_again(stores):
    first = stores.lake("a")
    before = first.snapshot()
    for name in NAMES[1:]:
        stores.lake(name).snapshot()
    assert not is_open(first)

    assert first.snapshot() == before
    assert stores.lake("a").snapshot() == before
    first.close()


def test_one_that_is_read_written_or_locked_is_not_closed(stores):
    with ExitStack() as uses:
        connection = uses.enter_context((read := stores.lake("a")).reader())
        uses.enter_context((written := stores.lake("b")).lock())
        uses.enter_context(written.transaction())
        uses.enter_context((locked := stores.lake("c")).lock())
        locked.snapshot()
        for name in (*NAMES, *NAMES):
            stores.lake(name)

        assert all(is_open(each) for each in (read, written, locked))
        assert connection.execute("SELECT count(*) FROM lake.source").fetchone() == (0,)
    stores.lake("d")

    assert not is_open(read)
    assert not is_open(written)


def test_those_that_nobody_used_for_a_while_are_closed(stores):
    old, new = stores.lake("a"), stores.lake("b")
    old.snapshot()
    new.snapshot()
    stores._lakes_used["a"] -= 3600

    stores.close_unused_lakes()

    assert (is_open(old), is_open(new)) == (False, True)
