"""Files that appear whole or not at all, and errors of the disk that are ours."""

import pytest

from meterlake.model.errors import Unavailable
from meterlake.stores.files.durable import disk, make_folder, move, sync, write_durably


def test_a_written_file_appears_whole(tmp_path):
    target = tmp_path / "new" / "folder" / "a.json"

    with write_durably(target) as temporary:
        temporary.write_text("x")
        assert not target.exists()

    assert target.read_text() == "x"
    assert [path.name for path in target.parent.iterdir()] == ["a.json"]


def test_a_written_file_replaces_the_old_one(tmp_path):
    target = tmp_path / "a"
    target.write_text("old")

    with write_durably(target) as temporary:
        temporary.write_text("new")

    assert target.read_text() == "new"


def test_a_file_whose_writing_fails_leaves_the_old_one_and_nothing_else(tmp_path):
    target = tmp_path / "a"
    target.write_text("old")

    with pytest.raises(ZeroDivisionError), write_durably(target) as temporary:
        temporary.write_text("half" + str(1 // 0))

    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_moving_makes_the_folder_that_it_moves_to(tmp_path):
    source = tmp_path / "a"
    source.write_text("x")

    move(source, tmp_path / "b" / "c" / "a")

    assert (tmp_path / "b" / "c" / "a").read_text() == "x"
    assert not source.exists()


def test_making_a_folder_twice_is_no_error(tmp_path):
    for _ in range(2):
        make_folder(tmp_path / "a" / "b")

    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize(
    "fails",
    [
        lambda path: sync(path / "nothing"),
        lambda path: move(path / "nothing", path / "b"),
        lambda path: make_folder(path / "file" / "below"),
        lambda path: write_durably(path / "file" / "below").__enter__(),
    ],
)
def test_what_the_system_refuses_is_unavailable(tmp_path, fails):
    (tmp_path / "file").write_text("")

    with pytest.raises(Unavailable, match="disk is unavailable"):
        fails(tmp_path)


def test_a_lock_that_times_out_is_no_failing_disk():
    with pytest.raises(TimeoutError), disk():
        raise TimeoutError
