"""Parquet record batches to columns: the types stay, the validation reads each of them.

What Polars cannot hold, or holds only in part, is written as text here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.measurement import Decoded
from meterlake.model.measurements.rejection import Reason
from meterlake.model.measurements.text import ORIGINAL_MAX
from meterlake.model.values.money import LAKE_PRECISION

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - the lake's instants are naive UTC
# From year 1 to year 9999, in µs.
_FIRST: Final = (datetime.min - _EPOCH) // timedelta(microseconds=1)  # noqa: DTZ901
_LAST: Final = (datetime.max - _EPOCH) // timedelta(microseconds=1)  # noqa: DTZ901
_UNITS_PER_MICROSECOND: Final = {"ns": 1000}
_MICROSECONDS_PER_UNIT: Final = {"us": 1, "ms": 1000, "s": 1_000_000}


@dataclass(frozen=True)
class RowsOf:
    """Finds the original values of a batch's rows, written as JSON."""

    frame: pl.DataFrame
    first: int

    def __call__(self, row: int) -> str:
        """One row as a JSON object of texts."""
        values = self.frame.row(row - self.first, named=True)
        present = {name: str(value) for name, value in values.items() if value is not None}
        return json.dumps(present, ensure_ascii=False)[:ORIGINAL_MAX]


def check_types(types: Mapping[str, pa.DataType], name: str) -> None:
    """Refuse a file in which a column that is read holds no plain values.

    Raises:
        UnreadableSource: A column holds lists, maps or the like.
    """
    for column, kind in types.items():
        if not _is_plain(kind):
            detail = f"column {column} is a {kind}; write one column per field"
            raise UnreadableSource(name, Reason.DAMAGED_FILE, detail)


def decode_batch(batch: pa.RecordBatch, first: int, name: str = "") -> Decoded:
    """Decode one batch; `first` is the number of its first row, counted from 1.

    Members of struct columns become columns of their own: `measure.bytes`.

    Raises:
        UnreadableSource: A text is not UTF-8.
    """
    table = pa.Table.from_batches([batch])
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    columns = {
        column: _plain(values.combine_chunks(), column, name)
        for column, values in zip(table.column_names, table.columns, strict=True)
    }
    frame = pl.from_arrow(pa.table(columns))
    assert isinstance(frame, pl.DataFrame)
    rows = pl.int_range(first, first + pl.len(), dtype=pl.Int64)
    return Decoded(frame.with_columns(rows.alias("row")), [], RowsOf(frame, first))


def _is_plain(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_plain(kind.value_type)
    return _is_text(kind) or any(
        each(kind)
        for each in (
            pa.types.is_integer,
            pa.types.is_floating,
            pa.types.is_boolean,
            pa.types.is_decimal,
            pa.types.is_timestamp,
            pa.types.is_date,
            pa.types.is_time,
            pa.types.is_null,
        )
    )


def _is_text(kind: pa.DataType) -> bool:
    return any(
        each(kind)
        for each in (
            pa.types.is_string,
            pa.types.is_large_string,
            pa.types.is_string_view,
            pa.types.is_binary,
            pa.types.is_large_binary,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
        )
    )


def _plain(values: pa.Array, column: str, name: str) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    kind = values.type
    if pa.types.is_timestamp(kind):
        # Naive UTC in µs, cut below; texts where one lies outside of the calendar.
        unit = values.type.unit
        absent = values.is_null().to_numpy(zero_copy_only=False)
        ticks = values.cast(pa.int64()).fill_null(0).to_numpy()
        divisor, factor = _UNITS_PER_MICROSECOND.get(unit, 1), _MICROSECONDS_PER_UNIT.get(unit, 1)
        # Nanoseconds in 64 bits reach from 1677 to 2262 only.
        outside = (ticks < -(-_FIRST // factor)) | (ticks > _LAST // factor)
        if divisor == 1 and outside.any():
            texts = [
                None
                if gone
                else f"{tick} {unit}"
                if out
                else (_EPOCH + timedelta(microseconds=int(tick) * factor)).isoformat()
                for tick, gone, out in zip(ticks, absent, outside, strict=True)
            ]
            return pa.array(texts, pa.large_string())
        return pa.array(ticks // divisor * factor, pa.timestamp("us"), mask=absent)
    text = _is_text(values.type)
    try:
        (pc.cast(values, pa.large_string()) if text else values).validate(full=True)
    except pa.ArrowInvalid as error:
        detail = f"column {column}: {str(error).partition(chr(10))[0]}; write the file again"
        reason = Reason.INVALID_ENCODING if text else Reason.DAMAGED_FILE
        raise UnreadableSource(name, reason, detail) from None
    if _is_text(kind):
        return pc.cast(values, pa.large_string())
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if pa.types.is_decimal(kind):
        is_foreign = kind.precision > LAKE_PRECISION or not 0 <= kind.scale <= kind.precision
    else:
        is_foreign = bool(pa.types.is_date(kind) or pa.types.is_time(kind))
    return values.cast(pa.string()) if is_foreign else values
