"""The tables of the published file that hold measurements: one per meter, named by its code."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from meterlake.model.catalog import DataField, DerivedField, Meter
from meterlake.model.entity import Record
from meterlake.model.measurement import FIXED_COLUMNS, NUMBER_TYPE, TEXT_TYPE, Field, meter_table
from meterlake.stages.publish.tables import MEASUREMENT_DOCS
from meterlake.stages.publish.views import MeterTable, identifier, table_name

_BEFORE = ("uid", "account", "ts", "ets")
_BEHIND = ("received_at", "source", "row", "part", "account_id")


class Measured(NamedTuple):
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

    def query(self, present: set[str]) -> str:
        """The rows, read where the lake is attached and `account` is a table.

        Args:
            present: The columns that the meter's table in the lake has, none if there is no table;
                what the lake does not have yet is NULL.
        """
        types = dict(FIXED_COLUMNS)
        names = {name: name for name in (*_BEFORE, *_BEHIND) if name != "account"}
        for field in self.meter.entity.all_fields:
            column = _stored(field).column
            names[column_name(field)] = column
            types[column] = NUMBER_TYPE if field.category.numeric else TEXT_TYPE
        listed = {
            name: f"m.{identifier(column)}" if column in present else f"NULL::{types[column]}"
            for name, column in names.items()
        }
        listed["account"] = "coalesce(a.code, m.account_id)"
        order = [*_BEFORE, *(name for name in listed if name not in (*_BEFORE, *_BEHIND)), *_BEHIND]
        select = ", ".join(f"{listed[name]} AS {identifier(name)}" for name in order)
        table = f"lake.{identifier(meter_table(self.meter.id))}"
        rows = table if present else "(SELECT NULL::VARCHAR AS account_id WHERE false)"
        return f"SELECT {select} FROM {rows} m LEFT JOIN account a ON a.id = m.account_id"


def measured(meters: Iterable[Record[Meter]]) -> Iterator[Measured]:
    """The meters in the order of their codes, each with the name of its table."""
    taken: set[str] = set()
    for meter in sorted(meters, key=lambda record: record.entity.code):
        yield Measured(table_name(meter.entity.code, taken), meter)


def column_name(field: DataField | DerivedField) -> str:
    """A field's code alone, unless another column has that name."""
    taken = field.code.casefold() in MEASUREMENT_DOCS
    return _stored(field).column if taken else field.code


def _stored(field: DataField | DerivedField) -> Field:
    return Field(field.category, field.code)


def _doc(field: DataField | DerivedField) -> str:
    unit = f", in {field.unit}" if field.unit else ""
    how = " Calculated at ingest." if isinstance(field, DerivedField) else ""
    return f"{field.name} ({field.category.value.lower()}{unit}).{how}"
