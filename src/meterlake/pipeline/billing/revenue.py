"""Revenue: what bills charge for, by month, customer, product and currency, and in one currency."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from meterlake.model.errors import Invalid
from meterlake.model.values.money import exact
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.currencies import read_currencies
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.config.months import month_named
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills.revenue import (
    RevenueQuery,
    RevenueSum,
    read_revenue,
)
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.pages import Page, position_of, position_token

_MONTHS_MAX: Final = 120
_MONTHS: Final = 12


class RevenueGroup(StrEnum):
    """What revenue is told apart by, besides the currency."""

    MONTH = "month"
    CUSTOMER = "customer"
    PRODUCT = "product"


@dataclass(frozen=True, slots=True, kw_only=True)
class RevenueRequest:
    """What is asked of the bills.

    Attributes:
        first: The first month; eleven before the last one if None.
        last: The last month; that of now if None.
        currency: Only bills in this currency.
        reporting: The currency into which all amounts are converted, by the organization's rates.
        account_ids: Only bills of these accounts.
    """

    groups: Sequence[RevenueGroup] = (RevenueGroup.MONTH,)
    first: str | None = None
    last: str | None = None
    currency: str | None = None
    reporting: str | None = None
    account_ids: Sequence[str] = ()


def revenue(organization: Organization, request: RevenueRequest, page: Page) -> Document:
    """What bills charge for, however it is paid: drafts and approved ones, credits and debits included.

    What a balance or commitment pays is no less revenue; what is charged ahead for them is none yet.
    A bill counts for the month of its last day. Amounts of several currencies are never added, but
    where they are converted into one.

    Raises:
        Invalid: A month is none, or there are too many; the token is none that a list gave.
    """
    first, last = _months(organization, request)
    asked = RevenueQuery(
        first=str(first),
        last=str(last),
        by_month=RevenueGroup.MONTH in request.groups,
        by_account=RevenueGroup.CUSTOMER in request.groups,
        by_product=RevenueGroup.PRODUCT in request.groups,
        currency=request.currency,
        account_ids=request.account_ids,
    )
    start = position_of(page.token)
    currencies = read_currencies(organization)
    with organization.reading() as reader:
        found = sorted(read_revenue(reader, asked), key=_order)
        shown = found[start : start + page.size]
        ids = {each.key.account_id for each in shown if each.key.account_id}
        accounts = account_names.by_id(reader, ids)
    answer: Document = {
        "startMonth": str(first),
        "endMonth": str(last),
        "groups": list(request.groups),
        "data": [_row(each, accounts, currencies, request.reporting) for each in shown],
    }
    if request.reporting is not None:
        answer["reportingCurrency"] = request.reporting
        rates = {
            code: currencies.rate(code, request.reporting)
            for code in sorted({each.key.currency for each in found})
        }
        # The currencies of amounts that are in no sum of the reporting one.
        answer["missingRates"] = [code for code, rate in rates.items() if rate is None]
        answer["rates"] = {code: rate for code, rate in rates.items() if rate is not None}
    if start + page.size < len(found):
        answer["nextToken"] = position_token(start + page.size)
    return answer


def _months(organization: Organization, request: RevenueRequest) -> tuple[Month, Month]:
    last = month_named(organization, request.last or "current")
    first = (
        last.moved(1 - _MONTHS)
        if request.first is None
        else month_named(organization, request.first)
    )
    count = (last.year - first.year) * 12 + last.month - first.month + 1
    if not 0 < count <= _MONTHS_MAX:
        raise Invalid(
            "startMonth", str(first), f"it must be at most {_MONTHS_MAX - 1} months before endMonth"
        )
    return first, last


def _order(each: RevenueSum) -> tuple[Any, ...]:
    """The newest month first, and within it the largest amount of each currency."""
    year, _, month = (each.key.month or "0-0").partition("-")
    key = each.key
    return (
        *(-int(year), -int(month[:2])),
        *(key.currency, -each.revenue, key.account_id or "", key.product_id or ""),
    )


def _row(
    each: RevenueSum, accounts: Any, currencies: Currencies, reporting: str | None
) -> Document:
    key = each.key
    account = accounts.get(key.account_id)
    code, name = each.product
    shown = {
        "month": key.month,
        "accountId": key.account_id,
        "accountCode": account.code if account else None,
        "accountName": account.name if account else None,
        "productId": key.product_id,
        "productCode": code,
        "productName": name,
        "currency": key.currency,
        "amount": each.revenue,
        "approvedAmount": each.approved,
        "draftAmount": each.revenue - each.approved,
        "billedAmount": each.billed,
        "drawnAmount": each.drawn,
        "chargedAheadAmount": each.ahead,
        "count": each.bills,
        **_converted(each, currencies, reporting),
    }
    return {name: value for name, value in shown.items() if value is not None}


def _converted(each: RevenueSum, currencies: Currencies, reporting: str | None) -> Document:
    """The amounts in the reporting currency, rounded as that one is; none without a rate.

    What is billed follows from the others: in every currency revenue is what is billed, and what
    balances and commitments pay, less what is charged ahead.
    """
    rate = None if reporting is None else currencies.rate(each.key.currency, reporting)
    if reporting is None or rate is None:
        return {}
    revenue, drawn, ahead = (
        currencies.convert(amount, rate, reporting)
        for amount in (each.revenue, each.drawn, each.ahead)
    )
    with exact():
        billed = revenue - drawn + ahead
    return {
        "reportingAmount": revenue,
        "reportingBilledAmount": billed,
        "reportingDrawnAmount": drawn,
        "reportingChargedAheadAmount": ahead,
    }
