"""By how much late usage changes the lines of a bill, and the memos that carry that.

Compared is what a bill charges, before commitments and balances pay for it: what they have paid of a
bill stays. A memo is not drawn down.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.members import LINE_MEMBERS, ShownIn, members_in
from meterlake.model.bills.memos import (
    CarriedCredit,
    CarriedDebit,
    MemoLineItem,
)
from meterlake.model.rules.memos import memo_members
from meterlake.model.values.money import ZERO, exact

# What pays for a bill, and what corrects another one.
_LEFT_OUT: Final = {
    LineItemType.COMMITMENT_CONSUMED,
    LineItemType.BALANCE_CONSUMED,
    LineItemType.CREDIT_MEMO,
    LineItemType.DEBIT_MEMO,
    LineItemType.MANUAL_ADJUSTMENT,
}
_TYPE: Final = "lineItemType"
_AMOUNT: Final = "convertedSubtotal"


class ChargedLine(NamedTuple):
    """A line that charges something: its key on the bill, and what the bill shows of it."""

    key: str
    body: Mapping[str, Any]

    @property
    def amount(self) -> Decimal:
        """What it is, in the currency of the bill."""
        return Decimal(self.body[_AMOUNT])


class LineDifference(NamedTuple):
    """By how much a line differs.

    Attributes:
        is_billed: Whether the bill has the line.
    """

    line: ChargedLine
    amount: Decimal
    is_billed: bool


class MemoToCarry(NamedTuple):
    """A memo before it has an id: what is stored of it, and what its bill shows."""

    entity: MemoLineItem
    line: dict[str, Any]


def charged_lines(lines: Iterable[tuple[str, Mapping[str, Any]]]) -> dict[str, ChargedLine]:
    """The lines of a bill that charge something, by their keys."""
    return {
        key: ChargedLine(key, body)
        for key, body in lines
        if LineItemType(body[_TYPE]) not in _LEFT_OUT
    }


def charged_total(lines: Iterable[ChargedLine]) -> Decimal:
    """What lines charge together."""
    with exact():
        return sum((each.amount for each in lines), ZERO)


def correct_lines(
    billed: Mapping[str, ChargedLine],
    then: Mapping[str, ChargedLine],
    now: Mapping[str, ChargedLine],
) -> dict[str, ChargedLine]:
    """The lines of a bill that other code made, with what late usage changes of them.

    Args:
        billed: As they are stored.
        then: As this code makes them without the late usage.
        now: As this code makes them with it.
    """
    found = {}
    for key in dict.fromkeys((*billed, *now, *then)):
        amounts = [each[key].amount if key in each else ZERO for each in (billed, then, now)]
        with exact():
            amount = amounts[0] + amounts[2] - amounts[1]
        line = billed.get(key) or now.get(key) or then[key]
        found[key] = ChargedLine(key, {**line.body, _AMOUNT: amount})
    return found


def find_differences(
    billed: Mapping[str, ChargedLine],
    due: Mapping[str, ChargedLine],
    carried: Mapping[str, Decimal],
) -> list[LineDifference]:
    """What is still to be charged or given back, line by line, in the order of the bill.

    Args:
        billed: The lines that the bill has.
        due: Those that it would have with all usage that is known.
        carried: What memos have carried of each line.
    """
    found = []
    for key in dict.fromkeys((*billed, *due, *carried)):
        line = billed.get(key) or due.get(key)
        if line is None:
            # Neither the bill nor the calculation has it any more.
            line = ChargedLine(key, {})
        with exact():
            amount = _amount(due, key) - _amount(billed, key) - carried.get(key, ZERO)
        if amount:
            found.append(LineDifference(line, amount, key in billed))
    return found


def _amount(lines: Mapping[str, ChargedLine], key: str) -> Decimal:
    return lines[key].amount if key in lines else ZERO


def describe_line(line: ChargedLine) -> str:
    """What a line is about, in words."""
    return str(line.body.get("description") or line.key.partition("/")[0].replace("_", " ").lower())


def memo_to_carry(
    difference: LineDifference,
    amount: Decimal,
    currency: str,
    bill_id: str,
    line_id: str | None,
    service_period: tuple[datetime, datetime],
) -> MemoToCarry:
    """The memo of a difference.

    Args:
        difference: Of a line.
        amount: The same in the currency of the bill on which the memo stands; not 0.
        currency: That currency.
        bill_id: The bill of the line.
        line_id: The line; None if the bill has no such line.
        service_period: The time of the bill, for a line of which nothing is known.
    """
    body = difference.line.body
    kind = CarriedCredit if amount < 0 else CarriedDebit
    start = _instant(body.get("servicePeriodStartDate"), service_period[0])
    end = _instant(body.get("servicePeriodEndDate"), service_period[1])
    entity = kind.model_construct(
        product_id=body.get("productId"),
        accounting_product_id=body.get("accountingProductId"),
        description=f"Late usage: {describe_line(difference.line)}",
        amount=abs(amount),
        referenced_bill_id=bill_id,
        referenced_line_item_id=line_id,
        service_period_start_date=start,
        service_period_end_date=end,
    )
    # What a memo shows of the line that it is about.
    names = (each.name for each in members_in(LINE_MEMBERS, ShownIn.MEMO))
    shown = {name: body[name] for name in names if name in body}
    return MemoToCarry(entity, {**shown, **memo_members(entity, amount, currency)})


def _instant(stored: Any, other: datetime) -> datetime:
    """An instant of a line, as it is stored or as it was made."""
    if isinstance(stored, datetime):
        return stored
    return datetime.fromisoformat(stored) if stored else other
