"""Statements of bills: what is asked for, in which formats, and what one says before it is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, NamedTuple, Self

from pydantic import Field

from meterlake.model.catalog.catalog import Reduce
from meterlake.model.configuration.statements import AggregationFrequency, StatementDefinition
from meterlake.model.values.entity import Record, Value
from meterlake.model.values.fields import Flag, Id
from meterlake.model.values.period import Period
from meterlake.model.work.jobs import JobKind

# Without a definition: the usage of each day, with prices, and nothing of days without usage.
DEFAULT_DEFINITION: Final = StatementDefinition(
    aggregation_frequency=AggregationFrequency.DAY,
    include_price_per_unit=True,
    generate_slim_statements=True,
)
KIND: Final = JobKind.STATEMENT
METERS_MAX: Final = 10
BILLS_MAX: Final = 10

_MeterIds = Annotated[tuple[Id, ...], Field(max_length=METERS_MAX)]


class StatementRow(NamedTuple):
    """The usage of one stretch of time and one group.

    Attributes:
        dimensions: The values that it is about, by name; None where the measurements have none.
        quantity: What the line's own aggregation makes of the row; None if it has no such value.
        measures: What is made of other fields, by their codes and the names of aggregations.
    """

    period: Period
    dimensions: Mapping[str, str | None]
    measurements: int
    quantity: Decimal | None
    measures: Mapping[str, Mapping[str, Decimal | None]]


@dataclass(frozen=True, slots=True)
class AggregatedUsage:
    """The usage that one aggregation reads for a line.

    Attributes:
        quantity: Of all lines that charge for it; None of a part of a compound aggregation.
        filtered: Whether rows are left out whose dimensions have other values.
        rows: In the order of their times, then of their groups.
    """

    meter_id: str
    meter_code: str
    aggregation_name: str
    aggregation_code: str | None
    kind: Reduce
    field: str
    is_additive: bool
    quantity: Decimal | None
    filtered: bool
    rows: Sequence[StatementRow]


@dataclass(frozen=True, slots=True)
class StatementLine:
    """A line of the bill as the API shows it, and the usage behind it.

    Attributes:
        usage_of: The id of the line that has the usage, of one that charges for a part of it.
    """

    body: Mapping[str, Any]
    usage: Sequence[AggregatedUsage] = ()
    usage_of: str | None = None


@dataclass(frozen=True, slots=True)
class StatementContent:
    """All that a statement shows.

    Attributes:
        bill: The bill as the API shows it.
        account_name: The name of its account.
        definition: How it is made up; None of the default layout.
        meter_ids: The meters whose usage is shown; all if empty.
        omitted: The lines that the meters leave out.
    """

    bill: Mapping[str, Any]
    account_name: str | None
    definition: Record[StatementDefinition] | None
    meter_ids: Sequence[str]
    lines: Sequence[StatementLine]
    omitted: Sequence[Mapping[str, Any]] = ()

    @property
    def layout(self) -> StatementDefinition:
        """How it is made up."""
        return DEFAULT_DEFINITION if self.definition is None else self.definition.entity


class StatementFormat(StrEnum):
    """How a statement is written."""

    JSON = "json"
    CSV = "csv"


class StatementStatus(StrEnum):
    """Whether a file shows its bill as it is.

    A file is STALE if its bill has another content since the file was made. It is INVALIDATED if a
    later job made another file of the bill, or if the bill was deleted.
    """

    LATEST = "LATEST"
    STALE = "STALE"
    INVALIDATED = "INVALIDATED"


class StatementJobFilters(Value):
    """Which usage a statement has."""

    meter_ids: _MeterIds | None = None


class StatementJobRequest(Value):
    """The bill of which a statement is made."""

    bill_id: Id
    include_csv_format: Flag | None = None
    filters: StatementJobFilters | None = None


class StatementsBatchJobRequest(Value):
    """The bills of which statements are made, each by a job of its own."""

    bill_ids: Annotated[tuple[Id, ...], Field(min_length=1, max_length=BILLS_MAX)]
    include_csv_format: Flag | None = None
    filters: StatementJobFilters | None = None


@dataclass(frozen=True, slots=True)
class StatementOrder:
    """The parameters of a job: the bill, the formats, and the meters; all meters if none is named."""

    bill_id: str
    csv: bool = False
    meter_ids: tuple[str, ...] = ()

    @property
    def formats(self) -> tuple[StatementFormat, ...]:
        """What is written; JSON always is."""
        only_json = (StatementFormat.JSON,)
        return (*only_json, StatementFormat.CSV) if self.csv else only_json

    def to_wire(self) -> dict[str, Any]:
        """The order as the parameters of a job."""
        filters = {"filters": {"meterIds": list(self.meter_ids)}} if self.meter_ids else {}
        return {"billId": self.bill_id, "includeCsvFormat": self.csv, **filters}

    @classmethod
    def from_wire(cls, parameters: Mapping[str, Any]) -> Self:
        """The order of a job."""
        filters = parameters.get("filters", {})
        return cls(
            bill_id=parameters["billId"],
            csv=parameters["includeCsvFormat"],
            meter_ids=tuple(filters.get("meterIds", ())),
        )
