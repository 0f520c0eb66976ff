"""Names of the code: a class name means one thing."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Names that two modules may have, each with its reason.
ALLOWED: dict[str, str] = {}


def classes(folder):
    """The modules that define each class, by its name; private ones are their module's business."""
    found = defaultdict(set)
    for path in sorted(folder.rglob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].add(path.relative_to(folder).as_posix())
    return found


@pytest.mark.long
@pytest.mark.parametrize("folder", ["src/meterlake", "flows"])
def test_a_class_name_means_one_thing(folder):
    found = classes(ROOT / folder)

    twice = {name: sorted(paths) for name, paths in found.items() if len(paths) > 1}
    assert {name: paths for name, paths in twice.items() if name not in ALLOWED} == {}
    assert len(found) > len(twice)


def test_two_classes_of_one_name_are_found(tmp_path):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("class Place:\n    pass\n\n\nclass _Own:\n    pass\n")

    assert classes(tmp_path) == {"Place": {"a.py", "b.py"}}
