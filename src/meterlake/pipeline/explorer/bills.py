"""The verbs of the first Data Explorer about bills."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from itertools import islice
from typing import Any, Final

from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.rules.queries import check_dates
from meterlake.model.usage.explorer import (
    ACCOUNT,
    PRODUCT,
    DimensionQuery,
    QueryBillDataRequest,
)
from meterlake.model.values.entity import Record
from meterlake.model.values.period import format_instant
from meterlake.stores import Stores
from meterlake.stores.state.billing.bills.dates import (
    billed_account_ids,
    billed_between,
    billed_product_names,
)
from meterlake.stores.state.billing.memos.lines import line_id
from meterlake.stores.state.billing.stored_bills import StoredBill
from meterlake.stores.state.core.account_names import by_id
from meterlake.stores.state.core.reader import Reader

Document = dict[str, Any]

# What a line is called in an answer, where the names differ.
_DIMENSIONS: Final = {
    "description": "description",
    "lineItemType": "lineItemType",
    "productName": "productName",
    "quantityUnit": "unit",
    "subtotalUnit": "currency",
    "commitmentId": "commitmentId",
    "childAccountId": "childAccountId",
}
_MEASURES: Final = ("convertedSubtotal", "subtotal", "conversionRate", "quantity", "units")


def bill_data(stores: Stores, org_id: str, query: QueryBillDataRequest) -> Document:
    """Lines of bills, the newest bill first: `{values, hasMoreData}`.

    A bill belongs to the time if the first moment of its date, in UTC, does.

    Raises:
        Invalid: A dimension is none of those that bills have, or a date is wrong.
    """
    return explore_lines(stores, org_id, query)


def explore_lines(
    stores: Stores,
    org_id: str,
    query: QueryBillDataRequest,
    includes: Callable[[Mapping[str, Any]], bool] = lambda _: True,
) -> Document:
    """The same of those lines of which something holds: `{values, hasMoreData}`.

    Raises:
        Invalid: A dimension is none of those that bills have, or a date is wrong.
    """
    check_dates(query.start_date, query.end_date)
    wanted = wanted_values(query.dimensions, (ACCOUNT, PRODUCT))
    types = {each.value for each in query.line_item_types}
    with stores.state.reading(org_id) as reader:
        lines = _Lines(reader)
        days = first_day(query.start_date), first_day(query.end_date)
        rows = (
            row
            for bill in billed_between(reader, *days)
            for row in lines.of(bill, lambda line: line["lineItemType"] in types and includes(line))
            if passes(row["dimensions"].get("account"), wanted.get(ACCOUNT))
            and passes(row["dimensions"].get("productName"), wanted.get(PRODUCT))
        )
        found = list(islice(rows, query.limit + 1))
    return limit_rows(found, query.limit)


def limit_rows(rows: list[Document], limit: int) -> Document:
    """The first rows, and whether there are more: `{values, hasMoreData}`."""
    return {"values": rows[:limit], "hasMoreData": len(rows) > limit}


def first_day(instant: datetime) -> date:
    """The first day that begins at an instant or later."""
    return instant.date() + timedelta(days=instant.time() != time())


def wanted_values(
    dimensions: Iterable[DimensionQuery], known: tuple[str, ...]
) -> dict[str, set[str] | None]:
    """The values that the filters let through, by dimension; None for every one."""
    found: dict[str, set[str] | None] = {}
    for index, each in enumerate(dimensions):
        if each.name not in known:
            raise Invalid(
                f"dimensions[{index}].name", each.name, f"it must be one of {', '.join(known)}"
            )
        if each.wanted is not None:
            before = found.get(each.name)
            found[each.name] = set(each.wanted) if before is None else before & set(each.wanted)
    return found


def passes(value: Any, wanted: set[str] | None) -> bool:
    """Whether a filter lets a value through."""
    return wanted is None or value in wanted


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of bills as they are explored, with the accounts that they are of."""

    reader: Reader
    accounts: dict[str, Record[Account] | None] = field(default_factory=dict)

    def of(
        self, bill: StoredBill, includes: Callable[[Mapping[str, Any]], bool]
    ) -> Iterator[Document]:
        account = self._account_dimensions(bill)
        shown = bill.to_wire()
        details = _details(bill, shown)
        for line in bill.content.lines:
            if not includes(line.body):
                continue
            names = {name: line.body.get(key) for name, key in _DIMENSIONS.items()}
            dimensions = {
                **account,
                **names,
                "billLineItemId": line_id(bill.id, line.key),
                "convertedSubtotalUnit": bill.content.currency,
                "billId": bill.id,
                "externalInvoiceReference": shown.get("externalInvoiceReference"),
            }
            period = {
                key: line.body[key]
                for key in ("servicePeriodStartDate", "servicePeriodEndDate")
                if key in line.body
            }
            yield {
                "updatedDate": format_instant(bill.modified),
                "dimensions": _present(dimensions),
                "measures": {
                    **{name: line.body[name] for name in _MEASURES if name in line.body},
                    "version": bill.version,
                },
                "billDetails": {**details, **period},
            }

    def _account_dimensions(self, bill: StoredBill) -> Document:
        account_id = bill.content.key.account_id
        record = self._account(account_id)
        parent_id = record and record.entity.parent_account_id
        parent = self._account(parent_id) if parent_id else None
        return {
            "account": record.entity.code if record else bill.content.body.get("accountCode"),
            "accountName": record and record.entity.name,
            "accountId": account_id,
            "parentAccountCode": parent and parent.entity.code,
            "parentAccountName": parent and parent.entity.name,
            "parentAccountId": parent_id,
        }

    def _account(self, id: str) -> Record[Account] | None:
        if id not in self.accounts:
            try:
                self.accounts[id] = self.reader.get(Account, id)
            except NotFound:
                self.accounts[id] = None
        return self.accounts[id]


def _details(bill: StoredBill, shown: Mapping[str, Any]) -> Document:
    day = bill.content.key.bill_date
    year, week, _ = day.isocalendar()
    texts = ("dueDate", "startDate", "endDate", "timezone")
    return {
        "day": day.day,
        "week": f"{year}-W{week:02}",
        "month": f"{day.month:02}",
        "year": day.year,
        "yearMonth": f"{day:%Y-%m}",
        "locked": "true" if bill.locked else "false",
        "status": bill.status.value,
        "billDate": day.isoformat(),
        "billCurrency": bill.content.currency,
        "billingFrequency": bill.content.key.frequency,
        **{name: str(shown[name]) for name in texts if shown.get(name) is not None},
    }


def _present(members: Document) -> Document:
    return {name: value for name, value in members.items() if value is not None}


def billed_accounts(stores: Stores, org_id: str, limit: int) -> Document:
    """The accounts that there are bills of: `{accountCodes, accounts}`."""
    with stores.state.reading(org_id) as reader:
        return list_accounts(reader, billed_account_ids(reader), limit)


def list_accounts(reader: Reader, ids: set[str], limit: int) -> Document:
    """Some accounts by their codes: `{accountCodes, accounts}`."""
    found = sorted(by_id(reader, ids).values(), key=lambda each: each.code)[:limit]
    return {
        "accountCodes": [each.code for each in found],
        "accounts": [{"code": each.code, "name": each.name} for each in found],
    }


def billed_products(stores: Stores, org_id: str, limit: int) -> Document:
    """The products that lines of bills are for, as they were called: `{productNames, products}`."""
    with stores.state.reading(org_id) as reader:
        ordered = billed_product_names(reader)[:limit]
    return {
        "productNames": list(dict.fromkeys(name for name, _ in ordered)),
        "products": [{"code": code, "name": name} for name, code in ordered],
    }
