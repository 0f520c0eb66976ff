"""Sends runs that are due, of all organizations: in one loop, many at a time.

Each destination has a line of its own, with as many tries at a time as it copes with: first two,
then more with every success, fewer with every failure. So one that hangs holds up nobody else.
Organizations take turns, and none takes all the room: not one with many destinations that hang.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from types import MappingProxyType
from typing import Final

import uvloop

from meterlake.model.configuration.integration_systems import foreign_connectors, systems
from meterlake.model.errors import MeterlakeError
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.secrets import with_secrets
from meterlake.pipeline.config.webhook_addresses import address_policy
from meterlake.pipeline.events.reader import read_log
from meterlake.pipeline.integrations.bookkeeping import (
    Bookkeeping,
    Finished,
    SendableRun,
    WrittenRuns,
)
from meterlake.pipeline.integrations.connectors.connector import (
    FAILURES,
    Connector,
    Failed,
    FailureKind,
    Outcome,
    Outgoing,
    Sent,
    batch_of,
    send_together,
)
from meterlake.pipeline.integrations.connectors.http import HttpConnector
from meterlake.pipeline.integrations.connectors.marketplace import MarketplaceConnector
from meterlake.pipeline.integrations.connectors.safe_answers import Echoes, secrets_of
from meterlake.pipeline.integrations.connectors.stripe_invoices import STRIPE_CONNECTORS
from meterlake.pipeline.integrations.connectors.webhook import WebhookConnector
from meterlake.pipeline.integrations.fair_shares import Shares, order_by_turns
from meterlake.pipeline.integrations.http_client import HttpClient
from meterlake.pipeline.integrations.retries import FAILURES_MAX, clean_outcome
from meterlake.pipeline.jobs.fair_turns import PAUSE_S, Stop
from meterlake.stores import Organization, Stores
from meterlake.stores.state.integrations.health import Health
from meterlake.stores.state.integrations.queues import ClaimedRun, DueQueue

# How many runs are in memory, and how many of them under way.
HELD_MAX: Final = 1_000
SENDING_MAX: Final = 512
_LINE_MIN: Final = 2
_LINE_MAX: Final = 400
# Results that come together are written together.
_GATHER_S: Final = 0.1
_GRACE_S: Final = 5.0
_RENEW: Final = timedelta(seconds=20)
_log: Final = logging.getLogger("meterlake.worker")
OWN: Final[tuple[Connector, ...]] = (
    HttpConnector(),
    MarketplaceConnector(),
    *STRIPE_CONNECTORS,
    WebhookConnector(),
)


@dataclass(slots=True)
class _Line:
    """The runs of one destination that this process has.

    Attributes:
        org_id: The organization of the destination.
        sending: How many runs are under way.
        calls: In how many calls.
        permits: How many calls may be under way.
        size: How many are claimed at a time.
        failures: In a row, as far as seen here.
        halted: Whether nothing begins until the failures are written down.
    """

    org_id: str
    waiting: deque[SendableRun] = field(default_factory=deque)
    sending: int = 0
    calls: int = 0
    permits: int = _LINE_MIN
    size: int = _LINE_MIN * 2
    failures: int = 0
    halted: bool = False

    @property
    def held(self) -> int:
        return self.sending + len(self.waiting)

    def room(self, batch: int) -> int:
        """How many more runs it takes: a batch, and many at a time, once they go away fast."""
        return max(0, max(self.size, batch) - len(self.waiting)) if not self.halted else 0

    def take(self) -> list[SendableRun]:
        """The runs of the next call."""
        first = self.waiting.popleft()
        taken, size = [first], batch_of(first.connector)
        while len(taken) < size and self.waiting and _is_together(first, self.waiting[0]):
            taken.append(self.waiting.popleft())
        return taken

    def may_begin(self) -> bool:
        """Whether another call may begin."""
        if not self.waiting or self.halted:
            return False
        return self.calls < min(self.permits, self.waiting[0].connector.concurrency)

    def note(self, outcome: Outcome, concurrency: int) -> None:
        """Adapt to how the destination copes."""
        if isinstance(outcome, Sent):
            self.failures = 0
            self.permits = min(self.permits + 1, concurrency)
            self.size = min(self.size + 2, _LINE_MAX)
        elif FAILURES[outcome.kind].is_health:
            self.failures += 1
            self.permits = max(1, self.permits // 2)
            self.size = max(_LINE_MIN, self.size // 2)
            is_over = outcome.kind is FailureKind.GONE or outcome.retry_after is not None
            self.halted = is_over or self.failures >= FAILURES_MAX


class Sender:
    """Sends what is due until it is stopped; lives in one event loop.

    Args:
        stores: The home's stores.
        client: Sends requests; one by the settings if None.
        known: The connectors; those that are installed if None.
    """

    def __init__(
        self,
        stores: Stores,
        client: HttpClient | None = None,
        known: Mapping[str, Connector] | None = None,
    ) -> None:
        self._stores = stores
        self._client = client or HttpClient(address_policy(stores.settings))
        overlap = timedelta(hours=stores.settings.webhook_secret_hours)
        used = known or connectors()
        self._books = Bookkeeping(stores, used, overlap)
        self._batches = {name: batch_of(each) for name, each in used.items()}
        self._lines: dict[str, _Line] = {}
        self._finished: list[Finished] = []
        self._returned: list[ClaimedRun] = []
        self._sending: dict[asyncio.Task[None], list[ClaimedRun]] = {}
        self._renewed = stores.now()
        self._shares = Shares(SENDING_MAX)
        # Lines that may begin nothing because their organizations have as much as they may.
        self._blocked: dict[str, dict[str, None]] = {}
        # Who had the last turn, and which of its queues, by organization.
        self._last_org = ""
        self._last: dict[str, str] = {}
        self._wake = asyncio.Event()
        self._is_ending = False

    async def run(self, stop: Stop, every: float) -> None:
        """Send until `stop` says so; what is under way has a few seconds to end.

        A failing world is logged and tried again, more slowly.
        """
        try:
            while not stop():
                try:
                    pause = _GATHER_S if await self._turn() else every
                except MeterlakeError as error:
                    _log.warning("%s: %s", type(error).__name__, error)
                    pause = PAUSE_S
                except Exception:  # noqa: BLE001 - logged whole
                    _log.exception("the sender of integrations")
                    pause = PAUSE_S
                await self._rest(pause, stop)
        finally:
            await self._end()

    async def drain(self) -> None:
        """Send all that is due, and return."""
        try:
            while await self._turn() or self._shares_of_memory().total:
                await self._rest(_GATHER_S, lambda: False)
        finally:
            await self._end()

    async def _turn(self) -> bool:
        """One transaction, and the sends that follow; whether there was anything to do."""
        halted = [line for line in self._lines.values() if line.halted]
        finished, self._finished = self._finished, []
        returned, self._returned = self._returned, []
        now = self._stores.now()
        if now - self._renewed < _RENEW:
            to_renew = []
        else:
            self._renewed = now
            waiting = [each.run for line in self._lines.values() for each in line.waiting]
            to_renew = [*(run for runs in self._sending.values() for run in runs), *waiting]
        written = WrittenRuns(finished, [*returned, *self._give_back()], to_renew)
        try:
            prepared = await asyncio.to_thread(self._books.turn, written, self._sizes)
        except BaseException:
            # They are written by the next turn; those that were sent must not be sent again.
            self._finished[:0], self._returned[:0] = finished, written.returned
            raise
        for line in halted:
            line.halted = False
        for each in prepared:
            queue, self._last_org = each.run.content.queue, each.run.org_id
            self._last[self._last_org] = queue
            self._lines.setdefault(queue, _Line(self._last_org)).waiting.append(each)
        for queue in list(self._lines):
            self._begin(queue)
        self._lines = {
            queue: line
            for queue, line in self._lines.items()
            if line.held > 0 or line.failures > 0 or line.permits > _LINE_MIN
        }
        return bool(prepared or finished)

    def _sizes(
        self, due: Mapping[str, DueQueue], troubled: Mapping[str, Health], now: datetime
    ) -> dict[str, int]:
        """How many runs of each queue are claimed; whoever came last is first the next time."""
        shares = self._shares_of_memory()
        sizes: dict[str, int] = {}
        orgs = {queue: each.org_id for queue, each in due.items()}
        for queue in order_by_turns(orgs, self._last, self._last_org):
            batch = self._batches.get(due[queue].destination.upper(), 1)
            room = shares.room(orgs[queue])
            size = min(room, self._room(queue, batch, troubled.get(queue), now)) if room else 0
            if size > 0:
                sizes[queue] = size
                shares.take(orgs[queue], size)
        return sizes

    def _room(self, queue: str, batch: int, health: Health | None, now: datetime) -> int:
        line = self._lines.get(queue) or _Line("")
        if health is None:
            return line.room(batch)
        if health.disabled is not None:
            return _LINE_MAX
        if health.paused_until is not None and health.paused_until > now:
            return 0
        # After a pause one run shows whether it is over.
        return 1 - line.held if health.failures >= FAILURES_MAX else line.room(batch)

    def _shares_of_memory(self) -> Shares:
        shares = Shares(HELD_MAX)
        for line in list(self._lines.values()):
            shares.take(line.org_id, line.held)
        for each in list(self._finished):
            shares.take(each.run.org_id)
        return shares

    def _give_back(self) -> list[ClaimedRun]:
        """The runs of lines that are halted, so that nobody waits for them here."""
        given: list[ClaimedRun] = []
        for line in self._lines.values():
            if line.halted or self._is_ending:
                given += [each.run for each in line.waiting]
                line.waiting.clear()
        return given

    def _begin(self, queue: str) -> None:
        """Begin as many calls of a line as it and its organization may have under way."""
        line = self._lines[queue]
        while line.may_begin() and not self._is_ending:
            if not self._shares.room(line.org_id):
                self._blocked.setdefault(line.org_id, {})[queue] = None
                return
            taken = line.take()
            line.sending += len(taken)
            line.calls += 1
            self._shares.take(line.org_id)
            task = asyncio.create_task(self._send(line, taken))
            self._sending[task] = [each.run for each in taken]
            task.add_done_callback(self._sending.pop)

    async def _send(self, line: _Line, taken: list[SendableRun]) -> None:
        """Make one call, and have what became of it be written down."""
        started = self._stores.now()
        try:
            outcomes = await self._try(taken, started)
        except asyncio.CancelledError:
            self._returned += [each.run for each in taken]
            return
        finally:
            line.sending -= len(taken)
            line.calls -= 1
            self._shares.give_back(line.org_id)
        mark_step("integrations.sent")
        ended = self._stores.now()
        # How the destination is doing, the outcome that arrived shows, if any did.
        arrived = (number for number, each in enumerate(outcomes) if isinstance(each, Sent))
        telling = next(arrived, 0)
        for number, (each, outcome) in enumerate(zip(taken, outcomes, strict=True)):
            finished = Finished(each.run, outcome, started, ended, is_health=number == telling)
            self._finished.append(finished)
        line.note(outcomes[telling], taken[0].connector.concurrency)
        self._wake.set()
        queue = taken[0].run.content.queue
        asyncio.get_running_loop().call_soon(self._begin_next, line.org_id, queue)

    def _begin_next(self, org_id: str, queue: str) -> None:
        """Begin what there is room for: first what had to wait for it, then of the same line."""
        self._blocked.setdefault(org_id, {})[queue] = None
        for each, queues in list(self._blocked.items()):
            while queues and self._shares.room(each):
                first = next(iter(queues))
                del queues[first]
                if first in self._lines:
                    self._begin(first)
            if not queues:
                del self._blocked[each]

    async def _try(self, taken: list[SendableRun], started: datetime) -> list[Outcome]:
        connector = taken[0].connector
        try:
            found = await send_together(
                connector,
                [
                    Outgoing(
                        organization=self._stores.organization(each.run.org_id),
                        run_id=each.run.id,
                        number=each.run.tries + 1,
                        time=started,
                        content=each.run.content,
                        client=self._client,
                        config=each.config,
                        webhook=each.webhook,
                        secrets=each.secrets,
                    )
                    for each in taken
                ],
            )
            pairs = zip(found, taken, strict=True)
            return [clean_outcome(outcome, self._echoes(each)) for outcome, each in pairs]
        except Exception as error:  # noqa: BLE001 - logged whole
            _log.exception("the connector of %s", taken[0].run.content.destination)
            failed = f"the connector failed: {type(error).__name__}"
            return [Failed(kind=FailureKind.UNAVAILABLE, error=failed) for _ in taken]

    def _echoes(self, each: SendableRun) -> Echoes:
        """The secrets that the other system knows, and may repeat."""
        config, decrypt = each.config, self._stores.secrets.decrypt
        found = None if config is None else config.entity.credentials
        readable = None if found is None else with_secrets(found, decrypt)
        webhook = None if each.webhook is None else each.webhook.entity
        signing = [decrypt(secret) for secret in each.secrets]
        return Echoes([*secrets_of(readable, webhook), *signing])

    async def _rest(self, seconds: float, stop: Stop) -> None:
        """Wait for a result, or for so long, unless it is time to stop."""
        end = time.monotonic() + seconds
        while not stop() and (left := end - time.monotonic()) > 0:
            try:
                await asyncio.wait_for(self._wake.wait(), min(left, _GATHER_S))
            except TimeoutError:
                continue
            self._wake.clear()
            await asyncio.sleep(_GATHER_S)
            return

    async def _end(self) -> None:
        """Let go of all runs: those under way end, or are left to the next sender."""
        self._is_ending = True
        if self._sending:
            _, late = await asyncio.wait(list(self._sending), timeout=_GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        written = WrittenRuns(self._finished, [*self._returned, *self._give_back()])
        self._finished, self._returned = [], []
        try:
            await asyncio.to_thread(self._books.turn, written, lambda *_: {})
        except MeterlakeError as error:
            # Their leases end soon.
            _log.warning("%s: %s", type(error).__name__, error)
        await self._client.close()


def _is_together(first: SendableRun, other: SendableRun) -> bool:
    """Whether two runs can go out in one call: by the same version of the same configuration."""
    if first.config is None or other.config is None:
        return False
    return (first.run.org_id, first.config.id, first.config.version) == (
        other.run.org_id,
        other.config.id,
        other.config.version,
    )


def send_runs(stores: Stores, stop: Stop, every: float) -> None:
    """Send runs until `stop` says so."""

    async def work() -> None:
        await Sender(stores).run(stop, every)

    uvloop.run(work())


def send_due_runs(stores: Stores) -> None:
    """Send all runs that are due, and return."""

    async def work() -> None:
        await Sender(stores).drain()

    uvloop.run(work())


@cache
def connectors() -> Mapping[str, Connector]:
    """All connectors by the names of their systems."""
    found = {each.declaration.name: each for each in (*foreign_connectors(), *OWN)}
    return MappingProxyType(found)


def prepare_runs(organization: Organization, stop: Callable[[], bool] = lambda: False) -> int:
    """Have what happened in an organization make notifications and runs of integrations.

    Args:
        organization: The organization.
        stop: Whether to begin no further batch.

    Returns:
        How many events were evaluated.

    Raises:
        Unavailable: State cannot be reached.
    """
    taken = {name: each.entity_types for name, each in systems().items()}
    return read_log(organization, stop, taken)
