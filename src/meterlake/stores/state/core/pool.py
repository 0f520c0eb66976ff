"""Connections to PostgreSQL: one pool for a process, however many parts of it use the database.

A worker has some twenty rounds with stores of their own, and a server gives connections to all its
callers together. So the pool is small, and who finds it empty waits.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock, local
from typing import Any, Final

from sqlalchemy import URL, Engine, event

from meterlake.model.errors import Unavailable

# What a process keeps while it does nothing, and what it has at most.
POOL_IDLE: Final = 2
POOL_MAX: Final = 8
# Who has a connection may need another one, as a writer within a reading. Two are kept for that:
# if all were taken by who waits for another one, nobody would go on.
_OUTERMOST: Final = POOL_MAX - 2
WAIT_SECONDS: Final = 60
# Others may leave the server soon.
_ROOM_SECONDS: Final = 20
_PAUSE_S: Final = 0.2
# The server speaks English: elsewhere that is a condition, too.
_FULL: Final = ("too many clients", "remaining connection slots", "too many connections")


class _Depth:
    """How many connections a thread has."""

    def __init__(self) -> None:
        self.value = 0


class Pool:
    """An engine that several users of one process share, and whose turn it is.

    Args:
        engine: Its connections are these.
        outermost: How many threads have one at a time; any number if None.
    """

    def __init__(self, engine: Engine, outermost: int | None = None) -> None:
        self.engine = engine
        self.users = 0
        self._gate = None if outermost is None else BoundedSemaphore(outermost)
        self._own = local()
        event.listen(engine, "do_connect", _connect_when_there_is_room)

    @contextmanager
    def turn(self, name: str) -> Iterator[None]:
        """Wait until another thread may have a connection; one that has one need not wait.

        Raises:
            Unavailable: All were in use for too long.
        """
        if self._gate is None:
            yield
            return
        depth = getattr(self._own, "depth", None)
        if depth is None:
            depth = self._own.depth = _Depth()
        is_first = depth.value == 0
        if is_first and not self._gate.acquire(timeout=WAIT_SECONDS):
            detail = f"all connections of this process were in use for {WAIT_SECONDS} s"
            raise Unavailable(name, detail)
        depth.value += 1
        try:
            yield
        finally:
            depth.value -= 1
            if is_first:
                self._gate.release()


_POOLS: Final[dict[tuple[int, str, str], Pool]] = {}
_LOCK: Final = Lock()


def share_pool(url: URL, use: str, make: Callable[[], Engine], outermost: int | None) -> Pool:
    """The pool of this process for a database; `leave_pool` gives it back.

    Args:
        url: The database.
        use: What it is used for: `state`, `catalog`.
        make: Makes its engine, if nobody has one yet.
        outermost: How many threads have a connection at a time; any number if None.
    """
    # A child that was forked must not use connections of its parent.
    key = (os.getpid(), use, url.render_as_string(hide_password=False))
    with _LOCK:
        pool = _POOLS.get(key)
        if pool is None:
            pool = _POOLS[key] = Pool(make(), outermost)
        pool.users += 1
        return pool


def share_state_pool(url: URL, make: Callable[[], Engine]) -> Pool:
    """The pool of State."""
    return share_pool(url, "state", make, _OUTERMOST)


def leave_pool(pool: Pool) -> None:
    """Say that one of its users needs it no more; the last one closes its connections."""
    with _LOCK:
        pool.users -= 1
        if pool.users:
            return
        for key in [key for key, each in _POOLS.items() if each is pool]:
            del _POOLS[key]
    pool.engine.dispose()


def _connect_when_there_is_room(dialect: Any, _record: Any, args: Any, given: Any) -> Any:
    """Connect; a server that has no more connections is asked again for some time."""
    give_up = time.monotonic() + _ROOM_SECONDS
    while True:
        try:
            return dialect.connect(*args, **given)
        except dialect.loaded_dbapi.OperationalError as error:
            if time.monotonic() > give_up or not any(each in str(error) for each in _FULL):
                raise
            time.sleep(_PAUSE_S)
