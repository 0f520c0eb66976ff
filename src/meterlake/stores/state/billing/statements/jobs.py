"""Jobs that make statements, as State writes them down: asked for, or due when a bill is approved."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from sqlalchemy import literal, select

from meterlake.model.bills.statements import (
    KIND,
    StatementOrder,
    StatementStatus,
)
from meterlake.model.configuration.organization import OrganizationConfig, StatementAutoGenerateMode
from meterlake.model.customers.accounts import Account
from meterlake.model.resources.events import STATEMENT_JOB as EVENTS
from meterlake.model.resources.events import Event, change, data
from meterlake.model.values import wire
from meterlake.stores.state.billing.statements.files import (
    STATEMENT_JOB,
    Files,
    note_bill,
    statement_files,
)
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import ENTITY
from meterlake.stores.state.core.transaction import Transaction
from meterlake.stores.state.events import events
from meterlake.stores.state.jobs import JOB, Job, JobFilters, JobStatus, in_status, submit


class ApprovedBill(NamedTuple):
    """A bill that was approved or locked just now."""

    id: str
    account_id: str


def submit_statement(
    transaction: Transaction,
    order: StatementOrder,
    snapshot: int | None = None,
    *,
    begun: bool = False,
) -> Job:
    """Write the job of a statement down, with its event.

    Args:
        transaction: Where to.
        order: What is made.
        snapshot: The lake's snapshot that the bill was made from, if whoever asks works on it.
        begun: Whether whoever asks works on it; else it waits for a worker.
    """
    job = Job(
        id=transaction.new_id(),
        org_id=transaction.org_id,
        kind=KIND,
        parameters=order.to_wire(),
        created=transaction.now,
        author=transaction.author,
    )
    submit(transaction.connection, job.begin(snapshot) if begun else job)
    note_bill(transaction, job.id, order.bill_id)
    note_job_event(transaction, job, None)
    return job


def job_document(job: Job, files: Files) -> dict[str, Any]:
    """A job as the API and its events show it, without links.

    Args:
        job: The job.
        files: The statements that its bill has.
    """
    order = StatementOrder.from_wire(job.parameters)
    found: dict[str, Any] = {
        "id": job.id,
        "version": job.version,
        "statementJobStatus": job.status.value,
        "orgId": job.org_id,
        **order.to_wire(),
        "error": job.error,
        "createdBy": job.author,
        "dtCreated": job.created,
        "lastModifiedBy": job.author,
        "dtLastModified": job.finished or job.started or job.created,
    }
    if job.status is JobStatus.COMPLETE:
        for format_ in order.formats:
            file = files.get(format_)
            status = StatementStatus.INVALIDATED
            if file is not None and file.job_id == job.id:
                status = file.status
            found[f"{format_}StatementStatus"] = status.value
    return {name: value for name, value in found.items() if value is not None}


def note_job_event(transaction: Transaction, job: Job, before: Job | None) -> None:
    """Note the event of a job that is new (no `before`) or has changed."""
    bill_id = job.parameters["billId"]
    files = statement_files(transaction, [bill_id]).get(bill_id, {})
    old = None if before is None else job_document(before, files)
    new = job_document(job, files)
    event = Event(change(EVENTS, new, old), "StatementJob", job.id, data(new, old))
    events.write(
        transaction.connection, transaction.org_id, transaction.now, transaction.new_id, event
    )


def of_bill(org_id: str, bill_id: str) -> JobFilters:
    """The jobs about a bill."""
    mine = select(STATEMENT_JOB.c.id).where(
        STATEMENT_JOB.c.org == org_id, STATEMENT_JOB.c.bill_id == bill_id
    )
    return JobFilters(also=JOB.c.id.in_(mine))


def order_statements(transaction: Transaction, bills: Collection[ApprovedBill]) -> int:
    """Submit the statements that are due now that bills are approved or locked; how many.

    The mode of the account says which, else that of the organization. A bill that has them
    already, or a job that will make them, gets no other one.
    """
    if not bills:
        return 0
    due = list(_due(transaction, bills))
    if not due:
        return 0
    ids = [order.bill_id for order in due]
    files = statement_files(transaction, ids)
    waiting = _waiting_orders(transaction, ids)
    missing = [
        order
        for order in due
        if not _is_made(order, files.get(order.bill_id, {}))
        and not any(
            (not each.meter_ids and set(order.formats) <= set(each.formats))
            for each in waiting.get(order.bill_id, ())
        )
    ]
    for order in missing:
        submit_statement(transaction, order)
    return len(missing)


def _due(reader: Reader, bills: Iterable[ApprovedBill]) -> Iterator[StatementOrder]:
    mode = next(
        (each.entity.auto_generate_statement_mode for each in reader.all(OrganizationConfig)),
        StatementAutoGenerateMode.NONE,
    )
    # The modes of accounts that say one, by id.
    account_ids = {each.account_id for each in bills}
    own = {}
    given = member_text(ENTITY.c.body, literal("autoGenerateStatementMode")).is_not(None)
    for some in chunks_of(account_ids):
        for account in reader.matching(Account, ENTITY.c.id.in_(some), given):
            if account.entity.auto_generate_statement_mode is not None:
                own[account.id] = account.entity.auto_generate_statement_mode
    for each in bills:
        chosen = own.get(each.account_id, mode)
        if chosen is not StatementAutoGenerateMode.NONE:
            csv = chosen is StatementAutoGenerateMode.JSON_AND_CSV
            yield StatementOrder(each.id, csv)


def _is_made(order: StatementOrder, files: Files) -> bool:
    """Whether a bill has all that is to be made, as the bill is now."""
    for format_ in order.formats:
        file = files.get(format_)
        if file is None or file.filtered or file.status is StatementStatus.STALE:
            return False
    return True


def _waiting_orders(
    reader: Reader, bill_ids: Collection[str]
) -> Mapping[str, list[StatementOrder]]:
    """What jobs will make that have not begun: those that have may have read an older bill."""
    found: dict[str, list[StatementOrder]] = {}
    for some in chunks_of(bill_ids):
        query = (
            select(STATEMENT_JOB.c.bill_id, JOB.c.parameters)
            .join(JOB, JOB.c.id == STATEMENT_JOB.c.id)
            .where(
                STATEMENT_JOB.c.org == reader.org_id,
                STATEMENT_JOB.c.bill_id.in_(some),
                in_status(JobStatus.PENDING),
            )
        )
        for row in reader.connection.execute(query):
            order = StatementOrder.from_wire(wire.loads(row.parameters))
            found.setdefault(row.bill_id, []).append(order)
    return found


def current_files(reader: Reader, order: StatementOrder) -> Files | None:
    """The files of a bill if it has all that an order asks for, as the bill is now; None if not."""
    files = statement_files(reader, [order.bill_id]).get(order.bill_id, {})
    return files if _is_made(order, files) else None
