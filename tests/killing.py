"""What a process under test does to die as by `kill -9`: it says where, and is gone.

Nothing else of the tests ends a process at a step; so the steps that were said are those at which
a process really ended. `tests.killed_steps` collects them.
"""

import os
import signal
from collections.abc import Callable
from typing import NoReturn

# The file in which dying processes leave their last words.
VARIABLE = "METERLAKE_TEST_KILLS"


def die(step: str) -> NoReturn:
    """Note the step and kill this process; no handler and no `finally` runs."""
    handle = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND)
    os.write(handle, f"{step}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("nobody survives this")


def die_at(step: str, time: int = 1) -> Callable[[str], None]:
    """A hook that dies at a step, when it is met for the n-th time."""
    left = time

    def hook(name: str) -> None:
        nonlocal left
        left -= name == step
        if not left:
            die(name)

    return hook


def die_at_nth(nth: int | None) -> Callable[[str], None]:
    """A hook that dies at the n-th step of all, counted from 0; never if there is none."""
    count = 0

    def hook(name: str) -> None:
        nonlocal count
        if count == nth:
            die(name)
        count += 1

    return hook
