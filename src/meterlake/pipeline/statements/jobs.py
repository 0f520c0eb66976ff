"""Statement jobs: asked for over the API, due when a bill is approved, and run by one engine.

An attempt writes its files under keys of its own. In one transaction with the end of the job they
take the place of the bill's older ones: so a bill has a whole statement, or the one of before.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from sqlalchemy import select

from meterlake.model.bills.statements import (
    KIND,
    StatementFormat,
    StatementJobFilters,
    StatementJobRequest,
    StatementOrder,
    StatementsBatchJobRequest,
)
from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.errors import Invalid, MeterlakeError, NotFound, TooManyJobs
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.problems import read
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.events.scheduled import CurrentEntity
from meterlake.pipeline.jobs.job_spec import JobPins, JobSpec
from meterlake.pipeline.jobs.run_job import JobRun, cancel_job, run_here
from meterlake.pipeline.statements.content import ReadBill, read_bill, read_content
from meterlake.pipeline.statements.files import file_download, put_files, remove_files
from meterlake.stores import Organization, Stores
from meterlake.stores.downloads import Download
from meterlake.stores.state import Job, JobStatus, Reader
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.statements.files import (
    NO_FILES,
    Files,
    StatementFile,
    put_statement,
    statement_files,
)
from meterlake.stores.state.billing.statements.jobs import (
    current_files,
    job_document,
    note_job_event,
    of_bill,
    submit_statement,
)
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.jobs import JobFilters, count_jobs
from meterlake.stores.state.jobs.jobs import job_of
from meterlake.stores.state.jobs.table import JOB

# Of jobs that wait or run, those of approved bills included.
UNFINISHED_MAX: Final = 1000
_OPEN: Final = (JobStatus.PENDING, JobStatus.RUNNING)
_STATUSES: Final = {each.value: each for each in JobStatus if each is not JobStatus.AWAITING_FILE}
_RETRY_S: Final = 30


@dataclass(frozen=True, slots=True)
class StatementJobView:
    """A job as the API shows it, and what its links lead to.

    Attributes:
        downloads: The files that it made and that its bill has still.
    """

    document: Document
    downloads: Mapping[StatementFormat, Download]

    @property
    def bill_id(self) -> str:
        """The bill that it is about."""
        return str(self.document["billId"])


def create(organization: Organization, author: str, document: Any) -> StatementJobView:
    """Make the job of a statement; a worker runs it.

    Raises:
        Invalid: A field is broken, or the bill or a meter does not exist.
        TooManyJobs: As many jobs as may be are unfinished.
    """
    request = read(StatementJobRequest, document)
    order = _order(request.bill_id, request)
    return _submit(organization, author, [("billId", order)])[0]


def create_batch(organization: Organization, author: str, document: Any) -> list[StatementJobView]:
    """Make the jobs of statements of several bills: all of them, or none.

    Raises:
        Invalid: A field is broken, or a bill or a meter does not exist.
        TooManyJobs: As many jobs as may be are unfinished.
    """
    request = read(StatementsBatchJobRequest, document)
    ids = dict.fromkeys(request.bill_ids)
    orders = [(f"billIds[{n}]", _order(each, request)) for n, each in enumerate(ids)]
    return _submit(organization, author, orders)


def _order(
    bill_id: str, request: StatementJobRequest | StatementsBatchJobRequest
) -> StatementOrder:
    filters = request.filters or StatementJobFilters()
    meter_ids = tuple(dict.fromkeys(filters.meter_ids or ()))
    return StatementOrder(bill_id, csv=bool(request.include_csv_format), meter_ids=meter_ids)


def _submit(
    organization: Organization, author: str, orders: Sequence[tuple[str, StatementOrder]]
) -> list[StatementJobView]:
    with organization.transaction(author) as transaction:
        more = len(orders)
        filters = JobFilters(statuses=_OPEN)
        unfinished = count_jobs(transaction.connection, transaction.org_id, KIND, filters)
        if unfinished + more > UNFINISHED_MAX:
            raise TooManyJobs("statement jobs", UNFINISHED_MAX, _RETRY_S)
        for field, order in orders:
            # The bill and the meters exist.
            try:
                bills.get(transaction, order.bill_id)
            except NotFound:
                raise Invalid(
                    field, order.bill_id, "it must be the id of an existing Bill"
                ) from None
            for number, id_ in enumerate(order.meter_ids):
                try:
                    transaction.get(Meter, id_)
                except NotFound:
                    rule = "it must be the id of an existing Meter"
                    raise Invalid(f"filters.meterIds[{number}]", id_, rule) from None
        jobs = [submit_statement(transaction, order) for _, order in orders]
        found = _views(transaction, jobs)
    mark_step("statement.submitted")
    return found


@dataclass(frozen=True, slots=True)
class StatementJobFilter:
    """Which jobs are listed: one of the three says it, or none: then all are.

    Attributes:
        active: Whether only those are listed that have not ended; None if it says nothing.
    """

    active: bool | None = None
    status: str | None = None
    bill_id: str | None = None

    def to_filters(self, org_id: str) -> JobFilters:
        """The same as a condition.

        Raises:
            Invalid: Several say it, or the status is none.
        """
        given = {
            "active": None if self.active is None else str(self.active).lower(),
            "status": self.status,
            "billId": self.bill_id,
        }
        named = {name: value for name, value in given.items() if value is not None}
        if len(named) > 1:
            shown = ", ".join(f"{name}={value}" for name, value in named.items())
            raise Invalid("filters", shown, "give at most one of active, status and billId")
        if self.bill_id is not None:
            return of_bill(org_id, self.bill_id)
        if self.status is not None:
            if self.status not in _STATUSES:
                raise Invalid("status", self.status, f"it must be one of {', '.join(_STATUSES)}")
            return JobFilters(statuses=(_STATUSES[self.status],))
        return JobFilters(statuses=_OPEN) if self.active else JobFilters()


def list_jobs(
    organization: Organization, wanted: StatementJobFilter, page: Page
) -> tuple[list[StatementJobView], str | None]:
    """One page of jobs, the newest first, and the token of the next page.

    Raises:
        Invalid: There is more than one filter, the status is none, or the token is none.
    """
    jobs, token = organization.state.jobs.page(
        organization.id, KIND, wanted.to_filters(organization.id), page
    )
    with organization.reading() as reader:
        return _views(reader, jobs), token


def get_job(organization: Organization, id: str) -> StatementJobView:
    """One job.

    Raises:
        NotFound: The organization has no such job.
    """
    job = organization.state.jobs.find(organization.id, id, KIND)
    with organization.reading() as reader:
        return _views(reader, [job])[0]


def _views(reader: Reader, jobs: Sequence[Job]) -> list[StatementJobView]:
    ids = {StatementOrder.from_wire(each.parameters).bill_id for each in jobs}
    files = statement_files(reader, ids)
    found = []
    for job in jobs:
        bill_id = StatementOrder.from_wire(job.parameters).bill_id
        own = files.get(bill_id, NO_FILES)
        downloads = {
            format_: file_download(file) for format_, file in own.items() if file.job_id == job.id
        }
        found.append(StatementJobView(job_document(job, own), downloads))
    return found


def cancel(organization: Organization, id: str, author: str | None = None) -> StatementJobView:
    """End a job that waits, or have the one that runs stop.

    Raises:
        NotFound: The organization has no such job.
        Conflict: It has ended.
    """
    cancel_job(organization, id, STATEMENT_JOBS, author)
    return get_job(organization, id)


def ensure_statement(organization: Organization, author: str, order: StatementOrder) -> Files:
    """The files of a bill, made here and now unless it has them already, as the bill is.

    If this process dies, a worker finishes the job.

    Raises:
        NotFound: There is no such bill.
        Invalid: The statement has too many rows.
        Unavailable: A store failed; do it again.
    """
    with organization.transaction(author) as transaction:
        bill = bills.get(transaction, order.bill_id)
        found = current_files(transaction, order)
        if found is not None:
            return found
        snapshot = bill.content.pins["snapshot"]
        job = submit_statement(transaction, order, snapshot, begun=True)
    return run_here(
        organization.stores, STATEMENT_JOBS, job.id, lambda: mark_step("statement.submitted")
    )


def read_statement(organization: Organization, bill_id: str, format: StatementFormat) -> Download:
    """The statement that a bill has, perhaps of an earlier calculation.

    Raises:
        NotFound: There is no such bill, or it has none of the format.
    """
    with organization.reading() as reader:
        bills.get(reader, bill_id)
        file = statement_files(reader, [bill_id]).get(bill_id, NO_FILES).get(format)
    if file is None:
        hint = "; a statement job makes it"
        raise NotFound(f"{format.upper()} statement of bill", bill_id, hint)
    return file_download(file)


def _pin(stores: Stores, job: Job) -> JobPins:
    """The snapshot that the bill was made from; it stays while the job runs."""
    bill_id = StatementOrder.from_wire(job.parameters).bill_id
    with stores.state.reading(job.org_id) as reader, suppress(NotFound):
        return JobPins(bills.get(reader, bill_id).content.pins["snapshot"])
    return JobPins()


def _make_statement(run: JobRun[Files]) -> Files:
    stores, job = run.stores, run.job
    organization = stores.organization(job.org_id)
    order = StatementOrder.from_wire(job.parameters)
    with organization.reading() as reader:
        found = read_bill(reader, order.bill_id)
    content = read_content(organization, found, order, run.check)
    files = put_files(stores, job, content, found.calculated)
    mark_step("statement.put")
    try:
        run.attempt.go_on()
        replaced = _store(run, found, files)
    except MeterlakeError:
        remove_files(stores, [each.key for each in files])
        raise
    mark_step("statement.finished")
    remove_files(stores, replaced)
    return {each.format: each for each in files}


def _store(run: JobRun[Files], read: ReadBill, files: Sequence[StatementFile]) -> list[str]:
    """Have the files take the place of those that the bill has; where the latter are."""
    stores, job, bill_id = run.stores, run.job, read.bill.id
    with stores.state.transaction(job.org_id, job.author or SYSTEM) as transaction:
        # It may have changed meanwhile without a calculation; if it is gone, so is the job's work.
        outdated = not read.says_the_same(bills.get(transaction, bill_id))
        older = statement_files(transaction, [bill_id]).get(bill_id, NO_FILES)
        for each in files:
            put_statement(transaction, replace(each, outdated=outdated, made=transaction.now))
        job.result = {"files": {each.format.value: each.sha256 for each in files}}
        run.finish_in(transaction)
    return [older[each.format].key for each in files if each.format in older]


def _describe(_stores: Stores, _job: Job) -> str:
    return "1 statement"


STATEMENT_JOBS: Final = JobSpec(
    kinds=(KIND,),
    name="statement job",
    work=_make_statement,
    flow="statement",
    batch="statements",
    pin=_pin,
    note_event=note_job_event,
    describe=_describe,
    taken=lambda: mark_step("statement.taken"),
)


class StatementJobSource:
    """Reads statement jobs."""

    def ids_after(self, reader: Reader, last_id: str, most: int) -> Sequence[str]:
        """The next ids in the order of ids."""
        query = select(JOB.c.id).where(
            JOB.c.org == reader.org_id, JOB.c.kind == KIND.value, JOB.c.id > last_id
        )
        return list(reader.connection.execute(query.order_by(JOB.c.id).limit(most)).scalars())

    def read(self, reader: Reader, ids: Collection[str]) -> Mapping[str, CurrentEntity]:
        """Those that there are of some, by id."""
        jobs: list[Job] = []
        for some in chunks_of(ids):
            query = select(JOB).where(JOB.c.org == reader.org_id, JOB.c.id.in_(some))
            jobs += map(job_of, reader.connection.execute(query))
        bill_ids = {each.id: StatementOrder.from_wire(each.parameters).bill_id for each in jobs}
        files = statement_files(reader, set(bill_ids.values()))
        found: dict[str, CurrentEntity] = {}
        for job in jobs:
            bill_id = bill_ids[job.id]
            document = job_document(job, files.get(bill_id, NO_FILES))
            found[job.id] = CurrentEntity("StatementJob", None, document)
        return found
