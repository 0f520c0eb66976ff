"""SIGTERM and Ctrl-C: a command ends in order, alone or with the child that it runs for `flows`."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType, MappingProxyType
from typing import Final

TERMINATED: Final = 128 + signal.SIGTERM
_POLL_S: Final = 0.1


class Terminated(KeyboardInterrupt):
    """SIGTERM asked the command to stop; what it did is undone, or left to be continued."""


@contextmanager
def terminable() -> Iterator[list[int]]:
    """Raise `Terminated` at SIGTERM while the body runs; the list tells that it came.

    A library that is interrupted may raise something of its own instead.
    """
    came: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        came.append(number)
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    with _handle_signals(stop, signal.SIGTERM):
        yield came


@contextmanager
def between_two(*signals: signal.Signals) -> Iterator[Callable[[], bool]]:
    """Whether a signal asked to stop; what is at hand is finished first, unless it comes twice."""
    came: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        if came:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt
        came.append(number)

    with _handle_signals(note, *(signals or (signal.SIGTERM,))):
        yield lambda: bool(came)


@contextmanager
def _handle_signals(
    handler: Callable[[int, FrameType | None], None], *signals: signal.Signals
) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {each: signal.signal(each, handler) for each in signals}
    try:
        yield
    finally:
        for each, old in before.items():
            signal.signal(each, old)


def run_flow_module(
    module: str, arguments: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
) -> int:
    """Run a module with this process's input and output until it ends.

    Args:
        module: Such as `flows.demo`.
        arguments: Those of its command line.
        environment: What it has besides this process's.

    Returns:
        Its exit code.

    Raises:
        KeyboardInterrupt: Ctrl-C reached it and us.
    """
    command = [sys.executable, "-m", module, *arguments]
    # A folder named `flows` in the working directory must not be taken for ours.
    given = {**os.environ, **environment, "PYTHONSAFEPATH": "1"}
    sys.stdout.flush()
    with subprocess.Popen(command, env=given) as child:  # noqa: S603 - our own program
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        interrupted = False
        while child.poll() is None:
            try:
                time.sleep(_POLL_S)
            except KeyboardInterrupt:
                interrupted = True  # It reached the child, too, which stops its own children first.
    if interrupted:
        raise KeyboardInterrupt
    return child.returncode
