"""The verbs of the first Data Explorer about bills and commitments."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from meterlake.model.accounts import Account
from meterlake.model.commitments import Commitment
from meterlake.model.entity import Record
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.explorer import (
    ACCOUNT,
    PRODUCT,
    AnyLineItemType,
    DimensionQuery,
    QueryBillDataRequest,
    QueryCommitmentsRequest,
)
from meterlake.model.money import ZERO, exact
from meterlake.model.period import format_instant
from meterlake.model.rules.queries import check_dates
from meterlake.stores import Stores
from meterlake.stores.state.billing.bill_dates import (
    billed_account_ids,
    billed_between,
    billed_product_names,
)
from meterlake.stores.state.billing.bills import StoredBill
from meterlake.stores.state.billing.memo_lines import line_id
from meterlake.stores.state.core.account_names import AccountName, by_id
from meterlake.stores.state.core.postings import amounts_spent
from meterlake.stores.state.core.reader import Reader

Document = dict[str, Any]

_OF_COMMITMENTS: Final = (
    AnyLineItemType.COMMITMENT_CONSUMED,
    AnyLineItemType.COMMITMENT_FEE,
    AnyLineItemType.OVERAGE_SURCHARGE,
    AnyLineItemType.OVERAGE_USAGE,
)
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
    check_dates(query.start_date, query.end_date)
    wanted = _wanted_values(query.dimensions, (ACCOUNT, PRODUCT))
    types = {each.value for each in query.line_item_types}
    with stores.state.reading(org_id) as reader:
        lines = _Lines(reader)
        days = _first_day(query.start_date), _first_day(query.end_date)
        rows = (
            row
            for bill in billed_between(reader, *days)
            for row in lines.of(bill)
            if row["dimensions"]["lineItemType"] in types
            and _passes(row["dimensions"].get("account"), wanted.get(ACCOUNT))
            and _passes(row["dimensions"].get("productName"), wanted.get(PRODUCT))
        )
        found = list(islice(rows, query.limit + 1))
    return _limit_rows(found, query.limit)


def _first_day(instant: datetime) -> date:
    """The first day that begins at an instant or later."""
    return instant.date() + timedelta(days=instant.time() != time())


def _wanted_values(
    dimensions: Iterable[DimensionQuery], known: tuple[str, ...]
) -> dict[str, set[str] | None]:
    """The values that the filters let through, by dimension; None for every one."""
    found: dict[str, set[str] | None] = {}
    for index, each in enumerate(dimensions):
        if each.name not in known:
            raise Invalid(f"dimensions[{index}].name", each.name, f"one of {', '.join(known)}")
        if each.wanted is not None:
            before = found.get(each.name)
            found[each.name] = set(each.wanted) if before is None else before & set(each.wanted)
    return found


def _passes(value: Any, wanted: set[str] | None) -> bool:
    return wanted is None or value in wanted


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of bills as they are explored, with the accounts that they are of."""

    reader: Reader
    accounts: dict[str, Record[Account] | None] = field(default_factory=dict)

    def of(self, bill: StoredBill) -> Iterator[Document]:
        account = self._account_dimensions(bill)
        shown = bill.to_wire()
        details = _details(bill, shown)
        for line in bill.content.lines:
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
        return _accounts(reader, billed_account_ids(reader), limit)


def _accounts(reader: Reader, ids: set[str], limit: int) -> Document:
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


# --- Commitments ---------------------------------------------------------------------------------


def committed_accounts(stores: Stores, org_id: str, limit: int) -> Document:
    """The accounts that have commitments: `{accountCodes, accounts}`."""
    with stores.state.reading(org_id) as reader:
        return _accounts(reader, {each.entity.account_id for each in reader.all(Commitment)}, limit)


def commitments(stores: Stores, org_id: str, query: QueryCommitmentsRequest) -> Document:
    """The commitments that overlap a time, the newest first: `{values, hasMoreData}`.

    Raises:
        Invalid: There is another dimension than the account, or a date is wrong.
    """
    return _limit_rows(_overlapping(stores, org_id, query), query.limit)


def _limit_rows(rows: list[Document], limit: int) -> Document:
    return {"values": rows[:limit], "hasMoreData": len(rows) > limit}


def _overlapping(stores: Stores, org_id: str, query: QueryCommitmentsRequest) -> list[Document]:
    check_dates(query.start_date, query.end_date)
    wanted = _wanted_values(query.dimensions, (ACCOUNT,)).get(ACCOUNT)
    first, after = query.start_date.date(), _first_day(query.end_date)
    with stores.state.reading(org_id) as reader:
        records = [
            each
            for each in reversed(reader.all(Commitment))
            if each.entity.start_date < after and each.entity.end_date > first
        ]
        names = by_id(reader, {each.entity.account_id for each in records})
        spent = amounts_spent(reader, [each.id for each in records])
        rows = [_commitment(each, names, spent.get(each.id, ZERO)) for each in records]
    return [row for row in rows if _passes(row["dimensions"]["account"], wanted)]


def remaining_commitments(stores: Stores, org_id: str, query: QueryCommitmentsRequest) -> Document:
    """Those of `commitments` of which something is left.

    Raises:
        Invalid: There is another dimension than the account, or a date is wrong.
    """
    found = _overlapping(stores, org_id, query)
    return _limit_rows(
        [row for row in found if row["measures"]["amountRemaining"] > ZERO], query.limit
    )


def _commitment(
    record: Record[Commitment], names: Mapping[str, AccountName], spent: Decimal
) -> Document:
    commitment, name = record.entity, names.get(record.entity.account_id)
    with exact():
        left = commitment.amount - spent
    return {
        "updatedDate": format_instant(record.modified),
        "dimensions": {
            "account": name and name.code,
            "accountName": name and name.name,
            "accountId": commitment.account_id,
            "commitmentId": record.id,
        },
        "measures": {
            "amount": commitment.amount,
            "amountSpent": spent,
            "amountRemaining": left,
        },
        "commitmentDetails": {
            "startDate": commitment.start_date.isoformat(),
            "endDate": commitment.end_date.isoformat(),
            "currency": commitment.currency,
        },
    }


def commitment_lines(stores: Stores, org_id: str, query: QueryCommitmentsRequest) -> Document:
    """The lines of bills that are about commitments: `{values, hasMoreData}`.

    There are none as long as bills charge for no commitment.

    Raises:
        Invalid: There is another dimension than the account, or a date is wrong.
    """
    check_dates(query.start_date, query.end_date)
    _wanted_values(query.dimensions, (ACCOUNT,))
    request = QueryBillDataRequest(
        start_date=query.start_date,
        end_date=query.end_date,
        line_item_types=_OF_COMMITMENTS,
        dimensions=query.dimensions,
        limit=query.limit,
    )
    return bill_data(stores, org_id, request)


def obligations(stores: Stores, org_id: str, query: QueryCommitmentsRequest) -> list[Document]:
    """What is still owed of commitments, month by month.

    There are none as long as bills charge for no commitment.

    Raises:
        Invalid: There is another dimension than the account, or a date is wrong.
    """
    del stores, org_id
    check_dates(query.start_date, query.end_date)
    _wanted_values(query.dimensions, (ACCOUNT,))
    return []
