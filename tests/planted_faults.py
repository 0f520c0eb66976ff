"""Plants faults one by one, and says which the default suite does not see: `.ci/faults`.

    .ci/faults                each of `planted_faults.toml`, with the test that is to see it
    .ci/faults money lease    those whose names have one of these words

A fault is planted in a copy of the project, never in the project itself. A test that passes although
its fault is there guards nothing: the program ends with 1 and names both.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from tests.laws import UNSHRUNK

ROOT: Final = Path(__file__).parents[1]
LIST: Final = Path(__file__).with_suffix(".toml")
_COPIED: Final = ("src", "flows", "sample_data", "tests", "docs", "pyproject.toml", "README.md")
# What pytest ends with if tests failed, not if it could not run them.
_TESTS_FAILED: Final = 1
_MINUTES_MAX: Final = 15


class Fault(NamedTuple):
    """One change that makes the product wrong.

    Attributes:
        name: What goes wrong, in a few words.
        file: The module, below `src/meterlake`.
        old: A text that is there once.
        new: The text in its place.
        seen_by: The test of the default suite that fails.
    """

    name: str
    file: str
    old: str
    new: str
    seen_by: str

    def module_in(self, root: Path) -> Path:
        """The module in a copy of the project."""
        return root / "src" / "meterlake" / self.file

    def planted_in(self, text: str) -> str:
        """The text of the module with the fault.

        Raises:
            ValueError: The text is not there, or more than once.
        """
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} times, not once: {self.old}")
        return text.replace(self.old, self.new)


def read_faults(words: Sequence[str] = ()) -> list[Fault]:
    """The faults of the list, or those whose names have one of some words."""
    found = [Fault(**each) for each in tomllib.loads(LIST.read_text(encoding="utf-8"))["fault"]]
    return [each for each in found if not words or any(word in each.name for word in words)]


@contextmanager
def copy_of_project() -> Iterator[Path]:
    """A copy of the project to plant faults in; it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="meterlake-faults-") as folder:
        for name in _COPIED:
            source, target = ROOT / name, Path(folder, name)
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", ".hypothesis")
                shutil.copytree(source, target, ignore=ignored)
            else:
                shutil.copy(source, target)
        yield Path(folder)


def is_seen(root: Path, fault: Fault) -> bool:
    """Whether the test of a fault fails in a copy of the project where it is planted.

    Raises:
        RuntimeError: The test could not be run.
    """
    module = fault.module_in(root)
    text = module.read_text(encoding="utf-8")
    _write_module(module, fault.planted_in(text))
    paths = [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-x", "--randomly-dont-reorganize"]
    command.append(f"--hypothesis-profile={UNSHRUNK}")
    try:
        done = subprocess.run(
            [*command, fault.seen_by],
            cwd=root,
            env=environment,
            timeout=60 * _MINUTES_MAX,
            check=False,
            capture_output=True,
            text=True,
        )
    except subprocess.TimeoutExpired:
        # It waits for what never comes: nobody would call that green.
        return True
    finally:
        _write_module(module, text)
    if done.returncode not in {0, _TESTS_FAILED}:
        raise RuntimeError(f"{fault.seen_by} was not run:\n{done.stdout[-2000:]}{done.stderr}")
    return done.returncode == _TESTS_FAILED


def _write_module(module: Path, text: str) -> None:
    """Write a module of the copy, and forget its bytecode.

    That of another text of the same second and size would be taken for this one's.
    """
    module.write_text(text, encoding="utf-8")
    for each in (module.parent / "__pycache__").glob(f"{module.stem}.*.pyc"):
        each.unlink()


def unseen(faults: Iterable[Fault]) -> Iterator[Fault]:
    """Plant faults one after the other; those that their tests do not see."""
    with copy_of_project() as root:
        for fault in faults:
            if is_seen(root, fault):
                print(f"seen      {fault.name}", flush=True)
            else:
                print(f"NOT SEEN  {fault.name}: {fault.seen_by} passes", flush=True)
                yield fault


def main(words: Sequence[str]) -> int:
    """Plant the faults that were asked for; the exit code."""
    faults = read_faults(words)
    if not faults:
        print(f"No fault has one of these words in its name: {' '.join(words)}")
        return 2
    left = list(unseen(faults))
    print(f"{len(faults) - len(left)} of {len(faults)} planted faults are seen.")
    return 1 if left else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
