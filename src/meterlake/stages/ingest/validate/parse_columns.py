"""Columns of texts to columns of numbers and instants, by the grammars of `model`; null is absent.

Vectorised for what nearly all values look like; the few others go through `model.money` and
`model.period`, which are the definition. A value that the grammar refuses becomes null beside a
mark in `wrong`, which is None where there are no such values.

The hash of what makes two measurements equal.

XXH3 (64 bits) over fixed places: meter and names of its fields, both instants in µs, the account,
then the fields in the order of their names, numbers as the 16 bytes that the lake keeps, texts by
their own XXH3. Derived fields do not count. It can be computed again from the lake at any time.
"""

import contextlib
import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, NamedTuple

import numpy as np
import polars as pl
import polars_hash as plh
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from meterlake.model.measurements.measurement import MeterFields
from meterlake.model.values.money import (
    LAKE_INTEGER_DIGITS,
    LAKE_PRECISION,
    LAKE_SCALE,
    parse_number,
)
from meterlake.model.values.period import naive, parse_instant

NUMBER: Final = pl.Decimal(LAKE_PRECISION, LAKE_SCALE)
INSTANT: Final = pl.Datetime("us")

_PLAIN_NUMBER: Final = rf"^[+-]?[0-9]{{1,{LAKE_INTEGER_DIGITS}}}(?:\.[0-9]{{1,{LAKE_SCALE}}})?$"
# pyarrow 26 rounds 20 and more leading nines wrongly (the carry is lost): wider ones go one by one.
_WIDE_NUMBER: Final = r"^[+-]?[0-9]{1,18}\.[0-9]{1,38}$"
# UTC with seconds, a day that every year has: what machines write. Every other form goes to parse_instant.
_PLAIN_INSTANT: Final = (
    r"^(?:[0-9]{3}[1-9]|[0-9]{2}[1-9][0-9]|[0-9][1-9][0-9]{2}|[1-9][0-9]{3})"
    r"-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)"
    r"|(?:0[13578]|1[02])-31)[T ](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
    r"(?:\.[0-9]{1,6})?Z?$"
)
# 2026-10-01T00:00:00.223Z with 1 to 6 decimals, or with none and a Z where the point is.
_INSTANT_MARKS: Final = {4: "-", 7: "-", 10: "T", 13: ":", 16: ":", 19: "."}
_INSTANT_SIZES: Final = frozenset({20, *range(22, 28)})
_FIRST_INSTANT: Final = naive(datetime(1, 1, 1, tzinfo=UTC))
# No instant that the grammar accepts.
_NO_INSTANT: Final = -(1 << 63)


class Typed(NamedTuple):
    """A typed column, where the value broke the grammar, and how many values were rounded."""

    values: pl.Series
    wrong: pl.Series | None = None
    rounded: int = 0


def numbers(column: pl.Series) -> Typed:
    """Read a column as DECIMAL(38,12); more decimals are rounded half-even and counted."""
    kind = column.dtype
    if kind == pl.String:
        return _numbers_from_text(column)
    if isinstance(kind, pl.Decimal) and kind.scale <= LAKE_SCALE:
        narrow = column.cast(NUMBER, strict=False)
        return Typed(narrow, lost(column, narrow))
    if kind.is_integer():
        return _numbers_from_text(column.cast(pl.String))
    if kind == pl.Null:
        return Typed(column.cast(NUMBER))
    # Floats as the shortest text that gives them back, wide decimals with all their digits.
    return _numbers_from_text(column.cast(pl.String))


def instants(column: pl.Series) -> Typed:
    """Read a column as naive UTC instants, cut to microseconds."""
    kind = column.dtype
    if kind == INSTANT:
        return Typed(column)
    if kind == pl.Null:
        return Typed(column.cast(INSTANT))
    texts = column if kind == pl.String else column.cast(pl.String)
    alike = _instants_alike(texts)
    if alike is not None:
        return Typed(alike)
    plain = texts.str.contains(_PLAIN_INSTANT)
    if not plain.all():
        values = _plain_instants(_only(texts, plain))
        places = (texts.is_not_null() & ~plain.fill_null(value=False)).arg_true()
        found = [_naive(parse_instant(text)) for text in texts.gather(places)]
        values = values.scatter(places, pl.Series(found, dtype=INSTANT))
        return Typed(values, lost(texts, values))
    return Typed(_plain_instants(texts))


def texts(column: pl.Series) -> pl.Series:
    """Read a column as text, as files write it."""
    return column if column.dtype == pl.String else column.cast(pl.String)


def absent(column: pl.Series) -> pl.Series | None:
    """Where there is no value; None if there is one everywhere."""
    return column.is_null() if column.null_count() else None


def lost(before: pl.Series, after: pl.Series) -> pl.Series | None:
    """Where a value became none; None if none did."""
    if before.null_count() == after.null_count():
        return None  # No null becomes a value.
    return before.is_not_null() & after.is_null()


def constant(text: str, among: Iterable[str] = ()) -> pl.Expr:
    """One text for all rows; as an Enum it is neither repeated in memory nor looked at per row.

    Args:
        text: The text.
        among: All texts that frames to be joined with this one may hold.
    """
    return pl.lit(text, pl.Enum(sorted({text, *among})))


def _numbers_from_text(column: pl.Series) -> Typed:
    plain = column.str.contains(_PLAIN_NUMBER)
    if plain.all():
        return Typed(_plain_numbers(column))
    values = _plain_numbers(_only(column, plain))
    rest = column.is_not_null() & ~plain.fill_null(value=False)
    wide = rest & column.str.contains(_WIDE_NUMBER).fill_null(value=False)
    rounded = 0
    if wide.any():
        places = wide.arg_true()
        found = _wide_numbers(column.gather(places))
        values = values.scatter(places, found)
        rounded = sum(map(_loses_digits, column.gather(places)))
        rest = rest & ~wide
    if rest.any():
        values, rounded = _others(column, values, rest, rounded)
    return Typed(values, lost(column, values), rounded)


def _plain_numbers(column: pl.Series) -> pl.Series:
    return column.str.to_decimal(scale=LAKE_SCALE).cast(NUMBER)


def _wide_numbers(column: pl.Series) -> pl.Series:
    wide = pc.cast(column.to_arrow(), pa.decimal256(76, 38))
    rounded = pc.round(wide, ndigits=LAKE_SCALE, round_mode="half_to_even")
    found = pl.from_arrow(pc.cast(rounded, pa.decimal128(LAKE_PRECISION, LAKE_SCALE)))
    assert isinstance(found, pl.Series)
    return found


def _others(
    column: pl.Series, values: pl.Series, rest: pl.Series, rounded: int
) -> tuple[pl.Series, int]:
    places = rest.arg_true()
    found = [parse_number(text) for text in column.gather(places)]
    rounded += sum(
        number is not None and number != Decimal(text)
        for text, number in zip(column.gather(places), found, strict=True)
    )
    return values.scatter(places, pl.Series(found, dtype=NUMBER)), rounded


def _loses_digits(text: str) -> bool:
    return len(text.partition(".")[2].rstrip("0")) > LAKE_SCALE


def _instants_alike(column: pl.Series) -> pl.Series | None:
    """Instants in UTC with seconds, all of one length; None where others have to look.

    Arrow is strict with digits and the calendar, but reads more layouts than the grammar. To
    compare a few places takes a tenth of the time of an expression.
    """
    sizes = column.str.len_bytes()
    size = sizes.min()
    if not isinstance(size, int) or size != sizes.max() or column.null_count():
        return None
    array = column.to_arrow(compat_level=pl.CompatLevel.oldest())
    if size not in _INSTANT_SIZES or array.offset:
        return None
    rows = len(column)
    text = np.frombuffer(array.buffers()[2], np.uint8, rows * size).reshape(rows, size)
    marks = {**_INSTANT_MARKS, size - 1: "Z"}
    if any((text[:, place] != ord(mark)).any() for place, mark in marks.items()):
        return None
    bare, ends = np.ascontiguousarray(text[:, :-1]), np.arange(rows + 1) * (size - 1)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(bare)]
    with contextlib.suppress(pa.ArrowInvalid, UnicodeDecodeError):
        found = pc.cast(pa.Array.from_buffers(pa.large_string(), rows, buffers), pa.timestamp("us"))
        values = pl.from_arrow(found)
        assert isinstance(values, pl.Series)
        # Arrow knows a year 0.
        return values if (values >= _FIRST_INSTANT).all() else None
    return None


def _plain_instants(column: pl.Series) -> pl.Series:
    bare = column.str.strip_suffix("Z").to_arrow(compat_level=pl.CompatLevel.oldest())
    found = pl.from_arrow(pc.cast(bare, pa.timestamp("us")))
    assert isinstance(found, pl.Series)
    return found


def _naive(instant: datetime | None) -> datetime | None:
    return instant and instant.replace(tzinfo=None)


def _only(column: pl.Series, where: pl.Series) -> pl.Series:
    return pl.select(pl.when(where).then(column)).to_series()


def content_hashes(frame: pl.DataFrame, meter: MeterFields) -> pl.Series:
    """Hash measurements of one meter.

    Args:
        frame: `account_id`, `ts`, `ets` and the meter's fields, typed as in the lake. Rows that
            lack a field get a meaningless hash.
        meter: The meter.

    Returns:
        UInt64, in the order of the rows.
    """
    fields = sorted(meter.fields, key=lambda each: each.column)
    texts = [each.column for each in fields if not each.category.numeric]
    hashes = frame.select(plh.col("account_id", *texts).nchash.xxh3_64()).fill_null(0)
    names = "\x1f".join([meter.id, *sorted(each.column for each in meter.fields)])
    first = hashlib.sha256(names.encode()).digest()[:8]
    head = np.full(len(frame), int.from_bytes(first, "little"), np.uint64)
    columns = [head, _instants(frame["ts"]), _instants(frame["ets"])]
    columns.append(hashes["account_id"].to_numpy())
    for each in fields:
        numeric, name = each.category.numeric, each.column
        columns += _numbers(frame[name]) if numeric else [hashes[name].to_numpy()]
    # The bytes of each row: its numbers one after the other.
    rows = len(frame)
    packed = np.empty((rows, len(columns)), np.uint64)
    for place, column in enumerate(columns):
        packed[:, place] = column
    ends = np.arange(rows + 1) * len(columns) * packed.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(packed)]
    series = pl.from_arrow(pa.Array.from_buffers(pa.large_binary(), rows, buffers))
    assert isinstance(series, pl.Series)
    return series.to_frame("rows").select(plh.col("rows").nchash.xxh3_64()).to_series()


def uid_hashes(uids: pl.Series) -> pl.Series:
    """Hash uids: XXH3 of their UTF-8, UInt64."""
    return uids.to_frame("uid").select(plh.col("uid").nchash.xxh3_64()).to_series()


def _instants(values: pl.Series) -> NDArray[np.uint64]:
    return values.to_physical().fill_null(_NO_INSTANT).to_numpy().view(np.uint64)


def _numbers(values: pl.Series) -> list[NDArray[np.uint64]]:
    """The low and the high half of each number; two's complement, little-endian."""
    array = values.rechunk().to_arrow()
    words = np.frombuffer(array.buffers()[1], np.uint64)
    start = array.offset * 2
    words = words[start : start + 2 * len(array)]
    return [words[0::2], words[1::2]]
