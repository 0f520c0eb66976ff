"""Answers about late usage."""

from meterlake.model.bills.late_usage import LateSourceKind, LateUsageStatus
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Day, Id, Instant, Integer, Number, Text


class LateSourceResponse(Value):
    """What brought late usage, or took it away."""

    kind: LateSourceKind
    id: Text
    name: Text
    measurements: Integer | None = None
    first_received: Instant
    last_received: Instant


class LateLineResponse(Value):
    """By how much a line of a bill differs, and the memo that carries that."""

    line_item_id: Id | None = None
    description: Text
    amount: Number
    memo_bill_id: Id | None = None
    memo_line_item_id: Id | None = None
    memo_amount: Number | None = None
    memo_currency: Text | None = None


class LateUsageResponse(Value):
    """The late usage of a bill, and what was done about it."""

    id: Id
    status: LateUsageStatus
    account_id: Id
    account_code: Text
    period: Text
    bill_id: Id
    bill_date: Day
    bill_version: Integer
    currency: Text
    difference: Number | None = None
    measurements: Integer | None = None
    new_bill_version: Integer | None = None
    reason: Text | None = None
    dt_found: Instant
    dt_decided: Instant | None = None
    sources: tuple[LateSourceResponse, ...]
    line_items: tuple[LateLineResponse, ...]
