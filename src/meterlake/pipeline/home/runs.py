"""Runs: the jobs of all kinds in one list, what each is about, and what people may do about it.

Two kinds are left out: the closing of a month has a page of its own, and what the worker does for
it is a run. Each kind is cancelled and repeated by its own room; a kind without a verb for it has
another way, which the refusal names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from meterlake.model.bills.jobs import BillOrder
from meterlake.model.bills.statements import StatementOrder
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.integration_systems import BILL
from meterlake.model.configuration.integrations import WebhookDestination
from meterlake.model.errors import Conflict, NotFound
from meterlake.model.values.period import Month
from meterlake.model.values.plurals import counted
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.backfill.background import BackfillAction, submit_restart, submit_step
from meterlake.pipeline.billing.jobs.documents import outcome_of
from meterlake.pipeline.billing.jobs.jobs import BILL_JOBS, refuse_too_many, submit_order
from meterlake.pipeline.billing.jobs.quantities import QUANTITIES, submit_quantities
from meterlake.pipeline.closing.closing_requests import (
    CLOSING_STEPS,
    ClosingRequest,
    submit_closing,
)
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.pipeline.documents.bundle_jobs import BILL_DOCUMENTS
from meterlake.pipeline.export.run import EXPORT_JOBS, retry_export
from meterlake.pipeline.home.job_kinds import JOB_KINDS
from meterlake.pipeline.integrations.runs import replay_run
from meterlake.pipeline.jobs.job_spec import JobSpec
from meterlake.pipeline.jobs.run_job import cancel_job, note_run_act
from meterlake.pipeline.statements.jobs import STATEMENT_JOBS
from meterlake.stores import Organization
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.acts import ActAction, PastAct, acts_on
from meterlake.stores.state.billing.bills.named import bills_with_ids
from meterlake.stores.state.billing.statements.jobs import submit_statement
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.ingest import uploads
from meterlake.stores.state.ingest.inboxes import Inboxes
from meterlake.stores.state.integrations.runs import contents_of_runs
from meterlake.stores.state.jobs import AGAIN, JobFilters

_WAITS: Final = (JobStatus.PENDING, JobStatus.RUNNING)

Verb = Callable[[Organization, str, Job], str]
# An action and the type of the resource that it is about.
Permission = tuple[str, str]
_CREATE: Final = "config:create"
_UPDATE: Final = "config:update"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunKind:
    """What people can do about the runs of a kind.

    Attributes:
        about: The member of a job's parameters with the id of what it is about.
        cancel: Ends a run, or has the one who works on it stop; None if a run ends by itself.
        retry: Has it done once more; the id of the run that does it. None if nothing can.
        instead: What to do where there is no such verb.
        reads: What whoever reads such runs must be allowed to read all of.
        retry_action: What running one again needs, on the first of these.
    """

    reads: tuple[Permission, ...]
    retry_action: str = _UPDATE
    about: str | None = None
    cancel: Verb | None = None
    retry: Verb | None = None
    instead: str = ""

    def needs(self, verb: str) -> Permission:
        """What cancelling one, or running one again, needs besides the right to runs."""
        _, resource = self.reads[0]
        return (self.retry_action if verb == "retry" else _UPDATE, resource)


def _all_of(*resources: str) -> tuple[Permission, ...]:
    return tuple(("config:retrieve", each) for each in resources)


def _cancel(jobs: JobSpec[Any]) -> Verb:
    def cancel(organization: Organization, author: str, job: Job) -> str:
        cancel_job(organization, job.id, jobs, author)
        return job.id

    return cancel


def _bill_again(organization: Organization, author: str, job: Job) -> str:
    # As a new job: the usage and the prices of now, not those that the failed one pinned.
    with organization.transaction(author) as transaction:
        refuse_too_many(transaction)
        return submit_order(transaction, BillOrder.from_wire(job.parameters)).id


def _quantities_again(organization: Organization, author: str, job: Job) -> str:
    frequency = BillingFrequency(job.parameters["frequency"])
    made = submit_quantities(organization, author, frequency, job.parameters["period"])
    return str(made["id"])


def _export_again(organization: Organization, _: str, job: Job) -> str:
    return retry_export(organization, job.id).id


def _state_again(organization: Organization, author: str, job: Job) -> str:
    with organization.transaction(author) as transaction:
        return submit_statement(transaction, StatementOrder.from_wire(job.parameters)).id


def _backfill_again(organization: Organization, author: str, job: Job) -> str:
    id_, step = job.parameters["backfill"], BackfillAction(job.parameters["step"])
    if step is BackfillAction.STAGE:
        submit_restart(organization, id_, author)
    else:
        submit_step(organization, id_, step, author)
    return job.id


def _close_again(organization: Organization, author: str, job: Job) -> str:
    month = Month.parse(job.parameters["month"])
    return submit_closing(organization, month, ClosingRequest.from_wire(job.parameters), author)


def _send_again(organization: Organization, author: str, job: Job) -> str:
    id_: str = replay_run(organization, author, job.id)["id"]
    return id_


_SEND_THE_FILE: Final = "send the file again"
_MEASUREMENTS: Final = (("measurements:retrieve", "measurements"),)

RUN_KINDS: Final[Mapping[str, RunKind]] = MappingProxyType(
    {
        JobKind.UPLOAD: RunKind(reads=_MEASUREMENTS, instead=_SEND_THE_FILE),
        JobKind.LOOKUP: RunKind(reads=_all_of("lookuptablerevision"), instead=_SEND_THE_FILE),
        JobKind.INBOX_OBJECT: RunKind(
            reads=_MEASUREMENTS, instead="put the object into its bucket again"
        ),
        JobKind.BILL: RunKind(
            reads=_all_of("billjob"),
            retry_action=_CREATE,
            cancel=_cancel(BILL_JOBS),
            retry=_bill_again,
        ),
        JobKind.STATEMENT: RunKind(
            reads=_all_of("statementjob", "bill"),
            retry_action=_CREATE,
            about="billId",
            cancel=_cancel(STATEMENT_JOBS),
            retry=_state_again,
        ),
        JobKind.BILL_LETTER: RunKind(
            reads=_all_of("bill"), about="billId", instead="send the bill again"
        ),
        JobKind.BILL_DOCUMENTS: RunKind(
            reads=_all_of("bill"),
            cancel=_cancel(BILL_DOCUMENTS),
            instead="ask for the documents again",
        ),
        JobKind.QUANTITIES: RunKind(
            reads=_all_of("billjob"),
            retry_action=_CREATE,
            cancel=_cancel(QUANTITIES),
            retry=_quantities_again,
        ),
        JobKind.CLOSING_STEP: RunKind(
            reads=_all_of("bill"), cancel=_cancel(CLOSING_STEPS), retry=_close_again
        ),
        JobKind.EXPORT: RunKind(
            reads=_all_of("dataexport"), cancel=_cancel(EXPORT_JOBS), retry=_export_again
        ),
        JobKind.BACKFILL: RunKind(
            reads=_all_of("backfill"),
            about="backfill",
            retry=_backfill_again,
            instead="drop or revert the backfill",
        ),
        JobKind.INTEGRATION_RUN: RunKind(
            reads=_all_of("integrationrun", "bill", "event"),
            retry=_send_again,
            instead="disable the integration or the webhook",
        ),
    }
)


def list_runs(
    organization: Organization, kinds: Iterable[str], filters: JobFilters, page: Page
) -> Document:
    """One page of the runs of some kinds, the newest first.

    Raises:
        Invalid: The token is none that a list gave.
    """
    found, token = organization.state.jobs.page_of_kinds(organization.id, kinds, filters, page)
    return envelope(_documents(organization, found), token)


def get_run(organization: Organization, id: str, kinds: Iterable[str] = RUN_KINDS) -> Document:
    """One run.

    Raises:
        NotFound: The organization has no such run of these kinds.
    """
    return _documents(organization, [find_run(organization, id, kinds)])[0]


def find_run(organization: Organization, id: str, kinds: Iterable[str] = RUN_KINDS) -> Job:
    """The job of a run.

    Raises:
        NotFound: The organization has no such run of these kinds.
    """
    return organization.state.jobs.find(organization.id, id, *kinds)


def cancel_run(organization: Organization, author: str, id: str) -> Document:
    """End a run that waits, or have the one who works on it stop.

    Raises:
        NotFound: The organization has no such run.
        Conflict: It has ended, or runs of its kind end by themselves.
    """
    job = find_run(organization, id)
    kind = RUN_KINDS[job.kind]
    if kind.cancel is None:
        raise Conflict(f"the run {id} ends by itself: nothing cancels a {job.kind}; {kind.instead}")
    return get_run(organization, kind.cancel(organization, author, job))


def retry_run(organization: Organization, author: str, id: str) -> Document:
    """Have done once more what failed or was cancelled: by the same run, or by another one.

    Raises:
        NotFound: The organization has no such run.
        Conflict: It has not failed, or nothing does it once more.
    """
    job = find_run(organization, id)
    kind = RUN_KINDS[job.kind]
    if kind.retry is None:
        raise Conflict(
            f"nothing repeats the run {id} of a {job.kind}; begin it anew: {kind.instead}"
        )
    if job.status not in AGAIN:
        raise Conflict(
            f"the run {id} has not failed: {job.status.description};"
            " begin another one, or wait until it has ended"
        )
    again = kind.retry(organization, author, job)
    note_run_act(organization, author, job, ActAction.RUN_AGAIN)
    return get_run(organization, again)


def _documents(organization: Organization, jobs: Sequence[Job]) -> list[Document]:
    subjects: dict[str, str] = {}
    for kind in {job.kind for job in jobs}:
        some = [job for job in jobs if job.kind == kind]
        subjects |= _SUBJECTS.get(kind, _describe_by_kind)(organization, some)
    with organization.reading() as reader:
        acts = acts_on(reader.connection, organization.id, [job.id for job in jobs])
    return [_document(job, subjects.get(job.id, ""), acts.get(job.id, ())) for job in jobs]


def _document(job: Job, subject: str, acts: Sequence[PastAct]) -> Document:
    about = RUN_KINDS[job.kind].about
    # Of one that waits to be run again, the last attempt's do not count.
    has_begun = job.status not in {JobStatus.PENDING, JobStatus.AWAITING_FILE}
    shown = {
        "id": job.id,
        "version": job.version,
        "kind": job.kind.upper(),
        "subject": subject,
        "aboutId": job.parameters.get(about) if about else None,
        "status": job.status.value,
        "outcome": outcome_of(job) if job.kind == JobKind.BILL else None,
        "attempt": job.attempt or None,
        "progress": job.progress or None,
        "error": job.error or job.result.get("failureReason") or _failed_in_part(job),
        "message": job.result.get("message"),
        "actions": list(_actions(job)),
        "cancelRequested": True if job.cancel_asked and job.status in _WAITS else None,
        "flowRunId": job.flow_run if has_begun else None,
        "scheduleId": job.schedule_id,
        "scheduledFor": job.due,
        "dtCreated": job.created,
        "createdBy": job.author or SYSTEM,
        "dtStarted": job.started if has_begun else None,
        "dtCompleted": job.finished,
        "acts": [{"action": each.action, "at": each.at, "by": each.author} for each in acts]
        or None,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _failed_in_part(job: Job) -> str | None:
    """Of a complete run that made bills: how many customers it could not bill, and the first one."""
    failed = job.result.get("failed") if job.kind == JobKind.BILL else None
    if not failed:
        return None
    account, reason = failed[0]
    return f"{counted(len(failed), 'customer')} failed: account {account}: {reason}"


def _actions(job: Job) -> Iterable[str]:
    """What can be done about a job as it stands."""
    kind = RUN_KINDS[job.kind]
    waits = job.status is JobStatus.PENDING or (
        job.status is JobStatus.RUNNING and JOB_KINDS[job.kind].stops
    )
    if kind.cancel is not None and waits and not job.cancel_asked:
        yield "cancel"
    if kind.retry is not None and job.status in AGAIN:
        yield "retry"


# --- What people know a run by -----------------------------------------------------------------

Describe = Callable[[Organization, Sequence[Job]], dict[str, str]]


def _describe_by_kind(organization: Organization, jobs: Sequence[Job]) -> dict[str, str]:
    """As the worker names them; what a job was about may be gone by now."""
    found = {}
    for job in jobs:
        spec = JOB_KINDS[job.kind]
        try:
            found[job.id] = spec.describe(organization.stores, job)
        except NotFound:
            found[job.id] = spec.name
    return found


def _describe_files(organization: Organization, jobs: Sequence[Job]) -> dict[str, str]:
    with organization.reading() as reader:
        files = uploads.find_all(reader.connection, [job.id for job in jobs])
    return {id_: file.name or "data of a lookup table" for id_, file in files.items()}


def _describe_objects(organization: Organization, jobs: Sequence[Job]) -> dict[str, str]:
    claims = Inboxes(organization.state).claims([job.id for job in jobs])
    return {id_: claim.key for id_, claim in claims.items()}


def _describe_statements(organization: Organization, jobs: Sequence[Job]) -> dict[str, str]:
    ids = {job.id: StatementOrder.from_wire(job.parameters).bill_id for job in jobs}
    with organization.reading() as reader:
        bills = bills_with_ids(reader, set(ids.values()))
    names = {id_: f"{bill.account_code} {bill.month}" for id_, bill in bills.items()}
    return {id_: names.get(bill_id, "a deleted bill") for id_, bill_id in ids.items()}


def _describe_deliveries(organization: Organization, jobs: Sequence[Job]) -> dict[str, str]:
    with organization.reading() as reader:
        contents = contents_of_runs(reader, [job.id for job in jobs])
        names = {each.id: each.entity.name for each in reader.all(WebhookDestination)}
        bill_ids = {each.entity_id for each in contents.values() if each.entity_type == BILL}
        bills = bills_with_ids(reader, bill_ids)
    found = {}
    for id_, content in contents.items():
        bill = bills.get(content.entity_id)
        what = content.entity_type.lower()
        if bill is not None:
            what = f"bill of {bill.account_code} {bill.month}"
        target = names.get(content.destination_id or "", content.destination.lower())
        found[id_] = f"{what} to {target}"
    return found


_SUBJECTS: Final[Mapping[str, Describe]] = MappingProxyType(
    {
        JobKind.UPLOAD: _describe_files,
        JobKind.LOOKUP: _describe_files,
        JobKind.INBOX_OBJECT: _describe_objects,
        JobKind.STATEMENT: _describe_statements,
        JobKind.INTEGRATION_RUN: _describe_deliveries,
    }
)
