"""What a customer sees of themselves: their balances, what is spent, and their approved bills.

Each member is named here: what an entity gets later is shown to nobody by itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.pipeline.billing import bills
from meterlake.pipeline.billing.balances import balances
from meterlake.pipeline.billing.spend import read_spend
from meterlake.pipeline.config.entities import Document, single
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
