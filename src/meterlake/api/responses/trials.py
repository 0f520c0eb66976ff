"""The body and the answer of an aggregation that is tried."""

from typing import Annotated

from pydantic import Field

from meterlake.model.catalog.catalog import Aggregation
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Code, Flag, Id, Integer, Number, Text


class AggregationTrialRequest(Value):
    """An aggregation as it would be saved, the month, and the codes of accounts; all if none."""

    aggregation: Aggregation
    month: Text
    accounts: Annotated[tuple[Code, ...], Field(max_length=1000)] = ()


class TriedQuantity(Value):
    """What the aggregation gives for an account, or why it gives nothing."""

    account_id: Id
    account: Text
    segment: dict[str, Text] | None = None
    unmatched: Flag | None = None
    measurements: Integer | None = None
    value: Number | None = None
    units: Number | None = None
    error: Text | None = None


class AggregationTrialResponse(Value):
    """What the aggregation gives, account by account; the first thousand rows."""

    data: tuple[TriedQuantity, ...]
    more: Flag
