"""The hash of what makes two measurements equal.

XXH3 (64 bits) over fixed places: meter and names of its fields, both instants in µs, the account,
then the fields in the order of their names, numbers as the 16 bytes that the lake keeps, texts by
their own XXH3. Derived fields do not count. It can be computed again from the lake at any time.
"""

import hashlib
from typing import Final

import numpy as np
import polars as pl
import polars_hash as plh
import pyarrow as pa
from numpy.typing import NDArray

from meterlake.model.measurements.measurement import MeterFields

# No instant that the grammar accepts.
_NO_INSTANT: Final = -(1 << 63)


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
    columns = [_head(meter, len(frame)), _instants(frame["ts"]), _instants(frame["ets"])]
    columns.append(hashes["account_id"].to_numpy())
    for each in fields:
        numeric, name = each.category.numeric, each.column
        columns += _numbers(frame[name]) if numeric else [hashes[name].to_numpy()]
    series = _rows(columns, len(frame))
    return series.to_frame("rows").select(plh.col("rows").nchash.xxh3_64()).to_series()


def uid_hashes(uids: pl.Series) -> pl.Series:
    """Hash uids: XXH3 of their UTF-8, UInt64."""
    return uids.to_frame("uid").select(plh.col("uid").nchash.xxh3_64()).to_series()


def _rows(columns: list[NDArray[np.uint64]], rows: int) -> pl.Series:
    """The bytes of each row: its numbers one after the other."""
    packed = np.empty((rows, len(columns)), np.uint64)
    for place, column in enumerate(columns):
        packed[:, place] = column
    ends = np.arange(rows + 1) * len(columns) * packed.itemsize
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(packed)]
    series = pl.from_arrow(pa.Array.from_buffers(pa.large_binary(), rows, buffers))
    assert isinstance(series, pl.Series)
    return series


def _head(meter: MeterFields, rows: int) -> NDArray[np.uint64]:
    names = "\x1f".join([meter.id, *sorted(each.column for each in meter.fields)])
    first = hashlib.sha256(names.encode()).digest()[:8]
    return np.full(rows, int.from_bytes(first, "little"), np.uint64)


def _instants(values: pl.Series) -> NDArray[np.uint64]:
    return values.to_physical().fill_null(_NO_INSTANT).to_numpy().view(np.uint64)


def _numbers(values: pl.Series) -> list[NDArray[np.uint64]]:
    """The low and the high half of each number; two's complement, little-endian."""
    array = values.rechunk().to_arrow()
    words = np.frombuffer(array.buffers()[1], np.uint64)
    start = array.offset * 2
    words = words[start : start + 2 * len(array)]
    return [words[0::2], words[1::2]]
