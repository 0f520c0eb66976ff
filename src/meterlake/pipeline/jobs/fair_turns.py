"""Turns: every organization gets its share of the worker's time, however much another one has.

A turn is one look at what waits of one organization. It ends when all of that is done, or after a
few seconds, between two files, if others wait: then the organization queues up again behind them.
What one file alone takes is not cut; meanwhile the others have their turns on other threads.

With a question, one look finds the organizations that have something to do, however many there
are. All others have turns as well, now and then: they may take a small share of a processor.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from threading import Lock
from typing import Final

from meterlake.model.errors import Busy, MeterlakeError
from meterlake.model.measurements.receipt import Receipt
from meterlake.model.values import wire
from meterlake.stores import Organization, Stores

Stop = Callable[[], bool]
Verb = Callable[[Organization, Stop], Iterable[Receipt]]
Ask = Callable[[], Collection[str]]

# How long an organization begins one file after the other while others wait.
TURN_S: Final = 2.0
PAUSE_S: Final = 10.0
_TICK_S: Final = 0.1
# The longest sleep of a round that has nothing to do: it has to hear that it is to stop.
_IDLE_S: Final = 0.25
# What asking may take of a processor, and the turns of organizations that nobody named.
_ASKING: Final = 0.003
_SWEEPING: Final = 0.001
# The seconds of a processor that such turns may take at once: those of a small home all do.
_BURST_S: Final = 0.5
# How often a round that is told who has something to do looks for new organizations.
_LIST_S: Final = 5.0
# How many organizations that are not ready one look passes over: it has a bounded cost.
_PASSED_MAX: Final = 16
_log: Final = logging.getLogger("meterlake.worker")


@dataclass(frozen=True, slots=True)
class RoundQuestion:
    """Which organizations may have something to do, asked of all of them at once.

    Attributes:
        ask: Gives their ids.
        share: Of a processor that the turns of those that it names may take together, since most
            of them are not due; None if all of them are.
        sweep: If all of them are due, the share that the turns of all others may take.
    """

    ask: Ask
    share: float | None = None
    sweep: float = _SWEEPING


class KnownOrganizations:
    """The organizations of the home: read again only when there are more of them."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._found: dict[str, str] = {}

    def ids(self) -> Collection[str]:
        """Their ids, the oldest first."""
        return self.codes().keys()

    def codes(self) -> Mapping[str, str]:
        """Their codes by id, the oldest first.

        Raises:
            Unavailable: State cannot be reached.
        """
        if self._stores.state.count_organizations() != len(self._found):
            self._found = {each.id: each.code for each in self._stores.state.organizations()}
        return self._found


def give_turns(
    stores: Stores,
    verb: Verb,
    stop: Stop,
    poll_seconds: float,
    at_once: int = 1,
    question: RoundQuestion | None = None,
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
        question: Names those that have turns; all have if it is None.
    """
    turns = _Turns(stores, verb, stop, poll_seconds, at_once, question)
    with ThreadPoolExecutor(at_once, thread_name_prefix="turn") as pool:
        running: set[Future[None]] = set()
        while not stop():
            running |= {
                pool.submit(turns.take, org_id) for org_id in turns.begin(at_once - len(running))
            }
            done, running = _split_ended(running, max(_TICK_S, min(poll_seconds / 4, _IDLE_S)))
            for each in done:
                each.result()


def rest(seconds: float, stop: Stop) -> None:
    """Do nothing for a while, unless it is time to stop."""
    end = time.monotonic() + seconds
    while not stop() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, _TICK_S))


def _split_ended(
    running: set[Future[None]], pause: float
) -> tuple[set[Future[None]], set[Future[None]]]:
    if not running:
        time.sleep(pause)
        return set(), set()
    return wait(running, _TICK_S, FIRST_COMPLETED)


class _Budget:
    """A share of a processor: what was not used in a while may be used at once."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._left = _BURST_S
        self._counted = time.monotonic()
        self._lock = Lock()

    def is_left(self) -> bool:
        with self._lock:
            now = time.monotonic()
            self._left = min(_BURST_S, self._left + (now - self._counted) * self._share)
            self._counted = now
            return self._left > 0

    def spend(self, seconds: float) -> None:
        with self._lock:
            self._left -= seconds


class _Rotation:
    """Organizations one after the other: whoever had its turn is the last."""

    def __init__(self) -> None:
        self._queue: deque[str] = deque()
        self._members: set[str] = set()

    def keep(self, members: Collection[str]) -> None:
        """Have these organizations in it, the new ones first."""
        if self._members == members:
            return
        new = set(members) - self._members
        if len(new) + len(self._members) > len(members):
            kept = set(members)
            self._queue = deque(each for each in self._queue if each in kept)
        self._queue.extendleft(sorted(new, reverse=True))
        self._members = set(members)

    def take(self, most: int, is_ready: Callable[[str], bool]) -> list[str]:
        """The next ones; of those that are not ready, a few are passed over."""
        taken: list[str] = []
        for _ in range(min(len(self._queue), most + _PASSED_MAX)):
            if len(taken) == most:
                break
            if is_ready(self._queue[0]):
                taken.append(self._queue[0])
            self._queue.rotate(-1)
        return taken

    def count_ready(self, is_ready: Callable[[str], bool]) -> int:
        return sum(map(is_ready, list(self._queue)))


class _Turns:
    def __init__(
        self,
        stores: Stores,
        verb: Verb,
        stop: Stop,
        poll_seconds: float,
        at_once: int,
        question: RoundQuestion | None,
    ) -> None:
        self._stores = stores
        self._verb = verb
        self._stop = stop
        self._poll_s = poll_seconds
        self._at_once = at_once
        self._question = question
        self._is_exact = question is not None and question.share is None
        # Without a question nobody can be left out, however many there are.
        self._budget = None if question is None else _Budget(question.share or question.sweep)
        # Those that the last answer named, and those whose turn was cut.
        self._named: set[str] = set()
        self._rotation = _Rotation()
        # Not before when those have their next turn that had one; who has it now.
        self._after: dict[str, float] = {}
        self._running: dict[str, bool] = {}
        self._known = KnownOrganizations(stores)
        self._ask_again = self._list_again = 0.0

    def begin(self, most: int) -> list[str]:
        """The organizations that have waited longest for the turn that is due."""
        now = time.monotonic()
        if self._question is not None and now >= self._ask_again:
            self._ask(self._question)
        if (self._question is None or self._is_exact) and now >= self._list_again:
            # Look for new organizations, as often as for new files.
            found = self._answer(self._known.ids)
            if found is not None:
                self._rotation.keep(found)
            # Who is named needs not be listed.
            pause = max(self._poll_s, _LIST_S) if self._is_exact else self._poll_s
            self._list_again = time.monotonic() + (PAUSE_S if found is None else pause)
        if most <= 0:
            return []
        # Other threads put theirs back meanwhile.
        ready = filter(self._is_ready, list(self._named))
        due = sorted(ready, key=self._order)[:most]
        self._named.difference_update(due)
        self._running |= dict.fromkeys(due, False)
        if len(due) < most and (self._budget is None or self._budget.is_left()):
            # One at a time: what it takes is known when it is over.
            alone = not any(list(self._running.values()))
            room = most - len(due) if self._budget is None else int(alone)
            swept = self._rotation.take(room, self._is_ready)
            self._running |= dict.fromkeys(swept, True)
            due += swept
        return due

    def _order(self, org_id: str) -> tuple[float, str]:
        return self._after.get(org_id, 0.0), org_id

    def _is_ready(self, org_id: str) -> bool:
        return org_id not in self._running and self._after.get(org_id, 0.0) <= time.monotonic()

    def take(self, org_id: str) -> None:
        """One turn of an organization."""
        turn = _Turn(self._stop, self._others_wait, time.monotonic() + TURN_S)
        begun = time.thread_time()
        pause = self._take(org_id, turn)
        if self._budget is not None and self._running[org_id]:
            self._budget.spend(time.thread_time() - begun)
        self._after[org_id] = time.monotonic() + pause
        if turn.cut and self._is_exact:
            self._named.add(org_id)
        del self._running[org_id]

    def _take(self, org_id: str, turn: "_Turn") -> float:
        """Have the turn; how long the pause after it is."""
        organization = self._stores.organization(org_id)
        try:
            for receipt in self._verb(organization, turn.over):
                # A file that cannot be read is somebody's to mend.
                level = logging.WARNING if receipt.status == "failed" else logging.INFO
                _log.log(level, "%s", wire.dumps(receipt.to_wire()).decode())
        except Busy:
            pass  # Another process does its work.
        except MeterlakeError as error:
            _log.warning("%s: %s", type(error).__name__, error)
            return PAUSE_S
        except Exception:  # noqa: BLE001 - logged whole
            # A mistake of ours that one organization meets ends nobody else's work.
            _log.exception("the turn of organization %s", org_id)
            # What broke may be the connection: the next turn has a new one.
            organization.lake.close()
            return PAUSE_S
        return 0 if turn.cut else self._poll_s

    def _others_wait(self) -> bool:
        """Whether more organizations are due than can have a turn beside those that have one."""
        ready = sum(map(self._is_ready, list(self._named)))
        if not self._is_exact:
            ready += self._rotation.count_ready(self._is_ready)
        return ready > self._at_once - len(self._running)

    def _ask(self, question: RoundQuestion) -> None:
        self._stores.close_unused_lakes()
        begun = time.thread_time()
        found = self._answer(question.ask)
        self._ask_again = time.monotonic() + (
            PAUSE_S if found is None else max(self._poll_s, (time.thread_time() - begun) / _ASKING)
        )
        if found is None:
            return
        if self._is_exact:
            self._named |= set(found)
        else:
            self._rotation.keep(found)

    @staticmethod
    def _answer(ask: Ask) -> Collection[str] | None:
        try:
            return ask()
        except MeterlakeError as error:
            _log.warning("%s: %s", type(error).__name__, error)
        except Exception:  # noqa: BLE001 - logged whole
            _log.exception("the look for what waits")
        return None


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
