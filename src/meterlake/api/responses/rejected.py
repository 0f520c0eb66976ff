"""Bodies and answers about rejected rows and receipts."""

from typing import Annotated, Any

from pydantic import Field

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Instant, Integer, Text


class RejectedRowEdit(Value):
    """A rejected row as it is to be given in again; without a measurement, as it is."""

    id: Text
    measurement: dict[str, Any] | None = None


class RejectedRowsFilter(Value):
    """Which rows are meant: those that all members mean."""

    source: Text | None = None
    delivery: Text | None = None
    reason: Text | None = None
    meter: Text | None = None
    uid: Text | None = None
    since: Instant | None = None
    until: Instant | None = None


class RejectedRowsRequeueRequest(RejectedRowsFilter):
    """Which rows are to be given in again: those that all filters mean, or edited ones."""

    rows: Annotated[tuple[RejectedRowEdit, ...], Field(min_length=1)] | None = None


class RejectedRowsRequeueResponse(Value):
    """What became of the rows: received = accepted + repeats + rejected again."""

    received: Integer
    accepted: Integer
    repeats: Integer
    rejected: Integer
    incomplete: Integer
    settled: Integer
    unreadable: tuple[Text, ...]
    sources: tuple[Text, ...]


class RejectedRowsReopenRequest(RejectedRowsFilter):
    """Which dismissed rows wait again: those that all filters mean, or some by their ids."""

    rows: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None


class RejectedRowsDismissRequest(RejectedRowsReopenRequest):
    """Which open rows nobody is to wait for, and why: those that all filters mean, or some by id."""

    because: Text


class RejectedRowsDecisionResponse(Value):
    """How many rows were dismissed or reopened, and for how many there was nothing to do."""

    rows: Integer
    settled: Integer


class RejectedRowDecision(Value):
    """That somebody dismissed a row, or reopened it."""

    at: Instant
    action: Text
    author: Text
    because: Text | None = None


class RejectedRowWithdrawal(Value):
    """A backfill that withdrew the source of a row."""

    at: Instant
    backfill: Text
    reason: Text | None = None
    measurements: Integer


class RejectedRowTry(Value):
    """One time that a row was tried."""

    at: Instant | None = None
    name: Text | None = None
    identity: Text | None = None
    attempt: Integer | None = None
    row: Integer | None = None
    requeued: bool | None = None
    edited: bool | None = None
    author: Text | None = None
    reason: Text | None = None
    detail: Text | None = None


class RejectedRowResponse(Value):
    """A rejected row."""

    id: Text
    status: Text
    name: Text | None = None
    row: Integer | None = None
    part: Integer | None = None
    reason: Text | None = None
    field: Text | None = None
    detail: Text | None = None
    meter: Text | None = None
    uid: Text | None = None
    tries: Integer | None = None
    received_at: Instant | None = None
    delivery: Text | None = None
    identity: Text | None = None
    attempt: Integer | None = None
    format: Text | None = None
    original: Text | None = None
    measurement: dict[str, Any] | None = None
    because: Text | None = None
    dismissed_by: Text | None = None
    dismissed_at: Instant | None = None
    history: tuple[RejectedRowTry, ...] | None = None
    decisions: tuple[RejectedRowDecision, ...] | None = None
    withdrawn_by: tuple[RejectedRowWithdrawal, ...] | None = None


class MeasurementReceiptResponse(Value):
    """Where a measurement was first seen, and what came under its uid later."""

    uid: Text
    status: Text
    name: Text | None = None
    identity: Text | None = None
    attempt: Integer | None = None
    row: Integer | None = None
    part: Integer | None = None
    received_at: Instant | None = None
    delivery: Text | None = None
    meter: Text | None = None
    account: Text | None = None
    ts: Instant | None = None
    ets: Instant | None = None
    requeued_from: Text | None = None
    redelivered: tuple[dict[str, Any], ...] | None = None
    contradicted: tuple[dict[str, Any], ...] = ()
    rejected: tuple[dict[str, Any], ...] = ()
    retracted: tuple[dict[str, Any], ...] = ()
