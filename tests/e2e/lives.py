"""Copies of one home whose processes die on the way, and what those that come after make of it."""

import os
import random
import re
import shutil
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import meterlake
from tests.databases import copy_home
from tests.e2e.crashing import Zygote

# With it, sweeps are complete, and take hours.
THOROUGH = "THOROUGH" in os.environ

# No life leaves anything behind of what it staged.
ALWAYS_ALIKE = {"leftover"}


def marked(*sources: str) -> set[str]:
    """The steps that some files of the package mark."""
    package = Path(meterlake.__file__).parent
    return {
        name
        for source in sources
        for name in re.findall(r'mark_step\("([^"]+)"\)', (package / source).read_text())
    }


class Lives:
    """Lives of a home, each in a copy of it.

    Args:
        processes: Forks the processes.
        home: The home as it is before anything is done.
        org_id: Its organization.
        work: What is done; see `Zygote.run`.
        settings: Of the home, where they are others than the defaults.
    """

    def __init__(
        self,
        processes: Zygote,
        home: Path,
        org_id: str,
        work: str | None = None,
        **settings: str,
    ) -> None:
        self._processes = processes
        self._home = home
        self._org_id = org_id
        self._work = work
        self._settings = settings

    @cached_property
    def undisturbed(self) -> dict[str, Any]:
        """What happens without a crash: the steps that are `reached`, and the `state` at the end."""
        answer = self._run([self._copy("undisturbed")])
        assert not answer["died"]
        [state] = answer["states"]
        return {"reached": answer["reached"], "state": state}

    def last_steps(self, *beginnings: str) -> list[tuple[int, ...]]:
        """A life for each name of a step that begins so: it ends at the last time it is met."""
        last = {name: step for step, name in enumerate(self.undisturbed["reached"])}
        return [(step,) for name, step in last.items() if name.startswith(beginnings)]

    def every_step(self, *beginnings: str) -> list[tuple[int, ...]]:
        """A life for each step whose name begins so."""
        names = self.undisturbed["reached"]
        return [(step,) for step, name in enumerate(names) if name.startswith(beginnings)]

    def outer_steps(self, *beginnings: str) -> list[tuple[int, ...]]:
        """Two lives for each name of a step that begins so: the first and the last time it is met.

        The times between repeat them; where it is thorough, each is a life, too.
        """
        every = self.every_step(*beginnings)
        names = [self.undisturbed["reached"][step] for [step] in every]
        outer = {*{name: n for n, name in enumerate(names)}.values(), *map(names.index, names)}
        return every if THOROUGH else [every[n] for n in sorted(outer)]

    def chosen_steps(self, location: str, *beginnings: str) -> list[tuple[int, ...]]:
        """The outer steps in a home that is a folder; elsewhere, where a life takes long, the last."""
        in_folder = location == "folder"
        return self.outer_steps(*beginnings) if in_folder else self.last_steps(*beginnings)

    def pairs(self) -> list[tuple[int, ...]]:
        """A life for each two steps: one to die at, and one of the recovery."""
        steps = range(len(self.undisturbed["reached"]))
        return [(first, second) for first in steps for second in steps]

    def some_pairs(self, count: int) -> list[tuple[int, ...]]:
        """Some of these lives, always the same ones; all of them where it is thorough."""
        pairs = self.pairs()
        return pairs if THOROUGH else random.Random(20261001).sample(pairs, min(count, len(pairs)))

    def pairs_by_piece(self, begin: str) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """The pairs in which the second step may be met, where work is done piece by piece.

        Args:
            begin: The step that each piece of work begins with. The recovery begins with the piece
                that was interrupted; those before it are done.

        Returns:
            Lives that end within that same piece again, and lives that end in a later one.
        """
        names = self.undisturbed["reached"]
        begins = [step for step, name in enumerate(names) if name == begin]
        again: list[tuple[int, ...]] = []
        later: list[tuple[int, ...]] = []
        for here, end in pairwise([*begins, len(names)]):
            for first in range(here, end):
                again += [(first, second) for second in range(end - here)]
                later += [(first, second) for second in range(end - here, len(names) - here)]
        return again, later

    def broken(
        self, lives: Iterable[Sequence[int]], alike: Sequence[str] | None = None
    ) -> list[tuple[Any, ...]]:
        """What differs at the end of lives in which processes died, one after the other.

        Args:
            lives: The steps at which they die, counted from 0.
            alike: What of the states has to be the same; all of it when None.

        Returns:
            For each life that ends otherwise: where it died first, the life, and by name what it
            has and what it should have.
        """
        lives = list(lives)
        states = self.ends(lives)
        expected, names = self.undisturbed["state"], self.undisturbed["reached"]
        differences = [
            {
                name: (state[name], expected[name])
                for name in ALWAYS_ALIKE | set(alike or expected)
                if state[name] != expected[name]
            }
            for state in states
        ]
        return [
            (names[crashes[0]], crashes, found)
            for crashes, found in zip(lives, differences, strict=True)
            if found
        ]

    def ends(self, lives: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
        """The states at the end of such lives, once somebody went on undisturbed."""
        assert lives
        homes = [self._crashed(crashes) for crashes in lives]
        states: list[dict[str, Any]] = self._run(homes)["states"]
        for home in homes:
            shutil.rmtree(home)
        return states

    def _crashed(self, crashes: Sequence[int]) -> Path:
        home = self._copy("-".join(map(str, crashes)))
        died = [self._run([home], step)["died"] for step in crashes]
        assert died[0]
        return home

    def _copy(self, name: str) -> Path:
        return copy_home(self._home, self._home.with_name(name))

    def _run(self, homes: list[Path], crash_at: int | None = None) -> dict[str, Any]:
        return self._processes.run(homes, self._org_id, crash_at, self._work, **self._settings)
