"""What a connector is: it makes one request of a run, sends it, and says what the answer means.

The sender does the rest: when a run is tried, how often, how many at a time, what is written down.
A run may be tried again although it had arrived, because the sender died before it wrote that down.
So a connector names the same `idempotency_key` in all tries, or looks for what arrived before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Protocol, runtime_checkable

from meterlake.model.configuration.integration_systems import IntegrationSystem
from meterlake.model.configuration.integrations import (
    IntegrationConfig,
    RunStatus,
    WebhookDestination,
)
from meterlake.model.values.entity import Record
from meterlake.pipeline.integrations.http_client import HttpClient
from meterlake.stores import Organization
from meterlake.stores.state.integrations.runs import RunContent


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One try of a run.

    Attributes:
        run_id: The id of the run, the same in all tries.
        number: Of the try; the first one is 1.
        time: When the try begins.
        content: What is sent where, and why.
        config: The configuration of the integration; None if the run has none, or it is deleted.
        webhook: The webhook that the run names, if it names one.
        secrets: The webhook's secret, and those that it replaced a short time ago; encrypted.
        client: Sends requests to addresses that the settings allow, and to no others.
    """

    organization: Organization
    run_id: str
    number: int
    time: datetime
    content: RunContent
    client: HttpClient
    config: Record[IntegrationConfig] | None = None
    webhook: Record[WebhookDestination] | None = None
    secrets: tuple[str, ...] = ()

    @property
    def idempotency_key(self) -> str:
        """What makes it unique, also if the run is replayed: of a bill its configuration and version."""
        return self.content.original_key


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What was sent and what was answered, as people may read it: without secrets.

    Attributes:
        request: Method, address and headers, and the body unless the run has it; or a description.
        status_code: Of the answer.
        response: The beginning of the answer.
    """

    request: str = ""
    status_code: int | None = None
    response: str | None = None


NOTHING_SENT: Final = Exchange()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The other system took it.

    Attributes:
        external_id: What it is called there.
        url: Where one sees it there.
    """

    exchange: Exchange = NOTHING_SENT
    external_id: str | None = None
    url: str | None = None


class FailureKind(StrEnum):
    """Why a try failed; `FAILURES` says what follows."""

    # The other system wants fewer requests: 429.
    RATE_LIMITED = "RATE_LIMITED"
    # It does not answer in time, cannot be reached, or has an error of its own.
    UNAVAILABLE = "UNAVAILABLE"
    # It refuses what another try may make it take: it is not there yet, it was moved.
    REFUSED = "REFUSED"
    # The same for credentials.
    FORBIDDEN = "FORBIDDEN"
    # It does not know the credentials, and no further try changes that.
    UNAUTHENTICATED = "UNAUTHENTICATED"
    # It refuses the data, and no further try changes that.
    REJECTED = "REJECTED"
    # Nothing can be sent: the configuration or the data is not as the system needs it.
    INVALID = "INVALID"
    # The account, or something else, has no mapping to the other system.
    MAPPING_MISSING = "MAPPING_MISSING"
    # The invoice there is paid and does not change any more.
    ALREADY_PAID = "ALREADY_PAID"
    # The books of the time are closed there.
    PERIOD_CLOSED = "PERIOD_CLOSED"
    # Nobody is to send there any more: 410.
    GONE = "GONE"
    # It cannot be sent yet, and other runs can.
    TOO_EARLY = "TOO_EARLY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The try failed.

    Attributes:
        kind: What follows from it.
        error: What people read about it; without secrets.
        retry_after: How long the other system wants to be left alone.
        details: More fields of the event, if it is the end of the run.
    """

    kind: FailureKind
    error: str
    exchange: Exchange = NOTHING_SENT
    retry_after: timedelta | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


Outcome = Sent | Failed


@dataclass(frozen=True, slots=True)
class Consequence:
    """What follows from a kind of failure.

    Attributes:
        end: The status of a run that ends with it.
        event: The event of a run that ends with it.
        waiting: The status until the next try; None if there is none.
        is_health: Whether it is the destination that fails, whatever is sent there.
    """

    end: RunStatus
    event: str
    waiting: RunStatus | None = None
    is_health: bool = False


_AUTHENTICATION: Final = "integration.authentication.error"
_PERFORM: Final = "integration.perform.error"
_VALIDATION: Final = "integration.validation.error"
_MAPPING: Final = "integration.missingaccountmapping.error"
DISABLED_EVENT: Final = "integration.disabled.error"
_RETRY: Final = RunStatus.AWAITING_RETRY

FAILURES: Final[Mapping[FailureKind, Consequence]] = {
    FailureKind.RATE_LIMITED: Consequence(
        RunStatus.TIMEOUT_LIMIT_EXCEEDED, _PERFORM, RunStatus.RATE_LIMIT_RETRY, is_health=True
    ),
    FailureKind.UNAVAILABLE: Consequence(
        RunStatus.TIMEOUT_LIMIT_EXCEEDED, _PERFORM, _RETRY, is_health=True
    ),
    FailureKind.REFUSED: Consequence(RunStatus.ERROR, _PERFORM, _RETRY, is_health=True),
    FailureKind.FORBIDDEN: Consequence(
        RunStatus.AUTH_FAILED, _AUTHENTICATION, _RETRY, is_health=True
    ),
    FailureKind.UNAUTHENTICATED: Consequence(RunStatus.AUTH_FAILED, _AUTHENTICATION),
    FailureKind.REJECTED: Consequence(RunStatus.ERROR, _PERFORM),
    FailureKind.INVALID: Consequence(RunStatus.ERROR, _VALIDATION),
    FailureKind.MAPPING_MISSING: Consequence(RunStatus.ERROR, _MAPPING),
    FailureKind.ALREADY_PAID: Consequence(RunStatus.INVOICE_ALREADY_PAID, _PERFORM),
    FailureKind.PERIOD_CLOSED: Consequence(RunStatus.ACCOUNTING_PERIOD_CLOSED, _PERFORM),
    FailureKind.GONE: Consequence(RunStatus.ERROR, _PERFORM, is_health=True),
    FailureKind.TOO_EARLY: Consequence(
        RunStatus.TIMEOUT_LIMIT_EXCEEDED, _PERFORM, RunStatus.RATE_LIMIT_RETRY
    ),
}

# The other system does not know, or does not let in, who calls.
REFUSALS: Final = frozenset({FailureKind.FORBIDDEN, FailureKind.UNAUTHENTICATED})


class Connector(Protocol):
    """Sends runs to one system.

    Attributes:
        declaration: The system: its name, what it takes, how it is configured and signed in to.
        concurrency: How many tries of one destination it makes at the same time.
    """

    @property
    def declaration(self) -> IntegrationSystem: ...  # noqa: D102
    @property
    def concurrency(self) -> int: ...  # noqa: D102

    async def send(self, outgoing: Outgoing) -> Outcome:
        """Make the request of one try, send it, and read the answer.

        It runs in a loop with all others: what blocks belongs into `asyncio.to_thread`. What it
        raises counts as a failure of the kind UNAVAILABLE, and is logged.
        """
        ...


@runtime_checkable
class BatchConnector(Protocol):
    """A connector that sends several runs of one configuration in one call.

    Attributes:
        batch: How many runs it takes at most.
    """

    @property
    def batch(self) -> int: ...  # noqa: D102

    async def send_many(self, outgoings: Sequence[Outgoing]) -> Sequence[Outcome]:
        """Send the tries of several runs of the same version of a configuration.

        Returns:
            The outcome of each, in the order of the tries.
        """
        ...


@runtime_checkable
class TakesBack(Protocol):
    """A connector that takes back what it sent of a bill that is deleted."""

    async def take_back(self, outgoing: Outgoing) -> Outcome:
        """Have the other system be as if the bill had never been sent.

        It may come again after it succeeded, and for a bill of which nothing arrived. What cannot
        be taken back is a failure whose text names it.
        """
        ...


def batch_of(connector: Connector) -> int:
    """How many runs a connector takes at a time: one, unless it says more."""
    return connector.batch if isinstance(connector, BatchConnector) else 1


async def send_together(connector: Connector, outgoings: Sequence[Outgoing]) -> list[Outcome]:
    """Send the tries of one call.

    Raises:
        TypeError: What comes back are not as many outcomes: a connector may be somebody else's.
    """
    sent = [each for each in outgoings if not each.content.is_deletion]
    if isinstance(connector, BatchConnector) and sent:
        outcomes = list(await connector.send_many(sent))
    else:
        outcomes = [await connector.send(each) for each in sent]
    if len(outcomes) != len(sent):
        raise TypeError(f"{len(outcomes)} outcomes of {len(sent)} tries")
    for number, each in enumerate(outgoings):
        if each.content.is_deletion:
            outcomes.insert(number, await _take_back(connector, each))
    for outcome in outcomes:
        if not isinstance(outcome, Sent | Failed):
            raise TypeError(f"{type(outcome).__name__} is no outcome")
    return outcomes


async def _take_back(connector: Connector, outgoing: Outgoing) -> Outcome:
    if isinstance(connector, TakesBack):
        return await connector.take_back(outgoing)
    name, bill = connector.declaration.display_name, outgoing.content.entity_id
    error = f"{name} takes nothing back: remove bill {bill} there by hand"
    return Failed(kind=FailureKind.REJECTED, error=error)
