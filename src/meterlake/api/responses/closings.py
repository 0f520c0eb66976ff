"""Bodies and answers about closings of months, and about usage that came after them."""

from typing import Annotated, Any

from pydantic import Field

from meterlake.api.responses.envelope import ToldBody
from meterlake.model.bills.late_usage import LateSourceKind, LateUsageStatus
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.unbilled import ReviewKind
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Day, Id, Instant, Integer, Number, Text
from meterlake.pipeline.closing.close_month import ClosingStep
from meterlake.pipeline.closing.closing_requests import ClosingAction, ClosingStatus

_Reason = Annotated[Text, Field(min_length=1, max_length=1_000, pattern=r"\S")]


class ClosingReviewRequest(ToldBody):
    """What a month is made ready with."""

    early: bool = False
    files: tuple[Text, ...] = ()
    backfills: tuple[Text, ...] = ()


class ClosingLeaveOpenRequest(ToldBody):
    """What an approval leaves out, and why.

    `bill` is the code of an account, which means its bills of the month; or one bill: its id, its
    invoice number, or account and month as `acme/2026-10`.
    """

    bill: Text
    reason: _Reason


class ClosingApproveRequest(ToldBody):
    """What is approved: `review` of the closing as it was looked at, without what stays open."""

    review: Text
    early: bool = False
    leave_open: tuple[ClosingLeaveOpenRequest, ...] = ()


class ClosingReasonRequest(ToldBody):
    """Why bills are rejected, or a month is opened again."""

    reason: _Reason


class ClosingPendingResponse(Value):
    """What the worker does now."""

    month: Text
    pending: ClosingAction


class ClosingRejectedResponse(Value):
    """A month whose bills are rejected."""

    month: Text
    reason: Text


class ClosingReopenedResponse(Value):
    """What opening a month again took back, and what it could not."""

    month: Text
    reason: Text
    undone: dict[str, Integer]
    kept: dict[str, Any]


class ClosingStepResponse(Value):
    """A step that is done, what it came to, and who did it when."""

    step: ClosingStep
    outcome: dict[str, Any]
    author: Text | None = None
    at: Instant | None = None


class ClosingBillResponse(Value):
    """A bill whose last day is in the month."""

    id: Id
    account: Text
    bill_date: Day
    total: Number
    currency: Text
    status: BillStatus


class ClosingTotalResponse(Value):
    """What all bills of the month in one currency come to, and how many there are by status.

    `before` is what those of the month before come to. `outdated` counts the bills that would draw
    something else from balances or commitments if they were calculated again, by status.
    `unnumbered` counts those without an invoice number that are not locked.
    """

    currency: Text
    bills: Integer
    total: Number
    before: Number
    statuses: dict[str, Integer]
    outdated: dict[str, Integer]
    unnumbered: Integer


class ClosingLeftResponse(Value):
    """A bill that is approved or locked already, and would come to something else."""

    id: Id
    account: Text
    total: Text
    would_be: Text
    differs: Text | None = None


class ClosingOpenResponse(Value):
    """One thing that somebody should look at before the bills are approved."""

    kind: ReviewKind
    subject: Text
    detail: Text
    command: Text
    bill_id: Id | None = None
    amount: Number | None = None
    currency: Text | None = None
    count: Integer | None = None


class ClosingReopeningResponse(Value):
    """Who opened the month again, when and why, and the steps of the round that it ended."""

    reason: Text
    author: Text
    at: Instant
    steps: tuple[ClosingStepResponse, ...]


class ClosingResponse(Value):
    """The closing of a month: where it stands, its bills, and what is open about them."""

    month: Text
    status: ClosingStatus
    pending: ClosingAction | None = None
    failed: Text | None = None
    review: Text | None = None
    rejected: Text | None = None
    steps: tuple[ClosingStepResponse, ...]
    remaining: tuple[ClosingStep, ...]
    bill_count: Integer
    totals: tuple[ClosingTotalResponse, ...]
    bills: tuple[ClosingBillResponse, ...]
    open: tuple[ClosingOpenResponse, ...]
    open_at: Instant | None = None
    open_is_current: bool
    left: tuple[ClosingLeftResponse, ...]
    reopenings: tuple[ClosingReopeningResponse, ...]


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
