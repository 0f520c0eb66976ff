"""Bodies and answers about measurements; the served document is made from them.

What is submitted is not read into these classes but straight into structs, see `api.submit`.
"""

from typing import Annotated

from pydantic import Field

from meterlake.model.entity import Value
from meterlake.model.fields import Code, Instant, Number, Text
from meterlake.model.measurement import BATCH_MAX, UID_MAX

Texts = dict[Text, Text]
Numbers = dict[Text, Number]


class MeasurementRequest(Value):
    """One measurement; account and meter by their codes."""

    uid: Annotated[Text, Field(min_length=1, max_length=UID_MAX)] | None = None
    meter: Code
    account: Code
    ts: Instant
    ets: Instant | None = None
    who: Texts | None = None
    where: Texts | None = None
    what: Texts | None = None
    other: Texts | None = None
    metadata: Texts | None = None
    measure: Numbers | None = None
    cost: Numbers | None = None
    income: Numbers | None = None


class SubmitMeasurementsRequest(Value):
    """A batch of measurements."""

    measurements: Annotated[
        tuple[MeasurementRequest, ...], Field(min_length=1, max_length=BATCH_MAX)
    ]


class SubmitMeasurementsResponse(Value):
    """What became of the batch."""

    result: Text | None = None
