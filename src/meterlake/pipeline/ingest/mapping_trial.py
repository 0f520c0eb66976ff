"""A mapping tried on a file: its first rows beside what becomes of them; nothing is stored."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from meterlake.model.errors import UnreadableSource
from meterlake.model.measurements.mapping import Mapping
from meterlake.model.measurements.receipt import SAMPLE_MAX, Delivery, Receipt
from meterlake.model.measurements.rejection import Rejection
from meterlake.model.values.money import plain
from meterlake.model.values.period import aware, format_instant
from meterlake.pipeline.ingest.files import mapping_problems
from meterlake.pipeline.ingest.reading import Reading, read
from meterlake.pipeline.ingest.run import open_reading, preview_file
from meterlake.pipeline.jobs.progress import Progress, untold
from meterlake.stages.decode.head import (
    FileHead,
    read_csv_head,
    read_json_head,
    read_rows_head,
)
from meterlake.stages.ingest import mapped_columns
from meterlake.stages.ingest.validate import Accepted
from meterlake.stores import Organization
from meterlake.stores.files import source_file

ROWS_MAX: Final = 50
# Of a text file no more is looked at for its first rows.
_HEAD_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TriedRow:
    """A row of a file, and what becomes of it.

    Attributes:
        row: Its number in the file.
        values: The texts of its columns.
        measurements: The measurements that it becomes, in the shape of the wire.
        rejected: Why measurements of it would not come in.
    """

    row: int
    values: dict[str, str]
    measurements: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[Rejection] = field(default_factory=list)

    def to_wire(self) -> dict[str, Any]:
        """As the API shows it."""
        return {
            "row": self.row,
            "values": self.values,
            "measurements": self.measurements,
            "rejected": [_describe(each) for each in self.rejected],
        }


@dataclass(frozen=True, slots=True)
class MappingTrial:
    """What a file would become.

    Attributes:
        receipt: The numbers of the whole file.
        columns: Its columns; of JSON the paths to the texts of its first rows.
        rows: Its first rows.
    """

    receipt: Receipt
    columns: list[str]
    rows: list[TriedRow]


def try_mapping(
    organization: Organization,
    path: Path,
    name: str,
    mapping: Mapping | None,
    progress: Progress = untold,
) -> MappingTrial:
    """Try a mapping on a file.

    Args:
        organization: The organization.
        path: The file.
        name: The name that it would come under.
        mapping: How to read it; None for files in our own format.
        progress: Told how far the file is read, block by block.

    Raises:
        Unavailable: The disk or the lake failed.
    """
    delivery = Delivery(str(uuid4()), name, organization.now())
    receipt = preview_file(organization, path, delivery, mapping, progress)
    head, tried = FileHead([], []), {}
    try:
        # Also of a file that the mapping cannot read: one has to see the columns that it has.
        with suppress(UnreadableSource):
            reading = open_reading(organization, path, delivery, mapping)
            most = SAMPLE_MAX // len(mapping.measurements) if mapping else SAMPLE_MAX
            head = _read_head(reading, max(1, min(ROWS_MAX, most)))
            tried = {each.row: TriedRow(each.row, each.values) for each in head.rows}
            if receipt.status == "done":
                _try_rows(reading, receipt, tried)
    finally:
        organization.lake.drop_staging(delivery.id)
    return MappingTrial(receipt, head.columns, list(tried.values()))


def describe_trial(
    organization: Organization, trial: MappingTrial, mapping: Mapping | None
) -> dict[str, Any]:
    """A trial as the API shows it, with what of the mapping does not fit the meters."""
    receipt = trial.receipt
    found = {
        "status": receipt.status,
        "format": receipt.format,
        "received": receipt.received,
        "accepted": receipt.accepted,
        "repeats": receipt.repeats,
        "rejected": receipt.rejected,
        "reasons": {reason.value: count for reason, count in receipt.reasons.items()},
        "reason": None if receipt.reason is None else receipt.reason.value,
        "detail": receipt.detail,
        "newAccounts": receipt.new_accounts,
        "problems": mapping_problems(organization, mapping) if mapping else [],
        "columns": trial.columns,
        "rows": [each.to_wire() for each in trial.rows],
    }
    return {name: value for name, value in found.items() if value is not None}


def _describe(rejection: Rejection) -> dict[str, str]:
    named = {"field": rejection.field, "meter": rejection.meter, "detail": rejection.detail}
    kept = {name: value for name, value in named.items() if value is not None}
    return {"reason": rejection.reason.value, **kept}


def _read_head(reading: Reading, most: int) -> FileHead:
    """The first rows of a file, whatever its format.

    Raises:
        UnreadableSource: It has none that one could read.
    """
    kind, compression = reading.format.format, reading.format.compression
    chunks = source_file.chunks(
        reading.path, reading.name, compression, _HEAD_BYTES, reading.budget
    )
    if kind == "parquet":
        return FileHead([], []) if compression else _read_parquet_head(reading, most)
    # Of a JSON array, which has no lines to begin with, all has to be there.
    parts = chunks if kind == "json" else islice(chunks, 1)
    data = b"".join(parts).removeprefix(b"\xef\xbb\xbf")
    if kind == "csv":
        delimiter = reading.mapping.delimiter if reading.mapping else None
        wanted = mapped_columns.needed_columns(reading.mapping)
        return read_csv_head(data, reading.name, delimiter, wanted, most)
    return read_json_head(data, is_array=kind == "json", most=most)


def _read_parquet_head(reading: Reading, most: int) -> FileHead:
    columns = list(source_file.parquet_types(reading.path, reading.name))
    batches = source_file.batches(
        reading.path, reading.name, columns, reading.position, reading.budget
    )
    rows = next(batches).slice(0, most).to_pylist()
    found = read_rows_head(enumerate(rows, 1))
    return FileHead(columns, found.rows)


def _try_rows(reading: Reading, receipt: Receipt, tried: dict[int, TriedRow]) -> None:
    """Add to some rows what becomes of them."""
    last = max(tried, default=0)
    # What only a look at all measurements tells: uids that are known with other content.
    refused = {each.place(): each for each in receipt.sample}
    for block in read(reading):
        refused |= {each.place(): each for each in block.rejected}
        for accepted in block.accepted:
            for place, measurement in _measurements(reading, accepted):
                if place[0] in tried and place not in refused:
                    tried[place[0]].measurements.append(measurement)
        if block.seen and _last_row(block.accepted, block.rejected) > last:
            break
    for (row, _), rejection in sorted(refused.items()):
        # A row that no reader could read has no columns.
        known = tried.setdefault(row, TriedRow(row, {})) if row <= last else None
        if known is not None:
            known.rejected.append(rejection)


def _last_row(accepted: list[Accepted], rejected: list[Rejection]) -> int:
    rows = [int(each.frame["row"].max() or 0) for each in accepted]  # type: ignore[arg-type]
    return max([*rows, *(each.row for each in rejected)], default=0)


def _measurements(
    reading: Reading, accepted: Accepted
) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """The accepted measurements of a meter as people write them, by their places in the file."""
    frame = accepted.frame.with_columns(
        reading.accounts.codes(accepted.frame["account_id"], accepted.new_accounts).alias("account")
    )
    fields = [each.column for each in (*accepted.meter.fields, *accepted.meter.derived)]
    shown = [each for each in fields if each in frame.columns]
    fixed = ("row", "part", "uid", "ts", "ets", "account")
    for row in frame.select(*fixed, *shown).iter_rows(named=True):
        found = {"meter": accepted.meter.code}
        found |= {name: _text(row[name]) for name in ("account", "uid", "ts", "ets") if row[name]}
        values = {name: _text(row[name]) for name in shown if row[name] is not None}
        yield (row["row"], row["part"]), {**found, "fields": values}


def _text(value: Any) -> str:
    if isinstance(value, Decimal):
        return plain(value)
    return format_instant(aware(value)) if isinstance(value, datetime) else str(value)
