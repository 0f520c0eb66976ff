"""Files of lakes on their way: sent once, read back, and no damage goes unseen."""

import pytest

from meterlake.model.errors import CannotMove
from meterlake.model.values import failpoint
from meterlake.stores.lake.moves.file_copies import FileCopies
from meterlake.stores.objects.local import LocalObjects

FILES = {"main/a/1.parquet": b"one", "main/a/year=2026/2.parquet": b"second"}
SIZES = {key: len(data) for key, data in FILES.items()}


@pytest.fixture
def stores(tmp_path):
    source, target = LocalObjects(tmp_path / "source"), LocalObjects(tmp_path / "target")
    for key, data in FILES.items():
        source.put_bytes(key, data)
    return source, target


def copies(stores, tmp_path) -> FileCopies:
    return FileCopies(*stores, tmp_path / "scratch", 2)


def sent(found: FileCopies) -> dict[str, bool]:
    return {key: copy.sent for key, copy in found.done.items()}


def test_files_that_are_there_are_not_sent_again(stores, tmp_path):
    first, second = copies(stores, tmp_path), copies(stores, tmp_path)
    first.copy(dict(list(SIZES.items())[:1]), may_vanish=False)
    second.copy(SIZES, may_vanish=False)
    second.check(SIZES)

    assert sent(first) == {"main/a/1.parquet": True}
    assert sent(second) == {"main/a/1.parquet": False, "main/a/year=2026/2.parquet": True}
    assert {each.key: stores[1].get(each.key) for each in stores[1].list()} == FILES


@pytest.mark.parametrize("damage", [b"oNe", b"on", b""])
def test_a_file_that_is_damaged_on_the_way_is_found(stores, tmp_path, monkeypatch, damage):
    def spoil(step: str) -> None:
        assert step == "move.file_sent"
        stores[1].put_bytes("main/a/1.parquet", damage)

    with monkeypatch.context() as patch:
        patch.setattr(failpoint, "hook", spoil)
        with pytest.raises(CannotMove, match=r"1\.parquet did not arrive as it was sent"):
            copies(stores, tmp_path).copy({"main/a/1.parquet": 3}, may_vanish=False)

    again = copies(stores, tmp_path)
    again.copy(SIZES, may_vanish=False)
    assert sent(again)["main/a/1.parquet"]
    assert stores[1].get("main/a/1.parquet") == b"one"


def test_a_file_that_is_not_what_the_catalog_says_is_found(stores, tmp_path):
    with pytest.raises(CannotMove, match="has 3 bytes, and 4 by the catalog"):
        copies(stores, tmp_path).copy({"main/a/1.parquet": 4}, may_vanish=False)

    assert list(stores[1].list()) == []


def test_a_file_that_is_missing_is_found_unless_it_may_be(stores, tmp_path):
    found = copies(stores, tmp_path)
    found.copy({"main/gone.parquet": 3}, may_vanish=True)
    found.copy({"main/replaced.parquet": None}, may_vanish=False)
    with pytest.raises(CannotMove, match=r"gone\.parquet is missing"):
        found.copy({"main/gone.parquet": 3}, may_vanish=False)

    assert found.done == {}


def test_a_file_that_changes_after_its_copy_is_found(stores, tmp_path):
    found = copies(stores, tmp_path)
    found.copy(SIZES, may_vanish=False)
    stores[1].put_bytes("main/a/1.parquet", b"longer")

    with pytest.raises(CannotMove, match="is not there as it was copied"):
        found.check(SIZES)
