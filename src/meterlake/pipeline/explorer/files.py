"""Answers of the Data Explorer as files that people fetch through a link."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import chain
from typing import Any, Final
from uuid import uuid4

from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.stages.decode.csv_lines import csv_lines
from meterlake.stores import Stores
from meterlake.stores.downloads import Download

_TIME: Final = "%Y%m%dT%H%M%SZ"
# A download that began in time may take as long.
_GRACE: Final = timedelta(hours=1)


class FileFormat(StrEnum):
    """How rows are written."""

    CSV = "csv"
    JSON = "json"


_MEDIA_TYPES: Final = {FileFormat.CSV: "text/csv", FileFormat.JSON: "application/json"}


def keep(
    stores: Stores, org_id: str, name: str, rows: Sequence[Mapping[str, Any]], format: FileFormat
) -> Download:
    """Store rows as a file for as long as its link works; files whose time is over go.

    Args:
        stores: The home.
        org_id: Whose rows they are.
        name: What the file is called, without its ending.
        rows: Wire documents; a CSV file has their members flattened with `.`.
        format: How they are written.

    Raises:
        Unavailable: The store failed.
    """
    data = _csv(rows) if format is FileFormat.CSV else wire.dumps(list(rows))
    return keep_file(stores, org_id, name, data, format)


def keep_file(stores: Stores, org_id: str, name: str, data: bytes, format: FileFormat) -> Download:
    """Store a file for as long as its link works; files whose time is over go.

    Raises:
        Unavailable: The store failed.
    """
    folder = f"explorer/{org_id}/"
    now = stores.now().astimezone(UTC)
    _clean(stores, folder, now)
    key = f"{folder}{now.strftime(_TIME)}-{uuid4()}.{format}"
    stores.objects.put_bytes(key, data)
    return Download(key, f"{name}.{format}", _MEDIA_TYPES[format])


def _clean(stores: Stores, folder: str, now: datetime) -> None:
    ended = now - timedelta(seconds=stores.settings.download_seconds) - _GRACE
    for info in list(stores.objects.list(folder)):
        if info.key.removeprefix(folder) >= ended.strftime(_TIME):
            return
        stores.objects.delete(info.key)


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    flat = [dict(_flat(row)) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    cells = ([_cell(row.get(name)) for name in columns] for row in flat)
    return "".join(csv_lines(chain((columns,), cells))).encode()


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
