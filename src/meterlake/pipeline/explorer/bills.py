"""The verbs of the first Data Explorer about bills and commitments."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import accumulate, islice
from typing import Any, Final

from meterlake.model.bills.bill import LineItemType
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.contracts import Commitment
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.rules.queries import check_dates
from meterlake.model.usage.explorer import (
    ACCOUNT,
    PRODUCT,
    DimensionQuery,
    QueryBillDataRequest,
    QueryCommitmentsRequest,
)
from meterlake.model.values.entity import Record
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month, format_instant
from meterlake.stores import Organization
from meterlake.stores.state.billing.bills.totals import (
    billed_account_ids,
    billed_between,
    billed_product_names,
)
from meterlake.stores.state.billing.memos.memos import line_id
from meterlake.stores.state.billing.stored_bills import StoredBill
from meterlake.stores.state.core.account_names import AccountName, by_id
from meterlake.stores.state.core.postings import DatedDraw, amounts_spent, dated_draws
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
_OF_COMMITMENTS: Final = (
    LineItemType.COMMITMENT_CONSUMED,
    LineItemType.COMMITMENT_FEE,
    LineItemType.OVERAGE_SURCHARGE,
    LineItemType.OVERAGE_USAGE,
)


def bill_data(organization: Organization, query: QueryBillDataRequest) -> Document:
    """Lines of bills, the newest bill first: `{values, hasMoreData}`.

    A bill belongs to the time if the first moment of its date, in UTC, does.

    Raises:
        Invalid: A dimension is none of those that bills have, or a date is wrong.
    """
    return explore_lines(organization, query)


def explore_lines(
    organization: Organization,
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
    with organization.reading() as reader:
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
        account_id = bill.content.key.account_id
        record = self._account(account_id)
        parent_id = record and record.entity.parent_account_id
        parent = self._account(parent_id) if parent_id else None
        account = {
            "account": record.entity.code if record else bill.content.body.get("accountCode"),
            "accountName": record and record.entity.name,
            "accountId": account_id,
            "parentAccountCode": parent and parent.entity.code,
            "parentAccountName": parent and parent.entity.name,
            "parentAccountId": parent_id,
        }
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
                "dimensions": {
                    name: value for name, value in dimensions.items() if value is not None
                },
                "measures": {
                    **{name: line.body[name] for name in _MEASURES if name in line.body},
                    "version": bill.version,
                },
                "billDetails": {**details, **period},
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


def billed_accounts(organization: Organization, limit: int) -> Document:
    """The accounts that there are bills of: `{accountCodes, accounts}`."""
    with organization.reading() as reader:
        return list_accounts(reader, billed_account_ids(reader), limit)


def list_accounts(reader: Reader, ids: set[str], limit: int) -> Document:
    """Some accounts by their codes: `{accountCodes, accounts}`."""
    found = sorted(by_id(reader, ids).values(), key=lambda each: each.code)[:limit]
    return {
        "accountCodes": [each.code for each in found],
        "accounts": [{"code": each.code, "name": each.name} for each in found],
    }


def billed_products(organization: Organization, limit: int) -> Document:
    """The products that lines of bills are for, as they were called: `{productNames, products}`."""
    with organization.reading() as reader:
        ordered = billed_product_names(reader)[:limit]
    return {
        "productNames": list(dict.fromkeys(name for name, _ in ordered)),
        "products": [{"code": code, "name": name} for name, code in ordered],
    }


def committed_accounts(organization: Organization, limit: int) -> Document:
    """The accounts that have commitments: `{accountCodes, accounts}`."""
    with organization.reading() as reader:
        return list_accounts(
            reader, {each.entity.account_id for each in reader.all(Commitment)}, limit
        )


def commitments(organization: Organization, query: QueryCommitmentsRequest) -> Document:
    """The commitments that overlap a time, the newest first: `{values, hasMoreData}`.

    Raises:
        Invalid: There is another dimension than the account, or a date is wrong.
    """
    with organization.reading() as reader:
        return limit_rows(_rows(reader, query), query.limit)


def remaining_commitments(organization: Organization, query: QueryCommitmentsRequest) -> Document:
    """Those of `commitments` of which something is left.

    Raises:
        Invalid: There is another dimension than the account, or a date is wrong.
    """
    with organization.reading() as reader:
        found = _rows(reader, query)
    return limit_rows(
        [row for row in found if row["measures"]["amountRemaining"] > ZERO], query.limit
    )


def _rows(reader: Reader, query: QueryCommitmentsRequest) -> list[Document]:
    records = _overlapping(reader, query)
    names = by_id(reader, {each.entity.account_id for each in records})
    spent = amounts_spent(reader, [each.id for each in records])
    return [_commitment(each, names, spent.get(each.id, ZERO)) for each in records]


def _overlapping(reader: Reader, query: QueryCommitmentsRequest) -> list[Record[Commitment]]:
    """The commitments that overlap the time of a query, the newest first."""
    check_dates(query.start_date, query.end_date)
    wanted = wanted_values(query.dimensions, (ACCOUNT,)).get(ACCOUNT)
    first, after = query.start_date.date(), first_day(query.end_date)
    found = [
        each
        for each in reversed(reader.all(Commitment))
        if each.entity.start_date < after and each.entity.end_date > first
    ]
    if wanted is None:
        return found
    names = by_id(reader, {each.entity.account_id for each in found})
    codes = {id_: name.code for id_, name in names.items()}
    return [each for each in found if passes(codes.get(each.entity.account_id), wanted)]


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


def commitment_lines(organization: Organization, query: QueryCommitmentsRequest) -> Document:
    """The lines of bills that are about commitments: `{values, hasMoreData}`.

    A fee, what is drawn, and what usage beyond it costs; the last may be about a balance instead.

    Raises:
        Invalid: There is another dimension than the account, or a date is wrong.
    """
    check_dates(query.start_date, query.end_date)
    wanted_values(query.dimensions, (ACCOUNT,))
    request = QueryBillDataRequest(
        start_date=query.start_date,
        end_date=query.end_date,
        line_item_types=_OF_COMMITMENTS,
        dimensions=query.dimensions,
        limit=query.limit,
    )
    return explore_lines(organization, request, lambda line: "balanceId" not in line)


def obligations(organization: Organization, query: QueryCommitmentsRequest) -> list[Document]:
    """What is left of commitments after each month: `[{dateMonth, obligations}]`, by currency.

    A month has the commitments that are active in it. Left is what no bill drew that is dated until
    the first day behind the month, and nothing once the commitment has ended.

    Raises:
        Invalid: There is another dimension than the account, or a date is wrong.
    """
    with organization.reading() as reader:
        records = _overlapping(reader, query)
        draws = dated_draws(reader, [each.id for each in records])
    known = [_Obligation(each.entity, draws.get(each.id, ())) for each in records]
    months = Month.between(query.start_date.date(), first_day(query.end_date))
    rows = ((month, [each for each in known if each.holds(month)]) for month in months)
    return [
        {"dateMonth": str(month), "obligations": _sums(active, month.after)}
        for month, active in islice(((month, found) for month, found in rows if found), query.limit)
    ]


class _Obligation:
    """What was agreed on, and what bills drew until when."""

    def __init__(self, commitment: Commitment, draws: Sequence[DatedDraw]) -> None:
        ordered = sorted(draws)
        self.commitment = commitment
        self._days = [each.bill_date for each in ordered]
        with exact():
            self._sums = list(accumulate((each.amount for each in ordered), initial=ZERO))

    def holds(self, month: Month) -> bool:
        """Whether the commitment is active in a month."""
        return self.commitment.start_date < month.after and self.commitment.end_date > month.first

    def left_on(self, day: date) -> Decimal:
        """What is left when a day begins: nothing once the commitment has ended."""
        if day >= self.commitment.end_date:
            return ZERO
        with exact():
            return self.commitment.amount - self._sums[bisect_right(self._days, day)]


def _sums(active: Sequence[_Obligation], day: date) -> dict[str, Decimal]:
    sums: dict[str, Decimal] = defaultdict(lambda: ZERO)
    with exact():
        for each in active:
            sums[each.commitment.currency] += each.left_on(day)
    return dict(sorted(sums.items()))
