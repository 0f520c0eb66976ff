"""Closings that are asked for over the API: the worker does what takes long.

Making bills for a review and everything behind an approval may take minutes. So it is written down
as a job and answered at once; the closing says what is pending, and why the last one failed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.errors import Conflict
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import Month
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.billing.two_persons import refuse_own_work
from meterlake.pipeline.closing.bill_review import KnownPoints, KnownReviews, late_files_error
from meterlake.pipeline.closing.close_month import (
    OPERATIONS,
    Closing,
    ClosingStep,
    refuse_pending,
    unfinished_steps,
)
from meterlake.pipeline.closing.closing_bills import (
    OtherReview,
    begin_review_again,
    bills_of_month,
)
from meterlake.pipeline.closing.closing_steps import check_backfills, close_month
from meterlake.pipeline.closing.left_open import LeftOpen
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.ingest.expected_files import missing_files
from meterlake.pipeline.jobs.job_spec import JobSpec, one
from meterlake.pipeline.jobs.run_job import JobRun
from meterlake.stores import Organization
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.billing.bills.summaries import read_month_bills
from meterlake.stores.state.billing.bills.totals import MonthTotal, read_month_totals
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.jobs import AGAIN, JobFilters, read_job, submit

KIND: Final = JobKind.CLOSING_STEP
# Bills that a document lists, the largest first; it says how many there are.
_BILLS_MAX: Final = 200
# Jobs that are looked through for the newest one of a month.
_JOBS_MAX: Final = 1_000
# Whoever looks at a month looks again.
_REVIEWS: Final = KnownReviews()
# What a bill is counted as that is approved and locked.
_LOCKED: Final = "LOCKED"


class ClosingAction(StrEnum):
    """What the worker does with a month."""

    REVIEW = "review"
    APPROVE = "approve"


class ClosingStatus(StrEnum):
    """Where the closing of a month stands."""

    NOT_STARTED = "NOT_STARTED"
    STARTED = "STARTED"
    IN_REVIEW = "IN_REVIEW"
    REJECTED = "REJECTED"
    APPROVED = "APPROVED"
    CLOSED = "CLOSED"


@dataclass(frozen=True, slots=True)
class ClosingRequest:
    """What is asked for.

    Attributes:
        review: Which bills are approved: what the closing that was shown said.
        early: Whether a month is closed that is not over.
        files: Patterns of names of files that have to be there.
        backfills: The ids of staged backfills that are applied before quantities are made.
        left_open: The bills that the approval leaves out.
    """

    action: ClosingAction
    review: str | None = None
    early: bool = False
    files: tuple[str, ...] = ()
    backfills: tuple[str, ...] = ()
    left_open: tuple[LeftOpen, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """The request as parameters of a job."""
        return {
            "action": self.action.value,
            "review": self.review,
            "early": self.early,
            "files": list(self.files),
            "backfills": list(self.backfills),
            "leftOpen": [list(each) for each in self.left_open],
        }

    @classmethod
    def from_wire(cls, found: dict[str, Any]) -> "ClosingRequest":
        """The request of a job."""
        return cls(
            ClosingAction(found["action"]),
            found["review"],
            found["early"],
            tuple(found["files"]),
            tuple(found["backfills"]),
            # A job of an earlier version has none.
            tuple(LeftOpen(*each) for each in found.get("leftOpen", ())),
        )


def describe_closing(
    organization: Organization, month: Month, *, is_known_enough: bool = False
) -> Document:
    """Where the closing of a month stands, its bills, and what is open about them.

    Args:
        organization: The organization.
        month: The month.
        is_known_enough: Whether what is open may be what was known before; see `KnownReviews.look`.
    """
    closing = Closing(organization, month, SYSTEM)
    job, done, status = _newest(organization, month), closing.outcomes(), _status(closing)
    bills, made = bills_of_month(closing), done.get(ClosingStep.BILL, {})
    points = _open_points(closing, is_known_enough=is_known_enough)
    found = {
        "month": str(month),
        "status": status.value,
        "pending": job.parameters["action"] if job and job.finished is None else None,
        "failed": job.error if job and job.status is JobStatus.FAILED else None,
        "review": made.get("digest") if status is ClosingStatus.IN_REVIEW else None,
        "rejected": closing.rejection,
        "steps": _steps(done, closing.doers()),
        "remaining": [] if closing.is_closed else [e.value for e in ClosingStep if e not in done],
        "billCount": len(bills),
        "totals": _totals(organization, month),
        "bills": [each.to_wire() for each in bills[:_BILLS_MAX]],
        "open": [each.to_wire() for each in points.findings],
        "openAt": points.at,
        "openIsCurrent": points.is_current,
        "left": list(made.get("left", ())),
        "reopenings": [
            {
                **{name: each[name] for name in ("reason", "author", "at")},
                "steps": _steps(each.get("done", {}), each.get("by", {})),
            }
            for each in closing.reopenings
        ],
    }
    return {name: value for name, value in found.items() if value is not None}


def _steps(
    done: Mapping[str, Mapping[str, Any]], doers: Mapping[str, Mapping[str, str]]
) -> list[Document]:
    """The steps that are done, in their order, with what they came to, who did them and when."""
    return [
        {"step": each.value, "outcome": done[each], **doers.get(each.value, {})}
        for each in ClosingStep
        if each in done
    ]


def _open_points(closing: Closing, *, is_known_enough: bool) -> KnownPoints:
    """What is open about the bills; of a month that has not begun there is nothing to look at."""
    if not closing.has_begun:
        return KnownPoints([], None, is_current=True)
    look = _REVIEWS.look if is_known_enough else _REVIEWS.review
    return look(closing.organization, closing.month)


def _totals(organization: Organization, month: Month) -> list[Document]:
    """What all bills come to by currency, beside the month before, and how many have which status."""
    with organization.reading() as reader:
        found, earlier = (
            {each.currency: each for each in read_month_totals(reader, str(each_month))}
            for each_month in (month, month.moved(-1))
        )
    totals = []
    for currency in sorted({*found, *earlier}):
        now = found.get(currency) or MonthTotal(str(month), currency, 0, 0, ZERO, ZERO)
        statuses = {
            BillStatus.PENDING.value: now.bills - now.approved,
            BillStatus.APPROVED.value: now.approved - now.locked,
            _LOCKED: now.locked,
        }
        outdated = {
            BillStatus.PENDING.value: now.outdated,
            BillStatus.APPROVED.value: now.outdated_approved,
        }
        totals.append(
            {
                "currency": currency,
                "bills": now.bills,
                "total": now.total,
                "before": earlier[currency].total if currency in earlier else ZERO,
                "statuses": {name: count for name, count in statuses.items() if count},
                "unnumbered": now.unnumbered,
                "outdated": {name: count for name, count in outdated.items() if count},
            }
        )
    return totals


def _status(closing: Closing) -> ClosingStatus:
    done = closing.outcomes()
    if closing.is_closed:
        return ClosingStatus.CLOSED
    if closing.rejection is not None:
        return ClosingStatus.REJECTED
    for step, status in (
        (ClosingStep.REVIEW, ClosingStatus.APPROVED),
        (ClosingStep.BILL, ClosingStatus.IN_REVIEW),
        (ClosingStep.FILES, ClosingStatus.STARTED),
    ):
        if step in done:
            return status
    return ClosingStatus.STARTED if closing.reopenings else ClosingStatus.NOT_STARTED


def submit_closing(
    organization: Organization, month: Month, request: ClosingRequest, author: str
) -> str:
    """Have the worker go on with a month, up to its review, or from the approval to its end.

    A review may be asked for as long as nothing is approved: bills that wait are made again. Asking again for what is pending already does nothing.

    Returns:
        The id of the job.

    Raises:
        NotOver, NotBegun: The month is not over.
        Conflict: It is closed, or something else is pending, or there is nothing to approve.
        OtherReview: Other bills would be approved than those that were shown.
    """
    closing = Closing(organization, month, author, OPERATIONS)
    if closing.is_closed:
        raise Conflict(f"{month} is closed: open it again with {closing.how_to_reopen}")
    closing.check_over(early=request.early)
    check_backfills(closing, request.backfills)
    if request.action is ClosingAction.APPROVE:
        _check_review(closing, request.review)
    with organization.transaction(author) as transaction:
        if request.action is ClosingAction.APPROVE:
            found = read_month_bills(transaction, str(month))
            open_ = [each for each in found if not each.is_locked]
            kept = dict(request.left_open)
            waiting = [
                each.id
                for each in open_
                if each.status is BillStatus.PENDING and each.id not in kept
            ]
            refuse_own_work(transaction, author, waiting)
        pending = unfinished_steps(transaction.connection, organization.id, month)
        for each in pending:
            if ClosingRequest.from_wire(each.parameters) == request:
                return each.id
        refuse_pending(pending)
        # Somebody may have rejected the bills after they were looked at.
        if (
            request.action is ClosingAction.APPROVE
            and read_job(transaction.connection, closing.id).status in AGAIN
        ):
            raise Conflict(
                f"the bills of {month} are rejected; make them ready again with"
                f" {closing.how_to_review}"
            )
        made = Job(
            id=transaction.new_id(),
            org_id=organization.id,
            kind=KIND,
            parameters={"month": str(month), **request.to_wire()},
            created=transaction.now,
            author=author,
        )
        submit(transaction.connection, made)
        return made.id


def _check_review(closing: Closing, review: str | None) -> None:
    """Refuse to approve what nobody was shown; an approval that was given stays one."""
    status = _status(closing)
    if status is ClosingStatus.APPROVED:
        return
    if status is not ClosingStatus.IN_REVIEW:
        raise Conflict(
            f"the bills of {closing.month} do not wait for a review: {status.value};"
            f" make them ready with {closing.how_to_review}, and approve them then"
        )
    if closing.outcomes()[ClosingStep.BILL]["digest"] != review:
        raise OtherReview(str(closing.month))


def _newest(organization: Organization, month: Month) -> Job | None:
    """The newest job of a month."""
    with organization.reading() as reader:
        pending = unfinished_steps(reader.connection, organization.id, month)
    if pending:
        return pending[0]
    ended, _ = organization.state.jobs.page(organization.id, KIND, JobFilters(), Page(_JOBS_MAX))
    return next((each for each in ended if each.parameters["month"] == str(month)), None)


def _carry_out(run: JobRun[None]) -> None:
    """Do what was asked for, also if who did it before died."""
    stores, job = run.stores, run.job
    organization = stores.organization(job.org_id)
    month, request = Month.parse(job.parameters["month"]), ClosingRequest.from_wire(job.parameters)
    closing = Closing(organization, month, job.author or SYSTEM, OPERATIONS)
    approve = request.action is ClosingAction.APPROVE
    if approve and ClosingStep.REVIEW not in closing.outcomes() and not closing.is_closed:
        _check_review(closing, request.review)
        closing.note_shown()
    if not approve:
        closing.open()
        if missing := missing_files(organization, request.files):
            raise late_files_error(missing)
        expected = {"expected": len(request.files)}
        closing.carry_out(ClosingStep.FILES, lambda: expected)
        if not closing.is_closed:
            begin_review_again(closing)
    if not closing.is_closed:
        # What is exported of a month: to the home's exports, as the command does by default.
        close_month(
            closing,
            approve=approve,
            exports={
                ClosingStep.EXPORT_USAGE: ExportRequest(
                    source=Source.USAGE, format=Format.PARQUET, month=month
                ),
                ClosingStep.EXPORT_OPERATIONAL: ExportRequest(
                    source=Source.OPERATIONAL, format=Format.PARQUET
                ),
            },
            backfills=request.backfills,
            left_open=request.left_open,
        )


CLOSING_STEPS: Final = JobSpec(
    kinds=(KIND,),
    name="step of a closing",
    work=_carry_out,
    concurrency=one,
    # Its steps keep what is done, and what they make is taken back by a rejection.
    stops=False,
    describe=lambda _, job: f"{job.parameters['action']} {job.parameters['month']}",
)
