"""What callers say about bills: their status, which ones to approve, which ones to download."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from meterlake.model.bills.document import AppendixDetail, BundleFormat
from meterlake.model.configuration.email_template import LetterSubject, LetterText
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Email, Flag, Id, Instant, Text

_DAY_DIGITS = len("2026-10-01")


def _first_moment(value: Any) -> Any:
    """A date as its first moment in UTC; anything else as it is."""
    is_day = isinstance(value, str) and len(value) == _DAY_DIGITS
    return f"{value}T00:00:00Z" if is_day else value


_Moment = Annotated[Instant, BeforeValidator(_first_moment)]


class BillStatus(StrEnum):
    """Whether a person has yet to look at a bill."""

    PENDING = "PENDING"
    APPROVED = "APPROVED"


class UpdateBillStatusRequest(Value):
    """The status that a bill is to have."""

    status: BillStatus


class ApproveBillsRequest(Value):
    """The bills to approve."""

    bill_ids: Annotated[tuple[Id, ...], Field(min_length=1, max_length=5000)]


class SendBillRequest(Value):
    """To whom a bill goes by e-mail: the address of its account unless `to` names another one."""

    to: Email | None = None
    again: Flag = False


class PreviewLetterRequest(Value):
    """The words that an e-mail is tried with; what is left out is as the organization has set it."""

    subject: LetterSubject | None = None
    text: LetterText | None = None


class DownloadDocumentsRequest(Value):
    """Whose documents one file has: bills by their ids, or all of a month."""

    bill_ids: Annotated[tuple[Id, ...], Field(max_length=5000)] = ()
    month: Text | None = None
    format: BundleFormat = BundleFormat.PDF
    usage: AppendixDetail = AppendixDetail.AUTO


class ExternalSystem(StrEnum):
    """Whose columns a file of bills has."""

    STANDARD = "STANDARD"
    XERO = "XERO"


class DownloadCsvRequest(Value):
    """Which bills a file has: by bill date, or by the date of their invoices; ends are exclusive.

    Attributes:
        approved_only: Whether pending bills are left out.
    """

    start_date: _Moment | None = None
    end_date: _Moment | None = None
    external_invoice_date_start: _Moment | None = None
    external_invoice_date_end: _Moment | None = None
    external_system: ExternalSystem = ExternalSystem.STANDARD
    approved_only: Flag = False
