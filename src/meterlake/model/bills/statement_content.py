"""What a statement says, before it is written: a bill, its lines, and the usage behind them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from meterlake.model.catalog.catalog import Reduce
from meterlake.model.configuration.statements import AggregationFrequency, StatementDefinition
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Period

# Without a definition: the usage of each day, with prices, and nothing of days without usage.
DEFAULT_DEFINITION: Final = StatementDefinition(
    aggregation_frequency=AggregationFrequency.DAY,
    include_price_per_unit=True,
    generate_slim_statements=True,
)


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
