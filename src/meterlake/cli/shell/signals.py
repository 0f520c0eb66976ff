"""SIGTERM: a command ends in order, as after Ctrl-C, or after the file at hand."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

TERMINATED: Final = 128 + signal.SIGTERM


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
