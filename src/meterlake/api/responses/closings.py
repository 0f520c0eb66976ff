"""Bodies and answers about closings of months."""

from typing import Annotated, Any

from pydantic import Field

from meterlake.api.responses.told_body import ToldBody
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.review import ReviewKind
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Day, Id, Instant, Integer, Number, Text
from meterlake.pipeline.home.closing import ClosingStep
from meterlake.pipeline.home.closing_requests import ClosingAction, ClosingStatus

_Reason = Annotated[Text, Field(min_length=1, max_length=1_000, pattern=r"\S")]


class ClosingReviewRequest(ToldBody):
    """What a month is made ready with."""

    early: bool = False
    files: tuple[Text, ...] = ()
    backfills: tuple[Text, ...] = ()


class ClosingApproveRequest(ToldBody):
    """What is approved: `review` of the closing as it was looked at."""

    review: Text
    early: bool = False


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
    """A step that is done, and what it came to."""

    step: ClosingStep
    outcome: dict[str, Any]


class ClosingBillResponse(Value):
    """A bill whose last day is in the month."""

    id: Id
    account: Text
    bill_date: Day
    total: Number
    currency: Text
    status: BillStatus


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


class ClosingReopeningResponse(Value):
    """Who opened the month again, when and why."""

    reason: Text
    author: Text
    at: Instant


class ClosingResponse(Value):
    """The closing of a month: where it stands, its bills, and what is open about them."""

    month: Text
    status: ClosingStatus
    pending: ClosingAction | None = None
    failed: Text | None = None
    review: Text | None = None
    rejected: Text | None = None
    steps: tuple[ClosingStepResponse, ...]
    bill_count: Integer
    bills: tuple[ClosingBillResponse, ...]
    open: tuple[ClosingOpenResponse, ...]
    left: tuple[ClosingLeftResponse, ...]
    reopenings: tuple[ClosingReopeningResponse, ...]
