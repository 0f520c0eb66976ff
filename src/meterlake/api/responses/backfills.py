"""Bodies and answers about backfills."""

from typing import Annotated, Any

from pydantic import Field

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Instant, Integer, Text
from meterlake.model.work.backfill import Action, BackfillStatus, Mode
from meterlake.pipeline.backfill.background import BackfillAction

_Names = tuple[Text, ...]


class BackfillFile(Value):
    """A file that is sent along: its name, and its bytes in base64."""

    name: Annotated[Text, Field(min_length=1, max_length=200)]
    content: Text


class BackfillRequest(Value):
    """What is to be corrected. With an id and nothing else, a backfill is staged once more."""

    id: Text | None = None
    mode: Mode | None = None
    reason: Text | None = None
    month: Text | None = None
    since: Text | None = None
    until: Text | None = None
    meters: _Names = ()
    accounts: _Names = ()
    source: Text | None = None
    uids: _Names = ()
    files: tuple[BackfillFile, ...] = ()
    mapping: BackfillFile | None = None


class BackfillHistoryEntry(Value):
    """What was done with a backfill, or could not be done."""

    action: Action
    at: Instant
    author: Text
    detail: Text | None = None


class BackfillResponse(Value):
    """A backfill: what it is about, where it stands, and what it changes in numbers."""

    id: Text
    mode: Mode
    status: BackfillStatus
    pending: BackfillAction | None = None
    reason: Text | None = None
    author: Text
    dt_created: Instant
    since: Instant | None = None
    until: Instant | None = None
    meter_ids: _Names | None = None
    account_ids: _Names | None = None
    source: Text | None = None
    source_name: Text | None = None
    uids: _Names | None = None
    files: _Names | None = None
    counts: dict[str, Integer]
    history: tuple[BackfillHistoryEntry, ...]


class BackfillQuantity(Value):
    """A quantity on one side of a difference; numbers are texts, digit by digit."""

    quantity: Text | None = None
    units: Text | None = None
    unit: Text | None = None
    measurements: Integer | None = None


class BackfillQuantityChange(Value):
    """A quantity before and after; what is missing on one side is not there."""

    month: Text
    frequency: Text
    start: Instant
    end: Instant
    account: Text
    account_id: Text
    meter: Text | None = None
    aggregation: Text
    aggregation_id: Text
    quantity_unit: Text | None = None
    segment: dict[str, Any] | None = None
    pooled: Text | None = None
    before: BackfillQuantity | None = None
    after: BackfillQuantity | None = None


class BackfillMeasurementChange(Value):
    """A measurement before and after; what goes or comes has one side only, numbers are texts."""

    uid: Text
    meter: Text
    account: Text
    account_id: Text
    ts: Instant
    before: dict[str, Text] | None = None
    after: dict[str, Text] | None = None


class BackfillMeterCount(Value):
    """How many measurements of a meter change."""

    meter: Text
    measurements: Integer


class BackfillMeasurementsResponse(Value):
    """The first 1,000 measurements that a backfill changes, by time, and how many of each meter."""

    id: Text
    meters: tuple[BackfillMeterCount, ...]
    rows: tuple[BackfillMeasurementChange, ...]
    more: bool


class BackfillBillChange(Value):
    """A bill: what was billed, and what it would come to without and with the change."""

    month: Text
    account: Text
    bill_id: Text
    status: Text
    locked: bool
    currency: Text
    billed: Text
    before: Text | None = None
    after: Text | None = None
    difference: Text | None = None


class BackfillTotal(Value):
    """What the bills of a currency come to together, before and after; numbers are texts."""

    currency: Text
    bills: Integer
    before: Text
    after: Text
    difference: Text


class BackfillDifferenceResponse(Value):
    """What a backfill changes: the first 1,000 quantities and bills, and how many there are."""

    id: Text
    mode: Mode
    status: BackfillStatus
    counts: dict[str, Integer]
    months: _Names | None = None
    quantities: tuple[BackfillQuantityChange, ...]
    bills: tuple[BackfillBillChange, ...]
    totals: tuple[BackfillTotal, ...]
    files: tuple[dict[str, Any], ...] | None = None
    rejected: tuple[dict[str, Any], ...] | None = None
