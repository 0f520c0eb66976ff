"""What a customer sees of themselves: their balances, what is spent, and their approved bills.

Each member is named here: what an entity gets later is shown to nobody by itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from meterlake.model.bills.bill import Bill, Failure
from meterlake.model.bills.jobs import BillJobRequest, BillOrder
from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.model.values import wire
from meterlake.pipeline.billing import bills
from meterlake.pipeline.billing.balances import balances
from meterlake.pipeline.billing.calculation.reading import read_bills
from meterlake.pipeline.billing.jobs.jobs import resolve_order
from meterlake.pipeline.billing.run import content_of
from meterlake.pipeline.config.entities import Document, single
from meterlake.stages.bill import selections_of
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills.lists import BillFilters
from meterlake.stores.state.billing.credits.balances import BalanceFilters
from meterlake.stores.state.core.pages import Page

_BALANCES_MAX: Final = 100
_BILL: Final = (
    *("id", "billDate", "startDate", "endDate", "dueDate", "timezone", "currency", "billTotal"),
    *("sequentialInvoiceNumber", "purchaseOrderNumber"),
)
_LINE: Final = (
    *("description", "productName", "lineItemType", "servicePeriodStartDate"),
    *("servicePeriodEndDate", "quantity", "units", "unit", "convertedSubtotal", "sequenceNumber"),
    *("childAccountCode", "segment"),
)
_BAND: Final = ("lowerLimit", "bandQuantity", "unitPrice", "fixedPrice", "bandSubtotal")
_BANDS: Final = "usagePerPricingBand"
_SPEND: Final = ("startDate", "endDate", "currency", "billTotal", "timezone")
_BALANCE: Final = ("name", "code", "currency", "amount", "startDate", "endDate")


def read_customer(organization: Organization, account_id: str) -> Document:
    """Who the customer is, and the balances that they have left.

    Raises:
        NotFound: There is no such account any more.
    """
    config = single(organization, OrganizationConfig)
    with organization.reading() as reader:
        account = reader.get(Account, account_id).entity
    criteria = BalanceFilters(account_id=account_id)
    found = balances.list_page(organization, criteria, Page(_BALANCES_MAX))
    return {
        "name": account.name,
        "code": account.code,
        "timezone": config.timezone,
        "balances": [_pick(each, _BALANCE) for each in found["data"]],
    }


def read_customer_spend(organization: Organization, account_id: str) -> Document:
    """What the customer's bills of the periods that are open would come to now.

    Why one of them cannot be made is for those who look after it.

    Raises:
        NotFound: There is no such account any more.
    """
    found = read_spend(organization, account_id)
    return {
        "asOf": found["asOf"],
        "bills": [_with_lines(each, _SPEND) for each in found["bills"]],
    }


def list_customer_bills(organization: Organization, account_id: str, page: Page) -> Document:
    """One page of the customer's approved bills, the newest first, without their lines."""
    filters = BillFilters(account_ids=(account_id,), status=BillStatus.APPROVED)
    found = bills.list_bills(organization, filters, page, lines=False)
    return {**found, "data": [_pick(each, _BILL) for each in found["data"]]}


def read_customer_bill(organization: Organization, account_id: str, id: str) -> Document:
    """One approved bill of the customer, with its lines and their bands.

    Raises:
        NotFound: There is none, it is not approved, or it is another customer's.
    """
    filters = BillFilters(ids=(id,), account_ids=(account_id,), status=BillStatus.APPROVED)
    found = bills.list_bills(organization, filters, Page(1))["data"]
    if not found:
        raise NotFound("bill", id)
    return _with_lines(found[0], _BILL)


def _with_lines(bill: Mapping[str, Any], members: Iterable[str]) -> Document:
    return {**_pick(bill, members), "lineItems": [_line(each) for each in bill["lineItems"]]}


def _line(line: Mapping[str, Any]) -> Document:
    bands = [_pick(each, _BAND) for each in line.get(_BANDS) or ()]
    return {**_pick(line, _LINE), _BANDS: bands}


def _pick(document: Mapping[str, Any], members: Iterable[str]) -> Document:
    return {name: document[name] for name in members if document.get(name) is not None}


def read_spend(organization: Organization, account_id: str) -> Document:
    """The bills of an account's open periods, calculated with the usage and the prices of now.

    Raises:
        NotFound: There is no such account.
        Unavailable: A store failed.
    """
    order = BillOrder(request=BillJobRequest(account_ids=(account_id,)))
    with organization.reading() as reader:
        reader.get(Account, account_id)
        order = resolve_order(reader, order, organization.now())
        [record] = reader.all(OrganizationConfig)
    [selection] = selections_of(order, record.entity)
    found, failures = list[Document](), list[str]()
    reading = read_bills(organization, selection, organization.lake.snapshot())
    for calculation in reading.calculations():
        for account in calculation.made():
            for each in account.made:
                if isinstance(each, Failure):
                    failures.append(each.reason)
                else:
                    found.append(_document(each))
    return {
        "accountId": account_id,
        "asOf": organization.now(),
        "bills": sorted(found, key=lambda each: (each["endDate"], each["currency"])),
        "failures": failures,
    }


def _document(bill: Bill) -> Document:
    content = content_of(bill)
    # Lines on their way to the store are encoded already.
    body: dict[str, Any] = wire.loads(wire.dumps(content.body))
    return {
        "startDate": body["startDate"],
        "endDate": body["endDate"],
        "billDate": content.key.bill_date,
        "currency": content.currency,
        "billTotal": content.total,
        "timezone": body["timezone"],
        "lineItems": [
            {**wire.loads(wire.dumps(each.body)), "sequenceNumber": number}
            for number, each in enumerate(content.lines, start=1)
        ],
    }
