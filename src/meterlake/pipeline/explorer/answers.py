"""Answers of the Data Explorer: rows by meter, as JSON in a hurry, and as files behind a link."""

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import chain
from typing import Any, Final
from uuid import uuid4
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq

from meterlake.model.configuration.queries import (
    DataExplorerGroup,
    DataExplorerUsageDataFrequency,
)
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.stages.decode.csv_lines import csv_lines
from meterlake.stores import Organization, Stores
from meterlake.stores.downloads import Download

_NULL: Final = "null"
# Of units of time, the one that is no whole day.
_HOUR: Final = DataExplorerUsageDataFrequency.HOUR.value.lower()
_TIME: Final = "%Y%m%dT%H%M%SZ"
# A download that began in time may take as long.
_GRACE: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ExplorerTable:
    """Rows of one meter with the same keys.

    Attributes:
        fixed: The members that every row begins with.
        keys: The other members.
        rows: Their values: text, Decimal, naive UTC instants, None.
    """

    fixed: dict[str, str]
    keys: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]

    def with_clocks(self, zones: Mapping[str, ZoneInfo]) -> "ExplorerTable":
        """The same with the days or hours of groups in time by their clocks, beside the instants.

        Args:
            zones: By the keys of groups in time.
        """
        keys: list[str] = []
        columns: list[Sequence[Any]] = []
        for key, column in zip(self.keys, zip(*self.rows, strict=True), strict=True):
            keys.append(key)
            columns.append(column)
            if zone := zones.get(key):
                keys.append(f"{key} ({zone.key})")
                columns.append([_by_clock(value, zone, key) for value in column])
        return replace(self, keys=tuple(keys), rows=list(zip(*columns, strict=True)))

    def typed(self) -> Iterator[dict[str, Any]]:
        """The rows by their keys, with their values as they are."""
        for row in self.rows:
            yield {**self.fixed, **dict(zip(self.keys, row, strict=True))}

    def documents(self) -> Iterator[dict[str, Any]]:
        """The rows as wire documents."""
        for row in self.typed():
            yield {k: _instant(v) if isinstance(v, datetime) else v for k, v in row.items()}

    def texts(self) -> list[str]:
        """The rows as JSON. Column by column: that takes a fifth of the time of row by row."""
        members = [f"{_escape(wire.dumps({k: v})[1:-1])}" for k, v in self.fixed.items()]
        members += [f"{_escape(wire.dumps(key))}:%s" for key in self.keys]
        template = "{" + ",".join(members) + "}"
        columns = [_column_texts(column) for column in zip(*self.rows, strict=True)]
        return [template % row for row in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True)
class ExplorerAnswer:
    """What a question came to.

    Attributes:
        tables: One or none for each meter.
        more: Whether there are more rows than these.
        order: Which row of which table comes when; table after table if None.
    """

    tables: tuple[ExplorerTable, ...]
    more: bool
    order: tuple[tuple[int, int], ...] | None = None

    def with_clocks(self, groups: Iterable[DataExplorerGroup]) -> "ExplorerAnswer":
        """The same with the days or hours of groups in time by the clocks that they are counted by."""
        zones = {
            each.frequency.value.lower(): ZoneInfo(each.timezone)
            for each in groups
            if each.frequency is not None and each.timezone is not None
        }
        tables = (each.with_clocks(zones) if each.rows else each for each in self.tables)
        return replace(self, tables=tuple(tables))

    def documents(self) -> list[dict[str, Any]]:
        """The rows as wire documents, in their order."""
        return self._sort_key([list(table.documents()) for table in self.tables])

    def typed(self) -> list[dict[str, Any]]:
        """The rows by their keys, in their order, with their values as they are."""
        return self._sort_key([list(table.typed()) for table in self.tables])

    def to_json(self) -> bytes:
        """The whole answer of the wire: `{"data": [...], "hasMoreData": ...}`."""
        texts = self._sort_key([table.texts() for table in self.tables])
        more = "true" if self.more else "false"
        return f'{{"data":[{",".join(texts)}],"hasMoreData":{more}}}'.encode()

    def _sort_key(self, tables: list[list[Any]]) -> list[Any]:
        if self.order is None:
            return [row for rows in tables for row in rows]
        return [tables[table][row] for table, row in self.order]


def _by_clock(instant: datetime, zone: ZoneInfo, unit: str) -> str:
    local = instant.replace(tzinfo=UTC).astimezone(zone)
    return local.isoformat() if unit == _HOUR else local.date().isoformat()


def _escape(text: bytes) -> str:
    return text.decode().replace("%", "%%")


def _column_texts(column: Sequence[Any]) -> list[str]:
    sample = next((value for value in column if value is not None), None)
    if isinstance(sample, Decimal):
        return [_NULL if value is None else plain(value) for value in column]
    write: Callable[[Any], str] = _quoted_instant if isinstance(sample, datetime) else _quote
    # Accounts, days and values of fields come again and again.
    known = {value: _NULL if value is None else write(value) for value in set(column)}
    return [known[value] for value in column]


def _quote(value: Any) -> str:
    return wire.dumps(value).decode()


def _quoted_instant(value: datetime) -> str:
    return f'"{_instant(value)}"'


def _instant(value: datetime) -> str:
    return f"{value.isoformat()}Z"


class FileFormat(StrEnum):
    """How rows are written."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


_MEDIA_TYPES: Final = {
    FileFormat.CSV: "text/csv",
    FileFormat.JSON: "application/json",
    FileFormat.PARQUET: "application/vnd.apache.parquet",
}
# The most digits of a number in a file that DuckDB and Spark read as a number.
_DIGITS_MAX: Final = 38


def keep(
    organization: Organization, name: str, rows: Sequence[Mapping[str, Any]], format: FileFormat
) -> Download:
    """Store rows as a file for as long as its link works; files whose time is over go.

    Args:
        organization: Whose rows they are.
        name: What the file is called, without its ending.
        rows: Wire documents; a CSV file has their members flattened with `.`.
        format: How they are written.

    Raises:
        Unavailable: The store failed.
    """
    if format is FileFormat.CSV:
        flat = [dict(_flat(row)) for row in rows]
        columns = list(dict.fromkeys(name for row in flat for name in row))
        cells = ([_cell(row.get(name)) for name in columns] for row in flat)
        data = "".join(csv_lines(chain((columns,), cells))).encode()
    else:
        data = wire.dumps(list(rows))
    return keep_file(organization, name, data, format)


def keep_file(organization: Organization, name: str, data: bytes, format: FileFormat) -> Download:
    """Store a file for as long as its link works; files whose time is over go.

    Raises:
        Unavailable: The store failed.
    """
    folder = f"explorer/{organization.id}/"
    now = organization.now().astimezone(UTC)
    _clean(organization.stores, folder, now)
    key = f"{folder}{now.strftime(_TIME)}-{uuid4()}.{format}"
    organization.stores.objects.put_bytes(key, data)
    return Download(key, f"{name}.{format}", _MEDIA_TYPES[format])


def _clean(stores: Stores, folder: str, now: datetime) -> None:
    ended = now - timedelta(seconds=stores.settings.download_seconds) - _GRACE
    for info in list(stores.objects.list(folder)):
        if info.key.removeprefix(folder) >= ended.strftime(_TIME):
            return
        stores.objects.delete(info.key)


def parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as a Parquet file: numbers exact, or as text where they have more digits than it takes.

    Args:
        rows: By their keys: text, Decimal, naive UTC instants, None.
    """
    columns = list(dict.fromkeys(name for row in rows for name in row))
    arrays = [_array([row.get(name) for row in rows]) for name in columns]
    sink = io.BytesIO()
    pq.write_table(pa.table(arrays, names=columns), sink)
    return sink.getvalue()


def _array(values: list[Any]) -> pa.Array:
    sample = next((value for value in values if value is not None), None)
    if isinstance(sample, datetime):
        return pa.array([v and v.replace(tzinfo=UTC) for v in values], pa.timestamp("us", tz="UTC"))
    if not isinstance(sample, Decimal):
        return pa.array(values, pa.string())
    digits = [Decimal(plain(value)).as_tuple() for value in values if value is not None]
    scale = max(-int(each.exponent) for each in digits)
    whole = max(len(each.digits) + int(each.exponent) for each in digits)
    if max(whole, 0) + scale > _DIGITS_MAX:
        return pa.array([None if v is None else plain(v) for v in values], pa.string())
    return pa.array(values, pa.decimal128(_DIGITS_MAX, max(scale, 0)))


def _flat(row: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in row.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return plain(value) if isinstance(value, Decimal) else str(value)
