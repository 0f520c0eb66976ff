"""The clock of machines that share a State: that of its server, whatever their own ones say."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Lock, Thread
from typing import Final

from meterlake.model.errors import Unavailable

_REFRESH_S: Final = 60.0
# Goes on while a machine sleeps, where the system has such a clock.
_ELAPSED: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed() -> float:
    """Seconds since some moment; nobody sets this clock."""
    return time.clock_gettime(_ELAPSED)


class ServerClock:
    """The time of a server: asked for once, counted on, and compared now and then.

    A lease, a due time or a token means the same on every machine, also where their own clocks
    differ by minutes. Nobody waits for a comparison: the server may not answer.

    Args:
        ask: The server's time; raises `Unavailable`.
        count: A clock of this machine that nobody sets.
    """

    def __init__(self, ask: Callable[[], datetime], count: Callable[[], float] = elapsed) -> None:
        self._ask = ask
        self._count = count
        self._comparing = Lock()
        self._known = self._compare()

    def __call__(self) -> datetime:
        """The server's time, as far as it is known."""
        at, moment = self._known
        count = self._count()
        if count - at >= _REFRESH_S and self._comparing.acquire(blocking=False):
            Thread(target=self._refresh, name="server clock", daemon=True).start()
        return moment + timedelta(seconds=count - at)

    def _compare(self) -> tuple[float, datetime]:
        before = self._count()
        moment = self._ask()
        # On its way back the answer grew old by half of what the question took.
        return (before + self._count()) / 2, moment

    def _refresh(self) -> None:
        try:
            self._known = self._compare()
        except Unavailable:
            at, moment = self._known
            count = self._count()
            self._known = count, moment + timedelta(seconds=count - at)
        finally:
            self._comparing.release()
