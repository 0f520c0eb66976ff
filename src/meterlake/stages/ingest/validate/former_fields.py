"""Measurements that name their fields: taken before their meter got some of its fields, or lost some.

An export writes `meterFields` where a measurement has other fields than its meter has today. Such
a row has to have a value for each field that it names, and for no other one.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final, NamedTuple

import polars as pl

from meterlake.model.measurements.measurement import (
    FIELDS_KEY,
    FIELDS_MAX,
    Field,
    MeterFields,
    field_of,
)
from meterlake.stages.ingest.validate import parse_columns as columns

# Different lists of fields in one block; a meter seldom changes.
_LISTS_MAX: Final = 100


class FieldGroup(NamedTuple):
    """Rows of one meter with the same fields; `wrong` says why they cannot have them."""

    meter: MeterFields
    rows: pl.DataFrame
    wrong: str = ""


def by_own_fields(rows: pl.DataFrame, meter: MeterFields) -> Iterator[FieldGroup]:
    """Divide the rows of a meter by the fields that they say they have."""
    if FIELDS_KEY not in rows.columns or rows[FIELDS_KEY].null_count() == len(rows):
        yield FieldGroup(meter, rows)
        return
    named = columns.texts(rows[FIELDS_KEY])
    if named.null_count():
        yield FieldGroup(meter, rows.filter(named.is_null()))
    lists = named.drop_nulls().unique(maintain_order=True)
    for text in lists.head(_LISTS_MAX):
        found = rows.filter(named.eq_missing(text))
        try:
            yield FieldGroup(_with_fields(meter, text), found)
        except ValueError as error:
            yield FieldGroup(meter, found, str(error))
    if len(lists) > _LISTS_MAX:
        others = rows.filter(named.is_in(lists.tail(-_LISTS_MAX).implode()))
        yield FieldGroup(meter, others, f"more than {_LISTS_MAX} different lists of fields")


def with_all_fields(frame: pl.DataFrame, fields: Iterable[Field]) -> pl.DataFrame:
    """The measurements with nulls in the columns of fields that they lack."""
    return frame.with_columns(
        pl.lit(None, columns.NUMBER if each.category.numeric else pl.String).alias(each.column)
        for each in fields
        if each.column not in frame.columns
    )


def _with_fields(meter: MeterFields, text: str) -> MeterFields:
    """The meter with the fields that a measurement names.

    Raises:
        ValueError: They cannot be the fields of a measurement of the meter.
    """
    names = text.split(" ")
    if len(names) > FIELDS_MAX:
        raise ValueError(f"{len(names)} fields, more than {FIELDS_MAX}")
    fields = tuple(_field(name) for name in names)
    seen: set[str] = set()
    for each in fields:
        if each.code.casefold() in seen:
            raise ValueError(f"{each.code!r} stands twice, letter case apart")
        seen.add(each.code.casefold())
    known = {name.casefold(): name for name in meter.columns}
    for each in fields:
        if known.get(each.column.casefold(), each.column) != each.column:
            raise ValueError(f"{each.column!r} is nearly a field of meter {meter.code!r}")
        if each in meter.derived:
            raise ValueError(f"{each.column!r} is calculated")
    if set(fields) == set(meter.fields):
        return meter
    return replace(meter, fields=fields)


def _field(name: str) -> Field:
    found = field_of(name)
    if found is None:
        raise ValueError(f"{name!r} is not of the form measure.bytes or what.region")
    return found
