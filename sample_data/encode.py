"""Measurements as files: CSV, NDJSON, JSON array and Parquet; plain, gzip and Zstandard."""

import csv
import gzip
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from sample_data.usage import Measurement

_json: Final = msgspec.json.Encoder(decimal_format="number")
NUMERIC: Final = ("measure.", "cost.", "income.")


def write_instant(at: datetime, zone: tzinfo = UTC) -> str:
    """An instant with milliseconds where it has some, in UTC with `Z` or with its offset."""
    local = at.astimezone(zone)
    text = local.isoformat(timespec="milliseconds" if local.microsecond else "seconds")
    return text.replace("+00:00", "Z")


def to_record(measurement: Measurement, zone: tzinfo = UTC) -> dict[str, str]:
    """The cells of one CSV line by their column."""
    record = {
        "meter": measurement.meter,
        "account": measurement.account,
        "uid": measurement.uid,
        "ts": write_instant(measurement.ts, zone),
    }
    if measurement.ets:
        record["ets"] = write_instant(measurement.ets, zone)
    return record | {name: str(value) for name, value in measurement.fields.items()}


def to_wire(measurement: Measurement) -> dict[str, Any]:
    """The measurement in the shape of the wire: a map per category."""
    wire: dict[str, Any] = {
        "uid": measurement.uid,
        "meter": measurement.meter,
        "account": measurement.account,
        "ts": write_instant(measurement.ts),
    }
    if measurement.ets:
        wire["ets"] = write_instant(measurement.ets)
    for name, value in measurement.fields.items():
        category, _, code = name.partition(".")
        wire.setdefault(category, {})[code] = value
    return wire


def csv_text(records: Sequence[Mapping[str, str]], delimiter: str = ",") -> bytes:
    """A CSV file with the columns of its first record."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, list(records[0]), delimiter=delimiter, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return out.getvalue().encode()


def json_line(wire: Mapping[str, Any]) -> bytes:
    """One JSON object; numbers keep their digits."""
    return _json.encode(wire)


def ndjson(measurements: Sequence[Measurement]) -> bytes:
    """One JSON object a line."""
    return b"".join(json_line(to_wire(one)) + b"\n" for one in measurements)


def json_array(measurements: Sequence[Measurement]) -> bytes:
    """A JSON array, one object a line so that people can read it."""
    return b"[\n" + b",\n".join(json_line(to_wire(one)) for one in measurements) + b"\n]\n"


def parquet(measurements: Sequence[Measurement]) -> bytes:
    """A Parquet file with typed columns: whole numbers, decimals, instants."""
    fields = list(measurements[0].fields)
    columns: dict[str, pa.Array] = {
        name: pa.array([getattr(one, name) for one in measurements], pa.string())
        for name in ("meter", "account", "uid")
    }
    columns["ts"] = pa.array([one.ts for one in measurements], pa.timestamp("us", tz="UTC"))
    for name in fields:
        values = [one.fields[name] for one in measurements]
        columns[name] = pa.array(values, _arrow_type(name, values))
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, compression="zstd", write_statistics=True)
    return out.getvalue()


def _arrow_type(name: str, values: Sequence[object]) -> pa.DataType:
    if not name.startswith(NUMERIC):
        return pa.string()
    return pa.decimal128(18, 8) if isinstance(values[0], Decimal) else pa.int64()


def compress(name: str, data: bytes) -> bytes:
    """The bytes as the file's name says: `.gz`, `.zst` or plain."""
    if name.endswith(".gz"):
        out = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", fileobj=out, compresslevel=9, mtime=0) as file:
            file.write(data)
        return out.getvalue()
    if name.endswith(".zst"):
        return zstandard.ZstdCompressor(level=19).compress(data)
    return data
