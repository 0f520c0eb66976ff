"""Bills that go to somebody by e-mail: asked for once, sent by the worker, written down whole.

A letter is a job. The bill has to be approved, and has at most one letter that was not refused,
unless somebody wants it again. Whoever dies after the mail server has taken a letter sends it once
more, with the same `Message-ID`.
"""

from collections.abc import Mapping
from datetime import timedelta
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any, Final, NamedTuple

from meterlake.model.bills.document import AppendixDetail, BillDocument, DocumentFormat
from meterlake.model.bills.requests import BillStatus, PreviewLetterRequest, SendBillRequest
from meterlake.model.configuration.email_template import fill_template
from meterlake.model.configuration.organization import OrganizationConfig
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
from meterlake.stores.state.billing.bill_emails import KIND, letter_id, letters_of
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.jobs import AGAIN, submit

# For about a day, while a mail server does not take a letter.
_TRIES: Final = 100
_PAUSE: Final = timedelta(minutes=15)
_WAITS: Final = (JobStatus.PENDING, JobStatus.RUNNING)
_STATUSES: Final = {JobStatus.COMPLETE: "SENT", **dict.fromkeys(AGAIN, "FAILED")}
_AS_SET: Final = PreviewLetterRequest()
_SUBJECT: Final = "{invoice} of {seller}"
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
    words = _words(organization, document)
    letter["Subject"] = words.subject
    letter["Date"] = job.created
    letter["Message-ID"] = f"<{job.id}@meterlake.invalid>"
    letter.set_content(words.text)
    letter.add_attachment(made.data, maintype="application", subtype="pdf", filename=made.name)
    return letter


class _Words(NamedTuple):
    """What a letter says."""

    subject: str
    text: str


def preview_letter(
    organization: Organization, bill_id: str, request: PreviewLetterRequest
) -> Document:
    """What the letter of a bill says, perhaps with other words than those of the organization.

    Raises:
        NotFound: There is no such bill.
    """
    document = read_document(organization, bill_id, AppendixDetail.NONE)
    words = _words(organization, document, request)
    with organization.reading() as reader:
        bill = bills.get(reader, bill_id)
        account = reader.get(Account, bill.content.key.account_id).entity
    return {"to": account.email_address, "subject": words.subject, "text": words.text}


def _words(
    organization: Organization,
    document: BillDocument,
    request: PreviewLetterRequest = _AS_SET,
) -> _Words:
    """The words of a letter: those of a request, else of the organization, else our own."""
    with organization.reading() as reader:
        [record] = reader.all(OrganizationConfig)
    subject = request.subject or record.entity.bill_letter_subject or _SUBJECT
    text = request.text or record.entity.bill_letter_text
    values = _values(document)
    filled = _own_text(values) if text is None else fill_template(text, values)
    # A field that nobody checked may end a line.
    return _Words(" ".join(fill_template(subject, values).split()), filled.rstrip() + "\n")


def _values(document: BillDocument) -> dict[str, str]:
    """What fills the placeholders; of what others wrote, no program makes a link."""
    head, number = document["bill"], document["bill"]["number"]
    return {
        "customer": without_links(document["customer"]["name"]),
        "seller": without_links(document["seller"]["name"]),
        "invoice": "Invoice" if number is None else without_links(f"Invoice {number}"),
        "number": without_links(number or ""),
        "currency": head["currency"],
        "total": document["totals"]["total"],
        "date": head["date"],
        "due": head["dueDate"] or "",
        "period": f"{head['firstDay']} to {head['lastDay']}",
        "from": head["firstDay"],
        "to": head["lastDay"],
    }


def _own_text(values: Mapping[str, str]) -> str:
    what, due = values["invoice"], values["due"]
    return _TEXT.format(
        **{name: values[name] for name in ("customer", "seller", "currency", "total")},
        what=what[0].lower() + what[1:],
        due=f", due on {due}" if due else "",
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
