"""Bills that go to somebody by e-mail: asked for once, sent by the worker, written down whole.

A letter is a job. The bill has to be approved, and has at most one letter that was not refused,
unless somebody wants it again. Whoever dies after the mail server has taken a letter sends it once
more, with the same `Message-ID`.
"""

from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, Final

from meterlake.model.bills.document import AppendixDetail, BillDocument, DocumentFormat
from meterlake.model.bills.requests import BillStatus, SendBillRequest
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Conflict, Unavailable
from meterlake.model.values.period import format_instant
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.documents.content import read_document
from meterlake.pipeline.documents.render import make_document
from meterlake.pipeline.jobs.job_spec import JobSpec, WhenUnavailable
from meterlake.pipeline.jobs.run_job import JobRun
from meterlake.stores import Organization
from meterlake.stores.mail import LetterPostponed, LetterRefused, MailServer, without_links
from meterlake.stores.state import Job, JobStatus
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.letters import KIND, letter_id, letters_of
from meterlake.stores.state.jobs import AGAIN, submit

# For about a day, while a mail server does not take a letter.
_TRIES: Final = 100
_PAUSE: Final = timedelta(minutes=15)
_WAITS: Final = (JobStatus.PENDING, JobStatus.RUNNING)
_STATUSES: Final = {JobStatus.COMPLETE: "SENT", **dict.fromkeys(AGAIN, "FAILED")}
_TEXT: Final = """Dear {customer},

you find attached {what} of {seller}: {currency} {total}{due}.
"""


def send_bill(
    organization: Organization, author: str, bill_id: str, request: SendBillRequest
) -> Document:
    """Have the worker send the document of an approved bill, once.

    Raises:
        NotFound: There is no such bill.
        Conflict: No mail server is set, the bill is not approved, or it has a letter already.
    """
    check_mail_server(organization)
    with organization.transaction(author) as transaction:
        bill = bills.get(transaction, bill_id)
        if bill.status is not BillStatus.APPROVED:
            raise Conflict(
                f"bill {bill_id!r} is {bill.status}; only an approved bill is sent: approve it first"
            )
        letters = letters_of(transaction, bill_id)
        _refuse_second(bill_id, letters, again=request.again)
        account = transaction.get(Account, bill.content.key.account_id).entity
        job = Job(
            id=letter_id(bill_id, len(letters) + 1),
            org_id=organization.id,
            kind=KIND,
            parameters={"billId": bill_id, "to": request.to or account.email_address},
            created=transaction.now,
            author=author,
        )
        submit(transaction.connection, job)
    return _describe_letter(job)


def check_mail_server(organization: Organization) -> None:
    """Refuse to write letters that nobody would send.

    Raises:
        Conflict: No mail server is set.
    """
    if MailServer.of(organization.settings) is None:
        raise Conflict(
            "no mail server is set, so no bill is sent: set METERLAKE_SMTP_URL and"
            " METERLAKE_SMTP_FROM, and start the server again"
        )


def _refuse_second(bill_id: str, letters: list[Job], *, again: bool) -> None:
    """Refuse to send a bill twice by accident."""
    standing = [each for each in letters if each.status not in AGAIN]
    if not standing:
        return
    last = standing[-1]
    to = last.parameters["to"]
    if last.status in _WAITS:
        raise Conflict(f"bill {bill_id!r} is about to be sent to {to}; wait until it is")
    if not again:
        day = format_instant(last.finished or last.created)
        raise Conflict(
            f"bill {bill_id!r} was sent to {to} at {day}; send it once more with `again` true"
        )


def list_letters(organization: Organization, bill_id: str) -> Document:
    """The letters of a bill, the newest first, and to whom one would go now.

    Raises:
        NotFound: There is no such bill.
    """
    with organization.reading() as reader:
        bill = bills.get(reader, bill_id)
        letters = letters_of(reader, bill_id)
        account = reader.get(Account, bill.content.key.account_id).entity
    return {
        "data": [_describe_letter(each) for each in reversed(letters)],
        "to": account.email_address,
        "available": MailServer.of(organization.settings) is not None,
    }


def _describe_letter(job: Job) -> Document:
    found = {
        "id": job.id,
        "billId": job.parameters["billId"],
        "to": job.parameters["to"],
        "status": _STATUSES.get(job.status, "WAITING"),
        "error": job.error or (job.progress.get("trouble") if job.status in _WAITS else None),
        "createdBy": job.author,
        "dtCreated": job.created,
        "dtSent": job.finished if job.status is JobStatus.COMPLETE else None,
    }
    return {name: value for name, value in found.items() if value is not None}


# --- What the worker does -----------------------------------------------------------------------


def _send(run: JobRun[None]) -> None:
    """Hand one letter to the mail server."""
    job = run.job
    organization = run.stores.organization(job.org_id)
    server = MailServer.of(organization.settings)
    if server is None:
        raise Unavailable("the mail server", "none is set")
    bill_id = job.parameters["billId"]
    with organization.reading() as reader:
        bill = bills.get(reader, bill_id)
    if bill.status is not BillStatus.APPROVED:
        raise Conflict(
            f"bill {bill_id!r} is {bill.status} again since somebody wanted it sent; approve it, and send it then"
        )
    letter = _write(organization, bill_id, job)
    run.attempt.go_on()
    try:
        with server.connect() as connection:
            connection.send(letter)
    except LetterPostponed as error:
        raise Unavailable(f"the mail server {server.host}", str(error)) from None
    except LetterRefused as error:
        raise Conflict(
            f"the mail server refuses the letter: {error}; mend the address, and send the bill again"
        ) from None


def _write(organization: Organization, bill_id: str, job: Job) -> EmailMessage:
    """The letter with the document of a bill."""
    document = read_document(organization, bill_id, AppendixDetail.NONE)
    made = make_document(organization, bill_id, DocumentFormat.PDF)
    letter = EmailMessage(policy=SMTP.clone(refold_source="all"))
    letter["To"] = job.parameters["to"]
    letter["Subject"] = without_links(f"{_what(document)} of {document['seller']['name']}")
    letter["Date"] = job.created
    letter["Message-ID"] = f"<{job.id}@meterlake.invalid>"
    letter.set_content(_text(document))
    letter.add_attachment(made.data, maintype="application", subtype="pdf", filename=made.name)
    return letter


def _what(document: BillDocument) -> str:
    number = document["bill"]["number"]
    return "Invoice" if number is None else f"Invoice {number}"


def _text(document: BillDocument) -> str:
    head, what = document["bill"], _what(document)
    due = head["dueDate"]
    return _TEXT.format(
        customer=without_links(document["customer"]["name"]),
        what=without_links(what[0].lower() + what[1:]),
        seller=without_links(document["seller"]["name"]),
        currency=head["currency"],
        total=document["totals"]["total"],
        due="" if due is None else f", due on {due}",
    )


def _is_due(stores: Any, _job: Job) -> bool:
    return stores.settings.smtp_url is not None


BILL_LETTERS: Final = JobSpec(
    kinds=(KIND,),
    name="letter of a bill",
    work=_send,
    when_unavailable=WhenUnavailable(tries=_TRIES, pause=_PAUSE),
    is_due=_is_due,
    describe=lambda _, job: f"letter of bill {job.parameters['billId']}",
)
