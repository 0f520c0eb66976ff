"""What a bill would be: calculated and answered, and nothing of it stored."""

from dataclasses import replace
from typing import Any

from meterlake.model.bills.bill import Bill, Failure
from meterlake.model.bills.jobs import BillJobRequest, BillOrder
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Conflict
from meterlake.model.rules.bill_jobs import check_preview
from meterlake.model.values import wire
from meterlake.model.values.problems import read
from meterlake.pipeline.billing.bill_documents import bill_response
from meterlake.pipeline.billing.calculation.reading import read_bills
from meterlake.pipeline.billing.jobs.jobs import resolve_order
from meterlake.pipeline.billing.run import content_of
from meterlake.pipeline.config.entities import Document
from meterlake.stages.bill import (
    BillIdentity,
    BillingTerms,
    BillSelection,
    selections_of,
    without_bill,
)
from meterlake.stores import Organization, Stores
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.bills import with_memos
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.memos.memos import memo_lines
from meterlake.stores.state.billing.stored_bills import BillContent, StoredBill
from meterlake.stores.state.core.state import new_id


def preview(organization: Organization, author: str, document: Any) -> Document:
    """The bill that a job with such a request would make of its one account.

    Raises:
        Invalid: A field or a rule is broken, or the account does not exist.
        Conflict: The account cannot be billed, or has no bill of that date.
        Unavailable: A store failed.
    """
    request = read(BillJobRequest, document)
    check_preview(request)
    with organization.reading() as reader:
        order = resolve_order(reader, BillOrder(request=request), organization.now())
        [record] = reader.all(OrganizationConfig)
    [selection] = selections_of(order, record.entity)
    # A bill as it would be read again: lines on their way to the store are encoded already.
    made = content_of(_calculate(organization, selection))
    lines = [replace(each, body=wire.loads(wire.dumps(each.body))) for each in made.lines]
    content = replace(made, body=wire.loads(wire.dumps(made.body)), lines=lines)
    with organization.reading() as reader:
        stored = bills.find(reader, content)
        if stored is not None:
            memos = memo_lines(reader, [stored.id]).get(stored.id, ())
            content = with_memos(content, memos)
        return bill_response(
            _as_stored(organization.stores, author, content, stored), closed_before(reader)
        )


def _calculate(organization: Organization, selection: BillSelection) -> Bill:
    reading = read_bills(organization, selection, organization.lake.snapshot())
    [calculation] = reading.calculations()
    terms, found = calculation.terms, []
    for each in (bill for account in calculation.made() for bill in account.made):
        if isinstance(each, Failure):
            raise Conflict(
                f"account {each.account_code!r} cannot be billed: {each.reason};"
                " mend that, and ask again"
            )
        found.append(each)
    if not found:
        raise Conflict(_describe_absence(terms))
    due = {bill.key for each in terms.account_terms_of.values() for bill in each.bills}
    # One that no plan makes any more is no answer where there is another one.
    return min(found, key=lambda each: BillIdentity.of_bill(each) not in due)


def _describe_absence(terms: BillingTerms) -> str:
    for each in without_bill(terms, ()):
        return f"account {each.account_code!r} has no bill of that date: {each.reason}; choose another date"
    [account_terms] = terms.account_terms_of.values()
    account = account_terms.account.entity
    if account_terms.pooled and account.parent_account_id is not None:
        parent = terms.configuration.get(Account, account.parent_account_id).entity
        return f"account {account.code!r} has no bill: a plan of its parent {parent.code!r} charges for it; look at the bill of the parent"
    return f"account {account.code!r} is on no plan then; give it one, or choose another date"


def _as_stored(
    stores: Stores, author: str, content: BillContent, stored: StoredBill | None
) -> StoredBill:
    """The bill as it would be stored: with the id and the envelope of the one that there is."""
    now = stores.now()
    if stored is not None:
        return replace(stored, content=content, calculated=now)
    return StoredBill(
        id=new_id(),
        version=1,
        status=BillStatus.PENDING,
        locked=False,
        content=content,
        created=now,
        created_by=author,
        modified=now,
        modified_by=author,
    )
