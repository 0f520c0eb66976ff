"""Copies of folders in an object store: whole or not there, and never a mixture."""

import pytest

from meterlake.model.errors import Unavailable
from meterlake.stores.files.folder_copies import FolderCopies, files_below
from meterlake.stores.objects.local import LocalObjects

# Names that no store can hold as keys.
NAMES = ("a", "rows/b", ".part", "sources/0/ü\n?#.csv")


@pytest.fixture
def objects(tmp_path):
    return LocalObjects(tmp_path / "objects")


def fill(folder, content):
    for name in NAMES:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name} {content}")
    return files_below([folder / "a", folder / "rows", folder / ".part", folder / "sources"])


def contents(folder):
    return {str(each.relative_to(folder)): each.read_text() for each in files_below([folder])}


def test_a_copy_is_the_folder_on_another_machine(objects, tmp_path):
    copies = FolderCopies(objects)
    made = copies.save("staged", tmp_path / "here", fill(tmp_path / "here", 1), 7)

    found = copies.find("staged")
    copies.fetch(found, tmp_path / "there")

    assert found == made
    assert (found.mark, found.files) == (7, NAMES)
    assert contents(tmp_path / "there") == contents(tmp_path / "here")


def test_a_new_copy_takes_the_place_of_the_former(objects, tmp_path):
    copies = FolderCopies(objects)
    former = copies.save("staged", tmp_path / "here", fill(tmp_path / "here", 1))
    copies.save("staged", tmp_path / "here", fill(tmp_path / "here", 2))

    copies.fetch(copies.find("staged"), tmp_path / "there")

    assert contents(tmp_path / "there")["a"] == "a 2"
    assert not any(info.key.startswith(former.token) for info in objects.list())
    with pytest.raises(Unavailable, match="it was replaced or removed"):
        copies.fetch(former, tmp_path / "late")


def test_a_copy_that_was_begun_is_none(objects, tmp_path):
    copies = FolderCopies(objects)
    paths = fill(tmp_path, 1)

    with pytest.raises(Unavailable):
        copies.save("staged", tmp_path, [*paths, tmp_path / "gone"])

    assert copies.find("staged") is None


def test_dropped_copies_are_gone(objects, tmp_path):
    copies = FolderCopies(objects)
    copies.save("staged", tmp_path / "here", fill(tmp_path / "here", 1))

    copies.drop()

    assert list(objects.list()) == []
    assert copies.find("staged") is None
