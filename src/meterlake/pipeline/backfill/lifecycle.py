"""The life of a backfill: staged, then applied or dropped; what is applied can be reverted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

import duckdb

from meterlake.model.errors import Busy, Conflict, MeterlakeError, NotFound, Unavailable
from meterlake.model.values import wire
from meterlake.model.values.failpoint import mark_step
from meterlake.model.work.backfill import (
    Action,
    Backfill,
    BackfillSpec,
    BackfillStatus,
    Mode,
    check_backfill_id,
)
from meterlake.pipeline.backfill import copies, reaggregate, rederive, retract
from meterlake.pipeline.backfill import replace as replacement
from meterlake.pipeline.backfill.edits import edit, last
from meterlake.pipeline.backfill.job import BackfillJob, lock_backfill
from meterlake.pipeline.jobs.progress import Progress, untold
from meterlake.stores import Organization
from meterlake.stores.files.durable import make_folder, write_durably
from meterlake.stores.lake.backfill.changes import MeterChange
from meterlake.stores.lake.backfill.steps import Next
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.ingest.backfills import Backfills

LISTED: Final = 50
_NOT_YET: Final = -1
# Staging such a backfill again would say something else than what was done.
_ENDED: Final = (BackfillStatus.APPLIED, BackfillStatus.DROPPED)
# Whoever asks for such a one once more did not mean it to begin again.
_CLOSED: Final = (*_ENDED, BackfillStatus.REVERTED)

Change = Callable[[BackfillJob, duckdb.DuckDBPyConnection, Next], None]


StagedChanges = Callable[[BackfillJob], AbstractContextManager[list[MeterChange]]]


def _no_changes(_: BackfillJob) -> AbstractContextManager[list[MeterChange]]:
    return nullcontext([])


@dataclass(frozen=True, slots=True)
class Verbs:
    """What a mode does: `stage` outside of the lake's lock, the others in one transaction each.

    Attributes:
        changes: What of measurements a staged one changes, meter by meter.
    """

    stage: Callable[[BackfillJob], dict[str, Any]]
    apply: Callable[[BackfillJob], int]
    revert: Callable[[BackfillJob], int]
    changes: StagedChanges = _no_changes


def _edit(action: Action, change: Change) -> Callable[[BackfillJob], int]:
    return lambda job: edit(job, action, lambda connection, step: change(job, connection, step))


def _in_lake(
    stage: Callable[[BackfillJob], dict[str, Any]],
    change: Change,
    undo: Change,
    changes: StagedChanges = _no_changes,
) -> Verbs:
    return Verbs(stage, _edit(Action.APPLY, change), _edit(Action.REVERT, undo), changes)


VERBS: Final[Mapping[Mode, Verbs]] = MappingProxyType(
    {
        Mode.RETRACT: _in_lake(retract.stage, retract.change, retract.undo, retract.staged_changes),
        Mode.REAGGREGATE: _in_lake(reaggregate.stage, reaggregate.change, reaggregate.undo),
        Mode.REDERIVE: _in_lake(
            rederive.stage, rederive.change, rederive.undo, rederive.staged_changes
        ),
        Mode.REPLACE: Verbs(
            replacement.stage,
            replacement.apply,
            _edit(Action.REVERT, replacement.undo),
            replacement.staged_changes,
        ),
    }
)


@dataclass(frozen=True, slots=True)
class Order:
    """What somebody asks for.

    Attributes:
        author: Who asks.
        id: The id of the backfill; a new one when None.
        files: With the mode replace: the files that take the place of measurements.
        mapping: How to read these, if they were not made for us.
    """

    spec: BackfillSpec
    author: str
    id: str | None = None
    files: Sequence[Path] = ()
    mapping: Path | None = None


def new_id() -> str:
    """An id for a backfill, for whoever may have to repeat himself."""
    return str(uuid4())


def start(organization: Organization, order: Order, progress: Progress = untold) -> Backfill:
    """Stage a backfill: find out what it changes; nobody sees anything of it yet.

    Safe to repeat with the same id: what a crash left is continued, what is staged is looked at
    again only if the lake, the configuration or the files have changed since, what is applied, dropped or reverted stays as it is.

    Args:
        organization: The organization.
        order: What is asked for.
        progress: Told how many parts of the work are done, each a month of a meter or so.

    Raises:
        Invalid: What is wanted makes no sense, or a file is not there.
        NotFound: What it is about is not there.
        Conflict: The id belongs to a backfill of something else, or of other files.
        Busy: Another process works on it.
        Unavailable: A store failed; start it again with its id.
    """
    with _create_locked(organization, order, progress) as job:
        return job.backfill if job.backfill.status in _CLOSED else _stage(job)


def note(organization: Organization, order: Order) -> Backfill:
    """Write down what is asked for and keep its files, so that it can be staged later.

    Raises:
        Invalid, NotFound, Conflict, Busy, Unavailable: As `start` says.
    """
    with _create_locked(organization, order) as job:
        return job.backfill


@contextmanager
def _create_locked(
    organization: Organization, order: Order, progress: Progress = untold
) -> Iterator[BackfillJob]:
    """A backfill that is written down, and locked for as long as the body runs."""
    order.spec.check()
    chosen = check_backfill_id(order.id) if order.id else new_id()
    with lock_backfill(organization, chosen):
        found = _settle_by_lake(
            organization,
            Backfills(organization.state, organization.id).find(chosen),
            order.author,
        )
        if found is not None and found.spec != order.spec:
            raise Conflict(f"backfill {chosen!r} is about something else; take another id")
        if order.files and (found is None or found.status not in _CLOSED):
            replacement.check_files(order.files, order.mapping)
        # The row comes first: a folder without one belongs to nobody.
        begun = found or _store(
            organization,
            Backfill(
                *(chosen, organization.id, order.spec, BackfillStatus.STAGING, order.author),
                organization.now(),
                snapshot=_NOT_YET,
            ),
        )
        mark_step("backfill.noted")
        job = BackfillJob(organization, begun, order.author, progress)
        ended = begun.status in _CLOSED
        if order.files:
            copies.fetch_sources(job)
            replacement.keep_sources(job, list(order.files), order.mapping, ended=ended)
            if not ended:
                copies.save_sources(job)
        yield job


def restart(
    organization: Organization, id: str, author: str, progress: Progress = untold
) -> Backfill:
    """Stage a backfill once more that is there already, also one that was reverted.

    Raises:
        NotFound: There is no such backfill.
        Conflict, Busy, Unavailable: As `start` says.
    """
    with lock_backfill(organization, check_backfill_id(id)):
        found = _get_settled(organization, id, author)
        return _stage(BackfillJob(organization, found, author, progress))


def apply(
    organization: Organization, id: str, author: str, progress: Progress = untold
) -> Backfill:
    """Make what a backfill staged visible, in one commit; one that is applied stays as it is.

    Raises:
        NotFound: There is no such backfill.
        Conflict: It is not staged, or the lake or the configuration has changed since.
        Busy: Another process works on it.
        Unavailable: A store failed; apply it again.
    """
    with lock_backfill(organization, check_backfill_id(id)):
        found = _get_settled(organization, id, author)
        if found.status is BackfillStatus.APPLIED:
            return found
        _refuse_unless(found, (BackfillStatus.STAGED,), "applied")
        job = BackfillJob(organization, found, author, progress)
        copies.require_staged(job)
        try:
            made = VERBS[job.backfill.spec.mode].apply(job)
        except Busy:
            raise
        except Conflict:
            # Also if the lake has not changed, it has to be looked at again.
            job.folder.clear(job.folder.configured)
            raise
        done = found.done(Action.APPLY, organization.now(), author)
        return _store(organization, replace(done, status=BackfillStatus.APPLIED, applied=made))


def drop(organization: Organization, id: str, author: str) -> Backfill:
    """Throw away what a backfill staged; it stays in the history.

    Raises:
        NotFound: There is no such backfill.
        Conflict: It is applied, or was.
        Busy: Another process works on it.
    """
    with lock_backfill(organization, check_backfill_id(id)):
        found = _get_settled(organization, id, author)
        if found.status is not BackfillStatus.DROPPED:
            open_ = (BackfillStatus.STAGING, BackfillStatus.STAGED, BackfillStatus.FAILED)
            _refuse_unless(found, open_, "dropped")
            done = found.done(Action.DROP, organization.now(), author)
            found = _store(organization, replace(done, status=BackfillStatus.DROPPED))
            mark_step("backfill.dropped")
        job = BackfillJob(organization, found, author)
        job.folder.clear(job.folder.path)
        copies.drop_copies(job)
        return found


def revert(organization: Organization, id: str, author: str) -> Backfill:
    """Undo an applied backfill: what it changed is as it was before.

    Raises:
        NotFound: There is no such backfill.
        Conflict: It is not applied, or something was built on it since.
        Busy: Another process works on it.
        Unavailable: A store failed; revert it again.
    """
    with lock_backfill(organization, check_backfill_id(id)):
        found = _get_settled(organization, id, author)
        if found.status is BackfillStatus.REVERTED:
            return found
        _refuse_unless(found, (BackfillStatus.APPLIED,), "reverted")
        job = BackfillJob(organization, found, author)
        copies.require_staged(job)
        VERBS[found.spec.mode].revert(job)
        done = found.done(Action.REVERT, organization.now(), author)
        return _store(organization, replace(done, status=BackfillStatus.REVERTED, applied=None))


def note_failure(organization: Organization, id: str, author: str, why: str) -> Backfill:
    """Write into the history that somebody wanted something that could not be done.

    Raises:
        NotFound: There is no such backfill.
        Busy: Another process works on it.
    """
    with lock_backfill(organization, check_backfill_id(id)):
        found = _get_settled(organization, id, author)
        return _store(organization, found.done(Action.FAIL, organization.now(), author, why))


@contextmanager
def open_staged(
    organization: Organization,
    id: str,
    allowed: Sequence[BackfillStatus] = (BackfillStatus.STAGED,),
) -> Iterator[tuple[Backfill, list[MeterChange]]]:
    """A staged backfill and what it changes of measurements, meter by meter; nobody else works on it.

    Args:
        organization: The organization.
        id: That of the backfill.
        allowed: Where it may stand.

    Raises:
        NotFound: There is no such backfill.
        Conflict: It is not staged, or what it was staged with has changed since.
        Busy: Another process works on it.
        Unavailable: A store failed.
    """
    with lock_backfill(organization, check_backfill_id(id)):
        found = show(organization, id)
        _refuse_unless(found, allowed, "looked at row by row")
        job = BackfillJob(organization, found, found.author)
        copies.require_staged(job)
        with VERBS[found.spec.mode].changes(job) as changes:
            yield found, changes


def show(organization: Organization, id: str) -> Backfill:
    """One backfill.

    Raises:
        NotFound: There is none.
    """
    return Backfills(organization.state, organization.id).get(id)


def history(
    organization: Organization, limit: int = LISTED, status: BackfillStatus | None = None
) -> list[Backfill]:
    """The newest backfills, the newest first."""
    return Backfills(organization.state, organization.id).newest(limit, status)


def list_backfills(
    organization: Organization, page: Page, status: BackfillStatus | None = None
) -> tuple[list[Backfill], str | None]:
    """One page of backfills, the newest first, and the token of the next page.

    Raises:
        Invalid: The token is none that a list gave.
    """
    return Backfills(organization.state, organization.id).page(page, status)


def _store(organization: Organization, backfill: Backfill) -> Backfill:
    return Backfills(organization.state, organization.id).put(backfill)


def _refuse_unless(found: Backfill, allowed: Sequence[BackfillStatus], what: str) -> None:
    if found.status not in allowed:
        states = " or ".join(each.value for each in allowed)
        raise Conflict(
            f"backfill {found.id!r} is {found.status.value} and cannot be {what}: it must be {states} for that; begin another one"
        )


def _get_settled(organization: Organization, id: str, author: str) -> Backfill:
    found = _settle_by_lake(
        organization, Backfills(organization.state, organization.id).find(id), author
    )
    if found is None:
        raise NotFound("backfill", id)
    return found


def _settle_by_lake(
    organization: Organization, found: Backfill | None, author: str
) -> Backfill | None:
    """A backfill as the lake says: whoever applied or reverted it may have died before saying so."""
    if found is None:
        return found
    replacement.tidy(BackfillJob(organization, found, author))
    step = last(BackfillJob(organization, found, author))
    if step is None:
        return found
    applied = step.action is Action.APPLY
    if applied and found.status is not BackfillStatus.APPLIED:
        done = found.done(Action.APPLY, organization.now(), author)
        return _store(organization, replace(done, status=BackfillStatus.APPLIED, applied=step.made))
    if not applied and found.status is BackfillStatus.APPLIED:
        done = found.done(Action.REVERT, organization.now(), author)
        return _store(organization, replace(done, status=BackfillStatus.REVERTED, applied=None))
    return found


def _stage(job: BackfillJob) -> Backfill:
    found = job.backfill
    if found.status in _ENDED:
        return found
    copies.fetch_sources(job)
    copies.fetch_staged(job)
    versions = job.organization.configuration().versions()
    configured = sha256(wire.dumps_sorted(versions).encode()).hexdigest()
    unchanged = found.status is BackfillStatus.STAGED and found.snapshot == job.lake.snapshot()
    if unchanged and job.folder.staged_with(configured):
        return found
    # Write down that a backfill is being staged, and from which snapshot: now that one stays.
    if job.backfill.status is BackfillStatus.STAGING and job.backfill.snapshot != _NOT_YET:
        begun = job.backfill  # Whoever began died: its snapshot is still the right one.
    else:
        # Under the lock no upkeep can let go of the snapshot before it is written down.
        with job.lake.lock():
            snapshot = job.lake.snapshot()
            staging = BackfillStatus.STAGING
            begun = replace(job.backfill, status=staging, snapshot=snapshot, summary={})
            begun = _store(job.organization, begun)
    job = replace(job, backfill=begun)
    make_folder(job.folder.path)
    with write_durably(job.folder.configured) as temporary:
        temporary.write_text(configured)
    mark_step("backfill.begun")
    try:
        summary = VERBS[found.spec.mode].stage(job)
        copies.save_staged(job)
    except Unavailable:
        raise
    except MeterlakeError as error:
        failed = job.backfill.done(Action.FAIL, job.now, job.author, str(error))
        _store(job.organization, replace(failed, status=BackfillStatus.FAILED))
        raise
    mark_step("backfill.staged")
    done = job.backfill.done(Action.STAGE, job.now, job.author)
    return _store(job.organization, replace(done, status=BackfillStatus.STAGED, summary=summary))
