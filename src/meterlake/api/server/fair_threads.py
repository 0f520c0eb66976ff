"""Threads for what takes long, shared fairly: nobody's documents hold up the requests of others.

All requests of a process share the threads of Starlette. What takes seconds of a processor there
would keep `/readyz` and the reads of every other organization waiting. So it runs on threads of its
own. Who waits for one is no thread, and organizations take turns.
"""

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Final, ParamSpec, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter

from meterlake.model.errors import TooMany

P = ParamSpec("P")
T = TypeVar("T")

_SECONDS_MAX: Final = 60
# How much the newest request counts for the time that one is expected to take.
_WEIGHT: Final = 0.2
# Operations that take seconds of a processor, or wait for lakes and for other systems. Each that
# changes something does it by one piece of work: between two it could be refused.
COSTLY: Final = frozenset(
    {
        # Bills, calculated or explained anew.
        "DiffBill",
        "DownloadBillDocuments",
        "DownloadBillsCsv",
        "ExplainBill",
        "GetAccountSpend",
        "GetBackfillDifference",
        "GetBillDocument",
        "GetBillJsonStatement",
        "GetBillLineItemJsonUsage",
        "GetChangeProposalEffect",
        "GetClosing",
        "GetLedgerFile",
        "ListLateUsage",
        "PreviewBill",
        "ProposePriceScale",
        "PreviewPriceChange",
        "TryAggregation",
        "TryMapping",
        "VerifyBill",
        # Queries of lakes.
        "ExplainQuantity",
        "GetAccountUsage",
        "GetBackfillMeasurements",
        "GetMeasurementsStatus",
        "GetRejectedRow",
        "GetUsageReport",
        "ListRejectedRows",
        "ListSources",
        "PostQueryBillData",
        "PostQueryBillDataDownloadCsv",
        "PostQueryBillDataDownloadJson",
        "PostQueryCommitmentLineItems",
        "PostQueryCommitments",
        "PostQueryCommitmentsDownloadCsv",
        "PostQueryCommitmentsDownloadJson",
        "PostQueryDimensionValues",
        "PostQueryMeterDimensions",
        "PostQueryMeters",
        "PostQueryObligations",
        "PostQueryObligationsDownloadCsv",
        "PostQueryObligationsDownloadJson",
        "PostQueryRemainingCommitments",
        "PostQueryUsageData",
        "PostQueryUsageDataDownloadCsv",
        "PostQueryUsageDataDownloadJson",
        "PostUsageDataQuery",
        "QueryUsageSavedQuery",
        # Very many rows at once.
        "GetMargins",
        "GetRevenue",
        "CopyLookupTableRevisionData",
        "ReplayWebhook",
        # Other systems, which may be slow or silent; also servers of names, which somebody chose.
        "CheckExportDestination",
        "GetDataExportFileUrl",
        "GetDataExportManifest",
        "VerifyDataExport",
        "CheckInbox",
        "CreateWebhookDestination",
        "PingWebhook",
        "PostIntegrationConfig",
        "UpdateIntegrationConfig",
        "UpdateWebhookDestination",
        "GetConfigOptionValues",
        "GetExternalMappingOptionsForDestination",
        "GetExternalMappingOptionsForDestinationForCredentialsId",
    }
)


class FairThreads:
    """A number of threads, and who has or waits for one; for one event loop.

    Everybody has as many as are free, but for one: that is kept for who has none.
    """

    def __init__(self, at_once: int, waiting_max: int, name: str) -> None:
        """Share threads.

        Args:
            at_once: How many threads there are.
            waiting_max: How many requests of one may wait.
            name: What they do, for refusals.
        """
        self._at_once = at_once
        self._share = max(1, at_once - 1)
        self._waiting_max = waiting_max
        self._name = name
        self._limiter = CapacityLimiter(at_once)
        self._running: Counter[str] = Counter()
        # In the order of turns: who was served goes to the end.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._seconds = 1.0

    async def run(
        self, whose: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run something on one of the threads, when it is whose turn.

        Raises:
            TooMany: As many of theirs wait as may.
        """
        await self._enter(whose)
        begun = time.monotonic()
        try:
            work = partial(function, *args, **kwargs)
            return await anyio.to_thread.run_sync(work, limiter=self._limiter)
        finally:
            self._seconds += _WEIGHT * (time.monotonic() - begun - self._seconds)
            self._leave(whose)

    async def _enter(self, whose: str) -> None:
        if self._may_run(whose) and not self._waiting.get(whose):
            self._running[whose] += 1
            return
        queue = self._waiting.setdefault(whose, deque())
        if len(queue) >= self._waiting_max:
            seconds = math.ceil(self._seconds * (len(queue) + 1) / self._share)
            raise TooMany(self._name, min(max(1, seconds), _SECONDS_MAX))
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(whose)
            else:
                queue.remove(turn)
            raise

    def _may_run(self, whose: str) -> bool:
        return self._running.total() < self._at_once and self._running[whose] < self._share

    def _leave(self, whose: str) -> None:
        self._running[whose] -= 1
        if not self._running[whose]:
            del self._running[whose]
        # Who has the fewest is first; among those, who waits since the most turns.
        for each in sorted(self._waiting, key=self._running.__getitem__):
            queue = self._waiting[each]
            if queue and not self._may_run(each):
                continue
            del self._waiting[each]
            if queue:
                self._running[each] += 1
                queue.popleft().set_result(None)
            if queue:
                self._waiting[each] = queue
