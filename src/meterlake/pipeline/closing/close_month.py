"""The verb `close_month`: from files to exports, step by step, each of them once.

A closing is a job. What each step came to is kept with it, so whoever goes on after a crash, on
whatever machine, begins with the first step that is not done. A step itself is idempotent: one
that was broken off is done again. Between two steps nobody holds the job: a review may take days.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from sqlalchemy import Connection

from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Busy, Conflict, MeterlakeError, NotFound
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.period import Month, Period, format_instant, zone
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.jobs.attempt import Attempt
from meterlake.pipeline.jobs.run_job import hold_job
from meterlake.stores import Organization
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.jobs import AGAIN, LEASES, finish_job, submit, unfinished_jobs

KIND: Final = JobKind.CLOSING
_DONE: Final = "done"
# Who did each of them, and when.
_BY: Final = "by"
# The digest of the bills that somebody was shown.
_SHOWN: Final = "shown"
_REOPENED: Final = "reopened"
_LOOK_S: Final = 1.0


class ClosingStep(StrEnum):
    """What is done, in this order."""

    FILES = "files"
    INGEST = "ingest"
    BACKFILL = "backfill"
    RECONCILE = "reconcile"
    AGGREGATE = "aggregate"
    BILL = "bill"
    REVIEW = "review"
    EXPORT_USAGE = "export-usage"
    EXPORT_OPERATIONAL = "export-operational"
    PUBLISH = "publish"
    DELIVER = "deliver"
    MAINTAIN = "maintain"


class ClosingWords(NamedTuple):
    """What errors call the ways to go on, where somebody closes a month; `{0}` is the month.

    Attributes:
        review: Makes the bills ready and shows them.
        early: What closes a month that is not over.
        also_early: What `review` needs for that.
        reopen: Opens a closed month again.
    """

    review: str
    early: str
    also_early: str
    reopen: str


COMMANDS: Final = ClosingWords(
    "`meterlake close-month {0}{1}`",
    "--early",
    " --early",
    "`meterlake close-month {0} --reopen --reason REASON`",
)
OPERATIONS: Final = ClosingWords(
    "`POST /closings/{0}/review`{1}",
    "`early` with true",
    " with `early`",
    "`POST /closings/{0}/reopen` with a `reason`",
)


class NotOver(Conflict):
    """The month goes on: what it comes to is not known yet."""

    text = (
        "{0} is not over before {1}: usage still comes in. {2} closes it now; its usage that"
        " comes later is late usage, for which the late usage policy of the organization decides"
    )

    def __init__(self, month: str, end: str, early: str) -> None:
        super().__init__(month, end, early)


class NotBegun(Conflict):
    """The month lies in the future, so there is nothing to close."""

    text = "{0} has not begun: it begins at {1}. Close a month that is over, such as `last`"

    def __init__(self, month: str, start: str) -> None:
        super().__init__(month, start)


class Rejected(Conflict):
    """Who reviewed the bills of a month rejected them."""

    text = "the bills of {0} are rejected: {1}; mend that, and close the month again"

    def __init__(self, month: str, reason: str) -> None:
        super().__init__(month, reason)


class Closing:
    """The closing of a month of an organization.

    Args:
        organization: The organization.
        month: In its time zone.
        author: Who does it.
        words: What errors call the ways to go on.
    """

    def __init__(
        self, organization: Organization, month: Month, author: str, words: ClosingWords = COMMANDS
    ) -> None:
        self.organization = organization
        self.month = month
        self.author = author
        self.words = words
        self.id = str(uuid5(NAMESPACE_OID, f"closing {organization.id} {month}"))

    def open(self) -> None:
        """Make the job, or have one that was rejected begin anew."""
        job = self._find()
        if job is None:
            self._submit()
        elif job.status in AGAIN:
            self.organization.state.jobs.retry(self.organization.id, self.id, KIND)

    @property
    def is_closed(self) -> bool:
        """Whether everything is done."""
        job = self._find()
        return job is not None and job.status is JobStatus.COMPLETE

    def outcomes(self) -> dict[str, Any]:
        """What the steps that are done came to, by step."""
        job = self._find()
        # A closing that was rejected keeps a result, too, which the next one knows nothing of.
        if job is None or job.status in AGAIN:
            return {}
        kept = job.result if job.status is JobStatus.COMPLETE else job.progress
        found: dict[str, Any] = kept.get(_DONE, {})
        return found

    def doers(self) -> dict[str, dict[str, str]]:
        """Who did the steps that are done, and when, by step; an older version did not note it."""
        job = self._find()
        if job is None or job.status in AGAIN:
            return {}
        kept = job.result if job.status is JobStatus.COMPLETE else job.progress
        found: dict[str, dict[str, str]] = kept.get(_BY, {})
        return found

    @property
    def is_shown(self) -> bool:
        """Whether somebody was shown the bills as they are."""
        job, bills = self._find(), self.outcomes().get(ClosingStep.BILL)
        if job is None or bills is None:
            return False
        return bool(job.progress.get(_SHOWN) == bills["digest"])

    @property
    def rejection(self) -> str | None:
        """Why its bills were rejected, until the next run begins."""
        job = self._find()
        return job.error if job is not None and job.status is JobStatus.FAILED else None

    @property
    def reopenings(self) -> list[dict[str, Any]]:
        """Who opened it again after it was closed, when and why, the first time first.

        With what its steps had come to, and who had done them; an older version did not keep it.
        """
        job = self._find()
        found: list[dict[str, Any]] = [] if job is None else job.parameters.get(_REOPENED, [])
        return found

    @property
    def how_to_review(self) -> str:
        """What makes the bills ready and shows them; a month that is not over needs more."""
        early = self.words.also_early if self.organization.now() < self._period().end else ""
        return self.words.review.format(self.month, early)

    @property
    def how_to_reopen(self) -> str:
        """What opens the month again after it was closed."""
        return self.words.reopen.format(self.month)

    def export_id(self, step: ClosingStep) -> str:
        """The id of the job of an export: every attempt has the same one, until it is reopened."""
        times = len(self.reopenings)
        again = f" {times}" if times else ""
        return str(uuid5(NAMESPACE_OID, f"{self.id} {step}{again}"))

    def check_over(self, *, early: bool) -> None:
        """Refuse a month that is not over.

        Args:
            early: Whether it is closed all the same, if it has begun.

        Raises:
            NotOver: Its last day is not over in the organization's time zone.
            NotBegun: Its first day has not begun.
        """
        period, now = self._period(), self.organization.now()
        if now < period.start:
            raise NotBegun(str(self.month), format_instant(period.start))
        if now < period.end and not early:
            raise NotOver(str(self.month), format_instant(period.end), self.words.early)

    @property
    def has_begun(self) -> bool:
        """Whether its first day has begun in the organization's time zone."""
        return self.organization.now() >= self._period().start

    def carry_out(self, step: ClosingStep, work: Callable[[], Mapping[str, Any]]) -> dict[str, Any]:
        """Do a step, unless it is done; nobody else does any of this month meanwhile.

        Args:
            step: The step.
            work: Does it, and says what it came to.

        Returns:
            What it came to, now or when it was done.

        Raises:
            Busy: Somebody else works on it.
        """
        if (known := self.outcomes().get(step)) is not None:
            return dict(known)
        with self._attempt() as attempt:
            known = attempt.job.progress.get(_DONE, {})
            if step not in known:
                known = {**known, step.value: dict(work())}
                mark_step("closing.step_done")
                noted = {"author": self.author, "at": format_instant(self.organization.now())}
                by = {**attempt.job.progress.get(_BY, {}), step.value: noted}
                attempt.tell(**{_DONE: known, _BY: by})
        mark_step("closing.step_noted")
        return dict(known[step])

    def forget(self, *steps: ClosingStep) -> None:
        """Have steps done again, unless the bills are approved."""
        with self._attempt() as attempt:
            known = attempt.job.progress.get(_DONE, {})
            if ClosingStep.REVIEW in known:
                return
            attempt.tell(
                **{_DONE: {name: each for name, each in known.items() if name not in steps}}
            )

    def note_shown(self) -> None:
        """Write down that somebody was shown the bills as they are: they may approve them."""
        digest = self.outcomes()[ClosingStep.BILL]["digest"]
        with self._attempt() as attempt:
            attempt.tell(**{_SHOWN: digest})

    def reopen(self, reason: str) -> None:
        """Have a month that is closed begin at its first step again.

        Raises:
            Conflict: It is not closed.
        """
        now = format_instant(self.organization.now())
        noted = {
            "reason": reason,
            "author": self.author,
            "at": now,
            _DONE: self.outcomes(),
            _BY: self.doers(),
        }
        parameters = {"month": str(self.month), _REOPENED: [*self.reopenings, noted]}
        if not self.organization.state.jobs.reopen(self.organization.id, self.id, KIND, parameters):
            raise Conflict(
                f"{self.month} is not closed: there is nothing to reopen;"
                f" {self.how_to_review} goes on with it"
            )

    def reject(self, reason: str) -> None:
        """End it without a result; whoever closes the month again begins at the first step.

        Raises:
            Conflict: Its bills do not wait for a review, or the worker is about to go on with it.
        """
        self._check_waits(self.outcomes())
        self.check_nothing_pending()
        mark_step("closing.rejecting")
        state, job = self.organization.state, self._take_to_reject()
        try:
            mark_step("closing.rejection_taken")
            job.result = {_DONE: job.progress.get(_DONE, {})}
            # Somebody else may have approved them while the job was waited for.
            self._check_waits(job.result[_DONE])
            with state.transaction(self.organization.id, self.author) as transaction:
                # Who asks for a step writes it down in such a transaction, too: one of both is first.
                refuse_pending(
                    unfinished_steps(transaction.connection, self.organization.id, self.month)
                )
                status, error = JobStatus.FAILED, f"rejected: {reason}"
                finish_job(transaction.connection, job, transaction.now, error=error, status=status)
        except BaseException:
            # State may be what failed: then the lease ends by itself.
            with suppress(MeterlakeError):
                state.jobs.release(job)
            raise

    def check_nothing_pending(self) -> None:
        """Refuse to do something while the worker has a step of the month to do.

        Raises:
            Conflict: It has one.
        """
        with self.organization.reading() as reader:
            refuse_pending(unfinished_steps(reader.connection, self.organization.id, self.month))

    def complete(self) -> dict[str, Any]:
        """End it: everything is done.

        Returns:
            What the steps came to.
        """
        if not self.is_closed:
            job = self._take()
            job.result = {name: job.progress.get(name, {}) for name in (_DONE, _BY)}
            self.organization.state.jobs.finish(job)
        return self.outcomes()

    def _period(self) -> Period:
        with self.organization.reading() as reader:
            [record] = reader.all(OrganizationConfig)
        return self.month.period(zone(record.entity.timezone))

    def _find(self) -> Job | None:
        try:
            return self.organization.state.jobs.find(self.organization.id, self.id, KIND)
        except NotFound:
            return None

    def _submit(self) -> None:
        with self.organization.transaction(self.author) as transaction:
            job = Job(
                id=self.id,
                org_id=self.organization.id,
                kind=KIND,
                created=transaction.now,
                parameters={"month": str(self.month)},
                author=self.author,
            )
            submit(transaction.connection, job)

    def _attempt(self) -> AbstractContextManager[Attempt]:
        """The job for as long as the body runs; its progress is written down afterwards."""
        return hold_job(self.organization.stores, self._take())

    def _take(self) -> Job:
        """Take the job; the lease of one who died is waited for.

        Raises:
            Busy: Somebody works on it, or it has ended.
        """
        give_up = time.monotonic() + LEASES[KIND].total_seconds() + 2 * _LOOK_S
        while True:
            try:
                return self.organization.state.jobs.take(self.id, None)
            except Busy:
                ended = self.organization.state.jobs.get(self.id).finished is not None
                if ended or time.monotonic() > give_up:
                    raise
            time.sleep(_LOOK_S)

    def _check_waits(self, done: Mapping[str, Any]) -> None:
        """Refuse to decide about bills that do not wait for a review.

        Args:
            done: What the steps that are done came to.

        Raises:
            Conflict: They do not.
        """
        if ClosingStep.BILL not in done or ClosingStep.REVIEW in done:
            raise Conflict(
                f"the bills of {self.month} do not wait for a review;"
                f" make them ready with {self.how_to_review}"
            )

    def _take_to_reject(self) -> Job:
        try:
            return self._take()
        except Busy:
            # Somebody else rejected them, or closed the month, meanwhile.
            self._check_waits(self.outcomes())
            raise


def unfinished_steps(connection: Connection, org_id: str, month: Month) -> list[Job]:
    """What the worker has to do for a month, or does."""
    found = unfinished_jobs(connection, org_id, JobKind.CLOSING_STEP)
    return [each for each in found if each.parameters["month"] == str(month)]


def refuse_pending(steps: Sequence[Job]) -> None:
    """Refuse to do something else than the worker is about to do.

    Raises:
        Conflict: There is such a step.
    """
    for each in steps:
        raise Conflict(
            f"something else is pending for {each.parameters['month']}:"
            f" {each.parameters['action']}; try again when that has ended"
        )
