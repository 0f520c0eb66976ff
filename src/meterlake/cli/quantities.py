"""The quantities of a run as commands print them: summed up, or each of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, Self

from meterlake.cli.shell.output import Output
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter, Reduce
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.usage.quantity import Pooled, quantity_unit
from meterlake.model.values.entity import Configuration
from meterlake.model.values.money import ZERO, exact
from meterlake.model.values.plurals import counted
from meterlake.pipeline.usage.aggregate import AggregateResult
from meterlake.stages.usage.rows import UsageRow
from meterlake.stores.state import State
from meterlake.stores.state.core import account_names

# What does not add up over accounts, such as a maximum or a ratio, has no sum.
_ADDITIVE: Final = {Reduce.SUM, Reduce.COUNT}
_COLUMNS: Final = ("!aggregation", "accounts", "measurements", "units=units, all accounts", "unit")


@dataclass(frozen=True, slots=True)
class QuantityNames:
    """What people call the aggregations and the accounts of quantities.

    A run has few aggregations and perhaps very many accounts, so the accounts are read only where
    each quantity is printed.
    """

    state: State
    org_id: str
    configuration: Configuration

    @classmethod
    def read(cls, state: State, org_id: str) -> Self:
        """The aggregations and meters of an organization."""
        kinds = (Aggregation, CompoundAggregation, Meter)
        with state.reading(org_id) as reader:
            records = [record for kind in kinds for record in reader.all(kind)]
        return cls(state, org_id, Configuration(records))

    def entity(self, aggregation_id: str, *, compound: bool) -> Aggregation | CompoundAggregation:
        """An aggregation, simple or compound."""
        if compound:
            return self.configuration.get(CompoundAggregation, aggregation_id).entity
        return self.configuration.get(Aggregation, aggregation_id).entity

    def of(self, aggregation_id: str, *, compound: bool) -> str:
        """The code of an aggregation, or its name if it has none."""
        entity = self.entity(aggregation_id, compound=compound)
        return entity.code or entity.name

    def unit(self, row: UsageRow) -> str | None:
        """What a quantity is a number of."""
        entity = self.entity(row.quantity.aggregation_id, compound=row.compound)
        if row.compound:
            return quantity_unit(entity)
        return quantity_unit(entity, self.configuration.get(Meter, row.quantity.meter_id).entity)

    def account_codes(self) -> dict[str, str]:
        """The codes of all accounts by their ids."""
        with self.state.reading(self.org_id) as reader:
            return dict(account_names.codes(reader))

    @property
    def additive(self) -> set[str]:
        """The aggregations whose quantities add up over accounts."""
        entities = [record.entity for record in self.configuration.all(Aggregation)]
        return {each.code or each.name for each in entities if each.aggregation in _ADDITIVE}


def show_quantities(result: AggregateResult, names: QuantityNames, output: Output) -> None:
    """Print the quantities of a run: all of them as JSON, or sums per aggregation as a table."""
    if output.json:
        for line in _lines(result, names):
            output.line(line)
        return
    output.rows(_sum_up(result.rows, names), _COLUMNS, result.run.name)
    done = "kept" if result.appended else "unchanged"
    output.note(
        f"{counted(len(result.rows), 'quantity', 'quantities')} {done}, from lake snapshot {result.snapshot},"
        f" {result.period}"
    )


@dataclass(slots=True)
class _Total:
    """The sums of an aggregation over its accounts."""

    aggregation: str
    unit: str
    accounts: set[str] = field(default_factory=set)
    measurements: int = 0
    units: Decimal = ZERO

    def add(self, row: UsageRow) -> None:
        """Add a quantity; what a child used is in its parent's quantity already."""
        if row.pooled is not Pooled.CHILD:
            self.accounts.add(row.quantity.account_id)
            self.measurements += row.quantity.measurements
            self.units += row.quantity.units


def _sum_up(rows: Iterable[UsageRow], names: QuantityNames) -> list[dict[str, Any]]:
    by_id: dict[tuple[str, bool], _Total] = {}
    by_name: dict[str, _Total] = {}
    with exact():
        for row in rows:
            total = by_id.get(key := (row.quantity.aggregation_id, row.compound))
            if total is None:
                name = names.of(row.quantity.aggregation_id, compound=row.compound)
                total = by_name.setdefault(name, _Total(name, row.quantity.unit))
                by_id[key] = total
            total.add(row)
    additive = names.additive
    return [
        {
            "aggregation": name,
            "accounts": len(total.accounts),
            "measurements": total.measurements,
            "units": total.units if name in additive else None,
            "unit": total.unit,
        }
        for name, total in sorted(by_name.items())
    ]


def _lines(result: AggregateResult, names: QuantityNames) -> Iterator[dict[str, Any]]:
    """Each quantity as JSON, by account, aggregation, start and segment."""
    codes = names.account_codes()

    def key(row: UsageRow) -> tuple[str, str, str, str]:
        each = row.quantity
        name = names.of(each.aggregation_id, compound=row.compound)
        segment = str(sorted(each.segment or ()))
        return codes[each.account_id], name, str(each.period.start), segment

    for row in sorted(result.rows, key=key):
        yield _line(row, result, codes[row.quantity.account_id], names)


def _line(
    row: UsageRow, result: AggregateResult, account: str, names: QuantityNames
) -> dict[str, Any]:
    each, run = row.quantity, result.run
    line = {
        "account": account,
        "aggregation": names.of(each.aggregation_id, compound=row.compound),
        "quantity": each.value,
        "units": each.units,
        "unit": each.unit,
        "measurements": each.measurements,
        "frequency": run.frequency.value,
        "period": run.name,
        "periodStart": each.period.start,
        "periodEnd": each.period.end,
        "snapshot": result.snapshot,
    }
    if run.frequency is BillingFrequency.MONTHLY:
        line["month"] = run.name
    unit = names.unit(row)
    if unit is not None:
        line["quantityUnit"] = unit
    if each.segment is not None:
        line["segment"] = dict(each.segment)
    if row.pooled is not None:
        line["pooled"] = row.pooled.value
    return line
