"""What both doors show of measurements: one table per meter, named by its code."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from meterlake.model.catalog.catalog import DataField, DerivedField, Meter
from meterlake.model.measurements.measurement import (
    FIXED_COLUMNS,
    NUMBER_TYPE,
    TEXT_TYPE,
    Field,
    meter_table,
)
from meterlake.model.values.entity import Record
from meterlake.model.values.sql import identifier
from meterlake.stages.publish.tables import MEASUREMENT_DOCS
from meterlake.stages.publish.views import MeterTable, table_name

_BEFORE = ("uid", "account", "ts", "ets")
_BEHIND = ("received_at", "source", "row", "part", "account_id")


class PublishedMeter(NamedTuple):
    """One meter and the name of its table."""

    name: str
    meter: Record[Meter]

    @property
    def doc(self) -> str:
        """What the table holds."""
        return f"Measurements of the meter {self.meter.entity.name!r}. One row each."

    @property
    def docs(self) -> dict[str, str]:
        """The meaning of its columns, with their units."""
        fields = {column_name(field): _doc(field) for field in self.meter.entity.all_fields}
        return MEASUREMENT_DOCS | fields

    @property
    def usage(self) -> MeterTable:
        """What adding it up needs to know."""
        numbers = (
            (column_name(field), field.unit)
            for field in self.meter.entity.all_fields
            if field.category.numeric
        )
        return MeterTable(self.name, self.meter.entity.code, tuple(numbers))

    @property
    def columns(self) -> dict[str, str]:
        """Its columns in their order, and their types."""
        types = {**FIXED_COLUMNS, "account": TEXT_TYPE}
        fields = {
            column_name(field): NUMBER_TYPE if field.category.numeric else TEXT_TYPE
            for field in self.meter.entity.all_fields
        }
        before = {name: types[name] for name in _BEFORE}
        return before | fields | {name: types[name] for name in _BEHIND}

    @property
    def stored(self) -> str:
        """The name of its table in the lake."""
        return meter_table(self.meter.id)

    def query(self, present: Collection[str], condition: str = "true") -> str:
        """The rows, read where the lake is attached and `account` is a table.

        Args:
            present: The columns that the meter's table in the lake has, none if there is no table;
                what the lake does not have yet is NULL.
            condition: Which rows of the lake, as SQL over `m`.
        """
        sources = {
            column_name(each): _stored_field(each).column for each in self.meter.entity.all_fields
        }
        select = ", ".join(
            f"{_value(name, sources.get(name, name), kind, present)} AS {identifier(name)}"
            for name, kind in self.columns.items()
        )
        table = f"lake.{identifier(self.stored)}"
        rows = table if present else "(SELECT NULL::VARCHAR AS account_id WHERE false)"
        return (
            f"SELECT {select} FROM {rows} m LEFT JOIN account a ON a.id = m.account_id"
            f" WHERE {condition}"
        )

    def shape(self, present: Collection[str]) -> str:
        """What its columns are read from; differs when they have to be read anew."""
        return self.query(sorted(present))

    def union(self, tables: Sequence[str]) -> str:
        """The rows of tables that have its columns; nothing, but typed, if there are none."""
        if not tables:
            nulls = ", ".join(
                f"NULL::{kind} AS {identifier(n)}" for n, kind in self.columns.items()
            )
            return f"SELECT {nulls} WHERE false"
        listed = ", ".join(map(identifier, self.columns))
        return " UNION ALL ".join(f"SELECT {listed} FROM {table}" for table in tables)


def measured_meters(meters: Iterable[Record[Meter]]) -> Iterator[PublishedMeter]:
    """The meters in the order of their codes, each with the name of its table."""
    taken: set[str] = set()
    # A new meter takes no name from another one.
    oldest_first = sorted(meters, key=lambda record: (record.created, record.entity.code))
    named = [PublishedMeter(table_name(each.entity.code, taken), each) for each in oldest_first]
    return iter(sorted(named, key=lambda each: each.meter.entity.code))


def column_name(field: DataField | DerivedField) -> str:
    """A field's code alone, unless another column has that name."""
    taken = field.code.casefold() in MEASUREMENT_DOCS
    return _stored_field(field).column if taken else field.code


def _value(name: str, column: str, kind: str, present: Collection[str]) -> str:
    if name == "account":
        return "coalesce(a.code, m.account_id)"
    return f"m.{identifier(column)}" if column in present else f"NULL::{kind}"


def _stored_field(field: DataField | DerivedField) -> Field:
    return Field(field.category, field.code)


def _doc(field: DataField | DerivedField) -> str:
    unit = f", in {field.unit}" if field.unit else ""
    how = " Calculated at ingest." if isinstance(field, DerivedField) else ""
    return f"{field.name} ({field.category.value.lower()}{unit}).{how}"
