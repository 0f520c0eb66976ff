"""Bills of the API and their lines: listed, searched, approved, locked and deleted."""

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from functools import partial
from typing import Any, Final

from meterlake.model.bills.requests import BillStatus
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.model.resources.listing import Search
from meterlake.model.values import wire
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.balances.ended_balances import settle_draws
from meterlake.pipeline.billing.bill_documents import bill_response, line_response
from meterlake.pipeline.billing.late_usage.taking_back import take_back_memos_of
from meterlake.pipeline.billing.line_usage import line_usage
from meterlake.pipeline.billing.two_persons import refuse_own_work
from meterlake.pipeline.config.entities import Document, envelope
from meterlake.pipeline.explorer.answers import FileFormat, keep_file
from meterlake.stores import Organization
from meterlake.stores.downloads import Download
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills import lists as bill_lists
from meterlake.stores.state.billing.bills.bulk_approval import BATCH, approve_pending, pending_ids
from meterlake.stores.state.billing.bills.lists import (
    BillFilters,
    LineFilters,
    StoredLine,
    of_billing_period,
)
from meterlake.stores.state.billing.bills.versions import BillVersion, list_versions
from meterlake.stores.state.billing.credits.source_events import last_posting
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.memos.memos import line_id
from meterlake.stores.state.billing.statements.files import NO_FILES, statement_files
from meterlake.stores.state.billing.stored_bills import StoredBill
from meterlake.stores.state.core.pages import Page

_ONE_DAY: Final = timedelta(days=1)
_KIND: Final = "line item"


def list_bills(
    organization: Organization,
    filters: BillFilters,
    page: Page,
    *,
    lines: bool = True,
    total: bool = True,
) -> Document:
    """One page of bills, the newest first.

    Args:
        organization: The organization.
        filters: Which bills.
        page: Which part of them.
        lines: Whether they show their lines.
        total: Whether they show what they come to.
    """
    with organization.reading() as reader:
        found, token = bill_lists.list_bills(reader, filters, page, lines=lines)
        shown = _responses(reader, found, lines=lines, total=total)
    return envelope(shown, token)


def list_bills_by_date(
    organization: Organization,
    month: Month | None,
    account_ids: Sequence[str],
    status: str | None,
    limit: int,
) -> tuple[list[Document], dict[str, tuple[int, Decimal]]]:
    """The bills with the latest dates, without their lines; those of a date by account.

    Beside them the number and the total of all such bills, however many are listed, by currency.

    Args:
        organization: The organization.
        month: That of their last day; any if None.
        account_ids: Those of their accounts; any if there are none.
        status: `pending` or `approved`; any if None.
        limit: How many at most.
    """
    filters = BillFilters(
        account_ids=tuple(account_ids),
        status=None if status is None else BillStatus(status.upper()),
        date_from=None if month is None else month.first + _ONE_DAY,
        date_before=None if month is None else month.after + _ONE_DAY,
    )
    with organization.reading() as reader:
        found = bill_lists.bills_by_date(reader, filters, limit)
        return _responses(reader, found, lines=False), bill_lists.total_bills(reader, filters)


def list_bills_of_account(organization: Organization, account_id: str, page: Page) -> Document:
    """One page of the bills of an account, the newest first.

    Raises:
        NotFound: There is no such account.
    """
    with organization.reading() as reader:
        reader.get(Account, account_id)
    return list_bills(organization, BillFilters(account_ids=(account_id,)), page)


def list_bills_of_period(
    organization: Organization, last_day: date, frequency: str, page: Page
) -> Document:
    """One page of the bills of a frequency whose period ends with a day, the newest first."""
    return list_bills(organization, of_billing_period(last_day, frequency), page)


def search_bills(organization: Organization, criteria: Search, *, lines: bool = True) -> Document:
    """One page of a search; `nextToken` is the document to go on from."""
    with organization.reading() as reader:
        found, more = bill_lists.search_bills(reader, criteria, lines=lines)
        token = str(criteria.start + len(found)) if more else None
        return envelope(_responses(reader, found, lines=lines), token)


def total_found(organization: Organization, criteria: Search) -> Document:
    """What all bills that a search finds come to, by currency."""
    with organization.reading() as reader:
        return {"data": [each._asdict() for each in bill_lists.total_found(reader, criteria)]}


def get_bill(organization: Organization, id: str) -> Document:
    """One bill.

    Raises:
        NotFound: There is none.
    """
    with organization.reading() as reader:
        return _responses(reader, [bills.get(reader, id)])[0]


def read_heads(organization: Organization, ids: Sequence[str]) -> list[Document]:
    """Those of some bills that there are, without their lines, the latest date first."""
    with organization.reading() as reader:
        found = bill_lists.bills_by_date(reader, BillFilters(ids=tuple(ids)), len(ids))
        return _responses(reader, found, lines=False)


def list_bill_versions(organization: Organization, id: str) -> Document:
    """What a bill said over time, the newest version first, without lines; also of a deleted bill.

    Raises:
        NotFound: There never was such a bill.
    """
    with organization.reading() as reader:
        found = list_versions(reader, id)
    return {"data": [_version_row(each) for each in reversed(found)]}


def _version_row(version: BillVersion) -> Document:
    row = {
        "version": version.version,
        "currency": version.content.currency,
        "billTotal": version.content.total,
        "dtLastModified": version.modified,
        "lastModifiedBy": version.modified_by,
        "dtReplaced": version.replaced,
        "replacedBy": version.replaced_by,
    }
    return {name: value for name, value in row.items() if value is not None}


def latest_bill(organization: Organization, account_id: str) -> Document:
    """The bill of an account with the latest date.

    Raises:
        NotFound: There is no such account, or it has no bill.
    """
    with organization.reading() as reader:
        reader.get(Account, account_id)
        return _responses(reader, [bill_lists.latest_bill(reader, account_id)])[0]


def set_status(organization: Organization, author: str, id: str, status: BillStatus) -> Document:
    """Approve a bill, or take the approval back.

    Raises:
        Forbidden: Another person is to approve it.
        NotFound: There is no such bill.
        Locked: It is locked, or the lock date closes it.
    """
    with organization.transaction(author) as transaction:
        if status is BillStatus.APPROVED and bills.get(transaction, id).status is not status:
            refuse_own_work(transaction, author, [id])
        return _response(transaction, bills.set_status(transaction, id, status))


def lock_bill(organization: Organization, author: str, id: str) -> Document:
    """Lock an approved bill for ever.

    Raises:
        NotFound: There is no such bill.
        Locked: It is locked, or the lock date closes it.
        Conflict: It is not approved.
    """
    with organization.transaction(author) as transaction:
        return _response(transaction, bills.lock(transaction, id))


def delete_bill(organization: Organization, author: str, id: str) -> Document:
    """Delete a bill, and take back what memos carry of it; answers with what it was.

    Raises:
        NotFound: There is no such bill.
        Locked: It is locked, or the lock date closes it.
    """
    with organization.transaction(author) as transaction:
        since = last_posting(transaction)
        removed = bills.remove(transaction, id)
        take_back_memos_of(transaction, id)
        settle_draws(transaction, since)
        return _response(transaction, removed)


def approve_bills(organization: Organization, author: str, ids: Sequence[str]) -> int:
    """Approve bills: all of them, or none if one cannot be; how many were not approved before.

    Raises:
        Forbidden: Another person is to approve one of them.
        NotFound: One of them does not exist.
        Locked: One of them waits for approval, and the lock date closes it.
    """
    with organization.transaction(author) as transaction:
        # One that is approved is perhaps locked: nothing has to change.
        waiting = [
            id_
            for id_ in dict.fromkeys(ids)
            if bills.get(transaction, id_).status is not BillStatus.APPROVED
        ]
        refuse_own_work(transaction, author, waiting)
        for id_ in waiting:
            bills.set_status(transaction, id_, BillStatus.APPROVED)
        return len(waiting)


def approve_filtered(organization: Organization, author: str, filters: BillFilters) -> int:
    """Approve the bills that filters mean and that may be changed; how many there were.

    Many are approved in several transactions: who does it again approves what is left.

    Raises:
        Forbidden: Another person is to approve one of them.
    """
    open_transaction = partial(organization.state.transaction, organization.id, author)
    with organization.reading() as reader:
        # All of them: the last one stops the first.
        refuse_own_work(reader, author, pending_ids(reader, filters))
    approved = 0
    while True:
        with open_transaction() as transaction:
            refuse_own_work(transaction, author, pending_ids(transaction, filters, BATCH))
            count = approve_pending(transaction, filters)
        approved += count
        if count < BATCH:
            return approved


def approve_period(organization: Organization, author: str, last_day: date, frequency: str) -> int:
    """Approve the bills of a frequency whose period ends with a day; how many there were."""
    return approve_filtered(organization, author, of_billing_period(last_day, frequency))


def _response(transaction: Transaction, bill: StoredBill) -> Document:
    return _responses(transaction, [bill])[0]


def _responses(reader: Reader, found: Sequence[StoredBill], **parts: Any) -> list[Document]:
    closed_until = closed_before(reader)
    files = statement_files(reader, [bill.id for bill in found])
    return [
        bill_response(bill, closed_until, files.get(bill.id, NO_FILES), **parts) for bill in found
    ]


def list_lines(organization: Organization, filters: LineFilters, page: Page) -> Document:
    """One page of lines: those of the newest bill first, each bill's in their order."""
    with organization.reading() as reader:
        found, token = bill_lists.list_lines(reader, filters, page)
        return envelope([line_response(*each) for each in found], token)


def list_lines_of_bill(organization: Organization, bill_id: str, page: Page) -> Document:
    """One page of the lines of a bill, in their order.

    Raises:
        NotFound: There is no such bill.
    """
    with organization.reading() as reader:
        bills.get(reader, bill_id)
    return list_lines(organization, LineFilters(bill_id=bill_id), page)


def get_line(organization: Organization, bill_id: str, id: str) -> Document:
    """One line of a bill.

    Raises:
        NotFound: There is no such bill, or it has no such line.
    """
    with organization.reading() as reader:
        return line_response(*find_line(reader, bill_id, id))


def find_line(reader: Reader, bill_id: str, id: str) -> StoredLine:
    """A line of a bill by its id.

    Raises:
        NotFound: There is no such bill, or it has no such line.
    """
    bill = bills.get(reader, bill_id)
    for number, line in enumerate(bill.content.lines, start=1):
        if line_id(bill_id, line.key) == id:
            return StoredLine(bill, line, number)
    raise NotFound(_KIND, id)


def usage_file(organization: Organization, bill_id: str, id: str) -> Download:
    """A file with a line and the measurements that it charges for, as its bill pins them.

    Raises:
        NotFound: There is no such bill, or it has no such line.
        Unavailable: The store failed.
    """
    with organization.reading() as reader:
        found = find_line(reader, bill_id, id)
    usage = line_usage(organization, found.bill, found.line)
    data = wire.dumps({"lineItem": line_response(*found), **usage})
    return keep_file(organization, f"usage-{id}", data, FileFormat.JSON)
