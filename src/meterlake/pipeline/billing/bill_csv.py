"""Bills as a CSV file that people fetch through a link: a row for each line."""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from itertools import chain
from typing import Final

from meterlake.model.bills.bill_name import bill_reference
from meterlake.model.bills.requests import BillStatus, DownloadCsvRequest, ExternalSystem
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid, Required
from meterlake.model.values.period import Month, format_instant
from meterlake.pipeline.billing.bill_documents import bill_response
from meterlake.pipeline.explorer.answers import FileFormat, keep_file
from meterlake.stages.decode.csv_lines import csv_lines
from meterlake.stages.export.bill_csv import csv_header, csv_rows
from meterlake.stores import Organization
from meterlake.stores.downloads import Download
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills.lists import BillFilters, count_bills, list_bills
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.stored_bills import StoredBill
from meterlake.stores.state.core.pages import Page

DAYS_MAX: Final = 31
BILLS_MAX: Final = 5000
_PAGE: Final = 500
_ONE_DAY: Final = timedelta(days=1)
# Bills of several contracts have ids in their keys: so many digits tell them apart.
_GROUP_DIGITS: Final = 8


def write_bills(organization: Organization, request: DownloadCsvRequest) -> Download:
    """Write the bills of some days; those without lines are absent.

    Raises:
        Required: A date is missing.
        Invalid: The dates are of both kinds, too many days, or too many bills.
        Unavailable: The store failed.
    """
    filters = filters_of(request)
    with organization.reading() as reader:
        count = count_bills(reader, filters)
        if count > BILLS_MAX:
            rule = f"choose fewer days, with at most {BILLS_MAX} bills"
            raise Invalid("endDate", f"{count} bills", rule)
        data = "".join(bill_lines(reader, request.external_system, filters)).encode()
    return keep_file(organization, "bills", data, FileFormat.CSV)


def bill_lines(reader: Reader, system: ExternalSystem, filters: BillFilters) -> Iterator[str]:
    """The lines of the file of some bills, the head first."""
    yield from csv_lines(chain((csv_header(system),), _rows(reader, system, filters)))


def bills_of_month(month: Month, *, approved_only: bool = False) -> BillFilters:
    """The bills whose last day is in a month: a bill's date is the day after it."""
    return BillFilters(
        date_from=month.first + _ONE_DAY,
        date_before=month.after + _ONE_DAY,
        status=BillStatus.APPROVED if approved_only else None,
    )


def _rows(reader: Reader, system: ExternalSystem, filters: BillFilters) -> Iterator[list[str]]:
    closed_until, token = closed_before(reader), None
    accounts: dict[str, Account] = {}
    while True:
        found, token = list_bills(reader, filters, Page(_PAGE, token))
        for bill in found:
            id_ = bill.content.key.account_id
            if id_ not in accounts:
                accounts[id_] = reader.get(Account, id_).entity
            account = accounts[id_]
            document = bill_response(bill, closed_until)
            for row in csv_rows(system, document, account, _reference_of(bill, account.code)):
                yield list(row)
        if token is None:
            return


def _reference_of(bill: StoredBill, code: str | None) -> str:
    key = bill.content.key
    last_day = key.bill_date - _ONE_DAY
    group = key.grouping_key[:_GROUP_DIGITS]
    return bill_reference(code or "", last_day, key.frequency, key.interval, group)


def filters_of(request: DownloadCsvRequest) -> BillFilters:
    """The bills that a request means: by their dates or by those of their invoices, not both.

    Raises:
        Required: A date is missing.
        Invalid: The dates are of both kinds, in the wrong order, or too many days apart.
    """
    status = BillStatus.APPROVED if request.approved_only else None
    dates = (request.start_date, request.end_date)
    invoiced = (request.external_invoice_date_start, request.external_invoice_date_end)
    if any(invoiced):
        if any(dates):
            rule = "leave it out together with externalInvoiceDateStart and externalInvoiceDateEnd"
            name = "endDate" if request.start_date is None else "startDate"
            raise Invalid(name, format_instant(next(filter(None, dates))), rule)
        names = ("externalInvoiceDateStart", "externalInvoiceDateEnd")
        start, end = _days(names, invoiced)
        return BillFilters(invoiced_from=start, invoiced_before=end, status=status)
    start, end = _days(("startDate", "endDate"), dates)
    return BillFilters(date_from=start, date_before=end, status=status)


def _days(
    names: tuple[str, str], instants: tuple[datetime | None, datetime | None]
) -> tuple[date, date]:
    start, end = instants
    for name, instant in zip(names, instants, strict=True):
        if instant is None:
            raise Required(name)
    assert start is not None
    assert end is not None
    if end <= start:
        raise Invalid(
            names[1], format_instant(end), f"it must be after {names[0]} {format_instant(start)}"
        )
    if end - start > timedelta(days=DAYS_MAX):
        rule = f"it must be at most {DAYS_MAX} days after {names[0]} {format_instant(start)}"
        raise Invalid(names[1], format_instant(end), rule)
    return _first_day(start), _first_day(end)


def _first_day(instant: datetime) -> date:
    """The first day that begins at an instant or later."""
    return instant.date() + timedelta(days=instant.time() != time())
