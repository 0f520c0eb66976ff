"""Turns: every organization gets its share of the worker's time, however much another one has.

A turn is one look at what waits of one organization. It ends when all of that is done, or after a
few seconds, between two files, if others wait: then the organization queues up again behind them.
What one file alone takes is not cut; meanwhile the others have their turns on other threads.
"""

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Final

from meterlake.model import wire
from meterlake.model.errors import Busy, MeterlakeError
from meterlake.model.receipt import Receipt
from meterlake.stores import Stores

Stop = Callable[[], bool]
Verb = Callable[[Stores, str, Stop], Iterable[Receipt]]

# How long an organization begins one file after the other while others wait.
TURN_S: Final = 2.0
PAUSE_S: Final = 10.0
_TICK_S: Final = 0.1
_log: Final = logging.getLogger("meterlake.worker")


def give_turns(
    stores: Stores, verb: Verb, stop: Stop, poll_seconds: float, at_once: int = 1
) -> None:
    """Give all organizations their turns until `stop` says so; what has begun is finished.

    Whoever has waited longest is next. What fails is logged; its organization has its next turn
    after a longer pause, and the others do not wait for it.

    Args:
        stores: The home's stores; organizations that have a turn at the same time share them.
        verb: Does what waits of an organization; asks whether to stop between two files.
        stop: Whether to end.
        poll_seconds: How long after a turn an organization has its next one.
        at_once: How many organizations have a turn at the same time.
    """
    turns = _Turns(stores, verb, stop, poll_seconds, at_once)
    with ThreadPoolExecutor(at_once, thread_name_prefix="turn") as pool:
        running: set[Future[None]] = set()
        while not stop():
            running |= {
                pool.submit(turns.take, org_id) for org_id in turns.begin(at_once - len(running))
            }
            done, running = _split_ended(running)
            for each in done:
                each.result()


def rest(seconds: float, stop: Stop) -> None:
    """Do nothing for a while, unless it is time to stop."""
    end = time.monotonic() + seconds
    while not stop() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _TICK_S))


def _split_ended(running: set[Future[None]]) -> tuple[set[Future[None]], set[Future[None]]]:
    if not running:
        time.sleep(_TICK_S)
        return set(), set()
    return wait(running, _TICK_S, FIRST_COMPLETED)


class _Turns:
    def __init__(
        self, stores: Stores, verb: Verb, stop: Stop, poll_seconds: float, at_once: int
    ) -> None:
        self._stores = stores
        self._verb = verb
        self._stop = stop
        self._poll_s = poll_seconds
        self._at_once = at_once
        # When each organization has its next turn; those that have one now have no entry.
        self._due: dict[str, float] = {}
        self._known: set[str] = set()
        self._look_again = 0.0

    def begin(self, most: int) -> list[str]:
        """The organizations that have waited longest for the turn that is due."""
        self._learn()
        now = time.monotonic()
        due = sorted((at, org_id) for org_id, at in self._due.items() if at <= now)
        chosen = [org_id for _, org_id in due[:most]]
        for org_id in chosen:
            del self._due[org_id]
        return chosen

    def take(self, org_id: str) -> None:
        """One turn of an organization."""
        now = time.monotonic()
        turn = _Turn(self._stop, self._others_wait, now + TURN_S)
        pause = self._poll_s
        try:
            for receipt in self._verb(self._stores, org_id, turn.over):
                _log.info(wire.dumps(receipt.to_wire()).decode())
            pause = 0 if turn.cut else pause
        except Busy:
            pass  # Another process does its work.
        except MeterlakeError as error:
            _log.warning("%s: %s", type(error).__name__, error)
            pause = PAUSE_S
        except Exception:  # noqa: BLE001 - logged whole
            # A mistake of ours that one organization meets ends nobody else's work.
            _log.exception("the turn of organization %s", org_id)
            pause = PAUSE_S
            # What broke may be the connection: the next turn has a new one.
            self._stores.lake(org_id).close()
        self._due[org_id] = time.monotonic() + pause

    def _others_wait(self) -> bool:
        """Whether more organizations are due than can have a turn beside those that have one."""
        now = time.monotonic()
        # Other threads put theirs back meanwhile.
        due = [at for at in list(self._due.values()) if at <= now]
        return len(due) > self._at_once - (len(self._known) - len(self._due))

    def _learn(self) -> None:
        """Look for new organizations, as often as for new files."""
        now = time.monotonic()
        if now < self._look_again:
            return
        self._look_again = now + self._poll_s
        try:
            found = {each.id for each in self._stores.state.organizations()}
        except MeterlakeError as error:
            _log.warning("%s: %s", type(error).__name__, error)
            self._look_again = now + PAUSE_S
            return
        for org_id in found - self._known:
            self._due[org_id] = now
        self._known |= found


class _Turn:
    """When an organization is to let the others go on."""

    def __init__(self, stop: Stop, others_wait: Callable[[], bool], end: float) -> None:
        self._stop = stop
        self._others_wait = others_wait
        self._end = end
        self.cut = False

    def over(self) -> bool:
        """Whether to begin nothing more."""
        if self._stop():
            return True
        self.cut = time.monotonic() >= self._end and self._others_wait()
        return self.cut
