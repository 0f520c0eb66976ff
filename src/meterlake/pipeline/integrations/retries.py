"""What follows from the outcome of a try: the next try, the end of the run, a pause, an end."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from random import SystemRandom
from typing import Final

from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.values.untrusted import storable
from meterlake.pipeline.integrations.connectors.connector import (
    FAILURES,
    Failed,
    FailureKind,
    Outcome,
    Sent,
)
from meterlake.pipeline.integrations.connectors.safe_answers import Echoes, web_address
from meterlake.stores.state.integrations.health import HEALTHY, Health
from meterlake.stores.state.integrations.queues import ClaimedRun, RunStep, RunTry

# The schedule that Standard Webhooks gives as an example: ten tries within 75 hours.
PAUSES: Final[Sequence[timedelta]] = (
    timedelta(seconds=5),
    timedelta(minutes=5),
    timedelta(minutes=30),
    *(timedelta(hours=hours) for hours in (2, 5, 10, 14, 20, 24)),
)
# Pauses are longer by up to this part, so that what failed together does not come back together.
JITTER: Final = 0.1
# After so many failures in a row a destination has pauses.
FAILURES_MAX: Final = 5
# A pause is this part of the time that the destination has been failing.
_PAUSE_PART: Final = 0.25
_PAUSE_MIN: Final = timedelta(seconds=10)
_PAUSE_MAX: Final = timedelta(minutes=15)
GIVEN_UP_AFTER: Final = timedelta(days=5)
_random: Final = SystemRandom()


def step_after(run: ClaimedRun, outcome: Outcome, started: datetime, ended: datetime) -> RunStep:
    """What becomes of a run after a try."""
    tried = RunTry(
        number=run.tries + 1,
        started=started,
        ended=ended,
        request=outcome.exchange.request,
        status_code=outcome.exchange.status_code,
        response=outcome.exchange.response,
    )
    if isinstance(outcome, Sent):
        return RunStep(
            run=run,
            status=RunStatus.COMPLETE,
            tried=tried,
            external_id=outcome.external_id,
            url=outcome.url,
        )
    tried = replace(tried, error=outcome.error)
    consequence = FAILURES[outcome.kind]
    if consequence.waiting is None or tried.number > len(PAUSES):
        return RunStep(run=run, status=consequence.end, tried=tried, error=outcome.error)
    pause = PAUSES[tried.number - 1] * (1 + JITTER * _random.random())
    pause = max(pause, outcome.retry_after or timedelta())
    due = ended + pause
    return RunStep(run=run, status=consequence.waiting, due=due, tried=tried, error=outcome.error)


def clean_outcome(outcome: Outcome, echoes: Echoes) -> Outcome:
    """What a connector says, fit to be kept: whatever strangers put into it, and without secrets."""

    def clean(text: str | None) -> str | None:
        return None if text is None else storable(echoes.mask(storable(text)))

    said = outcome.exchange
    exchange = replace(said, request=clean(said.request) or "", response=clean(said.response))
    if isinstance(outcome, Sent):
        url = web_address(outcome.url)
        id_, url = clean(outcome.external_id), None if url is None or echoes.finds(url) else url
        return replace(outcome, exchange=exchange, external_id=id_, url=url)
    details = {
        name: clean(value) if isinstance(value, str) else value
        for name, value in outcome.details.items()
    }
    error = clean(outcome.error) or ""
    return replace(outcome, exchange=exchange, error=error, details=details)


def health_after(before: Health, outcome: Outcome, started: datetime, ended: datetime) -> Health:
    """How a destination is doing after a try."""
    if isinstance(outcome, Sent):
        return HEALTHY
    if not FAILURES[outcome.kind].is_health:
        return before
    since = before.failing_since or started
    failures = before.failures + 1
    after = replace(before, failures=failures, failing_since=since)
    ends = [each for each in (after.paused_until,) if each is not None]
    if outcome.retry_after:
        ends.append(ended + outcome.retry_after)
    if after.failures >= FAILURES_MAX and after.failing_since is not None:
        failing = (ended - after.failing_since) * _PAUSE_PART
        pause = min(max(failing, _PAUSE_MIN), _PAUSE_MAX)
        ends.append(ended + pause * (1 + JITTER * _random.random()))
    until = max(ends, default=None)
    disabled = _reason_to_disable(after, outcome, ended)
    if disabled is None:
        return replace(after, paused_until=until)
    return replace(after, paused_until=None, disabled=ended, reason=disabled)


def _reason_to_disable(health: Health, failed: Failed, ended: datetime) -> str | None:
    if failed.kind is FailureKind.GONE:
        return "the receiver answered 410: it wants nothing any more"
    if health.failing_since is None or ended - health.failing_since < GIVEN_UP_AFTER:
        return None
    since = health.failing_since.isoformat(timespec="seconds")
    return f"all tries have failed since {since}; the last one: {failed.error}"
