"""The verbs of the first Data Explorer about commitments."""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import accumulate, islice
from typing import Any, Final

from meterlake.model.bills.bill import LineItemType
from meterlake.model.customers.commitments import Commitment
from meterlake.model.rules.queries import check_dates
from meterlake.model.usage.explorer import (
    ACCOUNT,
    QueryBillDataRequest,
    QueryCommitmentsRequest,
)
from meterlake.model.values.entity import Record
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.period import Month, format_instant
from meterlake.pipeline.explorer.bills import (
    Document,
    explore_lines,
    first_day,
    limit_rows,
    list_accounts,
    passes,
    wanted_values,
)
from meterlake.stores import Stores
from meterlake.stores.state.core.account_names import AccountName, by_id
from meterlake.stores.state.core.postings import DatedDraw, amounts_spent, dated_draws
from meterlake.stores.state.core.reader import Reader

_OF_COMMITMENTS: Final = (
    LineItemType.COMMITMENT_CONSUMED,
    LineItemType.COMMITMENT_FEE,
    LineItemType.OVERAGE_SURCHARGE,
    LineItemType.OVERAGE_USAGE,
)


def committed_accounts(stores: Stores, org_id: str, limit: int) -> Document:
    """The accounts that have commitments: `{accountCodes, accounts}`."""
    with stores.state.reading(org_id) as reader:
        return list_accounts(
            reader, {each.entity.account_id for each in reader.all(Commitment)}, limit
        )


def commitments(stores: Stores, org_id: str, query: QueryCommitmentsRequest) -> Document:
    """The commitments that overlap a time, the newest first: `{values, hasMoreData}`.

    Raises:
        Invalid: There is another dimension than the account, or a date is wrong.
    """
    with stores.state.reading(org_id) as reader:
        return limit_rows(_rows(reader, query), query.limit)


def remaining_commitments(stores: Stores, org_id: str, query: QueryCommitmentsRequest) -> Document:
    """Those of `commitments` of which something is left.

    Raises:
        Invalid: There is another dimension than the account, or a date is wrong.
    """
    with stores.state.reading(org_id) as reader:
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


def commitment_lines(stores: Stores, org_id: str, query: QueryCommitmentsRequest) -> Document:
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
    return explore_lines(stores, org_id, request, _is_of_no_balance)


def _is_of_no_balance(line: Mapping[str, Any]) -> bool:
    return "balanceId" not in line


def obligations(stores: Stores, org_id: str, query: QueryCommitmentsRequest) -> list[Document]:
    """What is left of commitments after each month: `[{dateMonth, obligations}]`, by currency.

    A month has the commitments that are active in it. Left is what no bill drew that is dated until
    the first day behind the month, and nothing once the commitment has ended.

    Raises:
        Invalid: There is another dimension than the account, or a date is wrong.
    """
    with stores.state.reading(org_id) as reader:
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
