"""Derived fields calculated again, meter by meter and month by month, a few months at once.

What a partition found is kept with a note that is written last: whoever continues after a crash
takes the finished partitions as they are.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import uuid4

import duckdb
import polars as pl

from meterlake.model.measurements.measurement import MeterFields, meter_table
from meterlake.model.values import wire
from meterlake.model.values.failpoint import mark_step
from meterlake.pipeline.backfill.job import BackfillJob
from meterlake.pipeline.ingest.derivations import Derivations, account_codes
from meterlake.stages.ingest.derive import ACCOUNT_CODE, Derivation, Derived, derive
from meterlake.stages.ingest.validate.account_codes import AccountCodes
from meterlake.stores.files.durable import disk, make_folder, write_durably
from meterlake.stores.lake.backfill.recalculated import changed_rows, months_of, select_month
from meterlake.stores.lake.backfill.rows import RowSelection, meters_at
from meterlake.stores.lake.connection import open_cursor, translate_errors
from meterlake.stores.lake.staged_parquet import ROW_GROUP_ROWS, StagedFile, StagedFiles

_ERROR_SCHEMA: Final = {
    "source": pl.String,
    "row": pl.Int64,
    "part": pl.Int16,
    "uid": pl.String,
    "meter": pl.String,
    "field": pl.String,
    "detail": pl.String,
}


@dataclass(frozen=True, slots=True)
class RecalculatedMonth:
    """What calculating a meter's month again came to.

    Attributes:
        month: Its first instant, naive UTC.
        seen: How many measurements were looked at.
        changed: How many differ from what is stored.
        rows: Files of the changed measurements.
        errors: Files of all calculation errors that there are now.
    """

    meter_id: str
    month: datetime
    seen: int = 0
    changed: int = 0
    rows: tuple[Path, ...] = ()
    errors: tuple[Path, ...] = ()

    @property
    def partition(self) -> str:
        """The folder of the month below the one of the meter's table."""
        return f"year={self.month.year}/month={self.month.month}"

    def to_wire(self, folder: Path) -> dict[str, Any]:
        """As plain data; its files lie below the folder, wherever that is moved to."""
        return {
            "meter": self.meter_id,
            "month": self.month.isoformat(),
            "seen": self.seen,
            "changed": self.changed,
            "rows": [str(path.relative_to(folder)) for path in self.rows],
            "errors": [str(path.relative_to(folder)) for path in self.errors],
        }

    @classmethod
    def from_wire(cls, found: Mapping[str, Any], folder: Path) -> "RecalculatedMonth":
        """Read it back."""
        month = datetime.fromisoformat(found["month"])
        rows, errors = (tuple(folder / name for name in found[kind]) for kind in ("rows", "errors"))
        return cls(found["meter"], month, found["seen"], found["changed"], rows, errors)


class _Meter(NamedTuple):
    fields: MeterFields
    derivation: Derivation


@dataclass(frozen=True)
class _Work:
    """How partitions are calculated.

    Attributes:
        digest: Of what they are calculated from; it is a part of their names.
        shared: Whether somebody else may calculate the same partition at this moment.
    """

    job: BackfillJob
    selection: RowSelection
    folder: Path
    digest: str
    accounts: AccountCodes
    meters: Mapping[str, _Meter]
    shared: bool = False

    def part(
        self, connection: duckdb.DuckDBPyConnection, meter_id: str, month: datetime
    ) -> RecalculatedMonth:
        """Calculate one partition, unless that is done already."""
        name = _name_part(meter_id, month, self.digest)
        note = self.folder / f"{name}.json"
        with suppress(FileNotFoundError):
            return RecalculatedMonth.from_wire(wire.loads(note.read_bytes()), self.folder)
        target = self.folder / (f"{name}-{uuid4()}" if self.shared else name)
        self.job.folder.clear(target)
        make_folder(target)
        files = StagedFiles(target, 1)
        seen, kept = 0, 0
        try:
            with open_cursor(connection) as cursor:
                for frame in self.frames(cursor, meter_id, month):
                    seen += len(frame)
                    kept += self.block(files, self.meters[meter_id], frame)
            done = files.close()
        finally:
            files.abandon()
        found = RecalculatedMonth(
            meter_id, month, seen, kept, _paths(done, "rows"), _paths(done, "errors")
        )
        with write_durably(note) as temporary:
            temporary.write_bytes(wire.dumps(found.to_wire(self.folder)))
        mark_step("backfill.partition_done")
        return found

    def frames(
        self, cursor: duckdb.DuckDBPyConnection, meter_id: str, month: datetime
    ) -> Iterator[pl.DataFrame]:
        snapshot = self.job.backfill.snapshot
        with translate_errors():
            select_month(cursor, self.selection, meter_id, snapshot, month)
            for batch in cursor.to_arrow_reader(ROW_GROUP_ROWS):
                frame = pl.from_arrow(batch)
                assert isinstance(frame, pl.DataFrame)
                if len(frame):
                    yield frame

    def block(self, files: StagedFiles, meter: _Meter, frame: pl.DataFrame) -> int:
        """Stage what differs of a block; how many measurements that is."""
        found = self.derive(meter, frame)
        names = [each.column for each in meter.fields.derived]
        new = found.frame
        # A derived field that is new has held nothing.
        absent = [name for name in names if name not in frame.columns]
        old = frame.with_columns(pl.lit(None, new.schema[name]).alias(name) for name in absent)
        differs = pl.any_horizontal(
            pl.lit(value=False), *(new[name].ne_missing(old[name]) for name in names)
        )
        changed = new.select([*frame.columns, *(n for n in names if n not in frame.columns)])
        changed = changed.filter(frame.select(differs.alias("differs")).to_series())
        if len(changed):
            files.write("rows", changed)
        if found.errors:
            rows = pl.DataFrame(
                [(each.uid, each.meter, each.field, each.detail) for each in found.errors],
                schema=dict.fromkeys(("uid", "meter", "field", "detail"), pl.String),
                orient="row",
            )
            # Rows of several sources may have the same number; no two have the same uid.
            places = frame.select("uid", "source", "row", "part")
            errors = rows.join(places, on="uid").select(list(_ERROR_SCHEMA))
        else:
            errors = pl.DataFrame(schema=_ERROR_SCHEMA)
        if len(errors):
            files.write("errors", errors)
        return len(changed)

    def derive(self, meter: _Meter, frame: pl.DataFrame) -> Derived:
        derivation = meter.derivation
        absent = [
            pl.lit(None, pl.Decimal(38, 12) if each.category.numeric else pl.String).alias(
                each.column
            )
            for each in meter.fields.fields
            if each.column not in frame.columns
        ]
        whole = frame.with_columns(absent)
        if derivation.reads_account_code:
            codes = self.accounts.codes(frame["account_id"], ())
            whole = whole.with_columns(codes.alias(ACCOUNT_CODE))
        return derive(derivation, whole)


def _paths(files: list[StagedFile], table: str) -> tuple[Path, ...]:
    return tuple(each.path for each in files if each.table == table)


@dataclass(frozen=True)
class Recalculation:
    """What derived fields are calculated from.

    Attributes:
        job: The backfill.
        selection: The measurements.
        versions: Of all that the calculation reads: with others nothing is taken over.
        meters: The meters by code.
        derivations: How their derived fields are calculated.
    """

    job: BackfillJob
    selection: RowSelection
    versions: Mapping[str, int]
    meters: Mapping[str, MeterFields]
    derivations: Derivations

    @property
    def key(self) -> str:
        """All that the outcome follows from, as text."""
        snapshot = self.job.backfill.snapshot
        return wire.dumps_sorted({"versions": dict(self.versions), "snapshot": snapshot})

    @property
    def digest(self) -> str:
        """What tells it from others."""
        return sha256(self.key.encode()).hexdigest()[:16]

    def work(self, connection: duckdb.DuckDBPyConnection, *, shared: bool = False) -> _Work:
        """The calculation, with what it reads of the configuration."""
        by_id = {each.id: each for each in self.meters.values()}
        chosen = {
            id_: _Meter(by_id[id_], self.derivations.by_meter[id_])
            for id_ in meters_at(connection, self.selection, self.job.backfill.snapshot)
            if id_ in by_id and id_ in self.derivations.by_meter
        }
        codes = account_codes(self.job.organization.state, self.job.organization.id)
        folder = self.job.folder.rows
        return _Work(self.job, self.selection, folder, self.digest, codes, chosen, shared)


Part = tuple[str, datetime]
Spread = Callable[[Sequence[Part]], list[RecalculatedMonth]]


def calculate(found: Recalculation, spread: Spread | None = None) -> list[RecalculatedMonth]:
    """Calculate all partitions that the selection touches.

    Args:
        found: What is calculated from what.
        spread: Has others calculate the partitions; threads of this process do if None.
    """
    job = found.job
    # Remove what another configuration or snapshot left where partitions are kept.
    mark = job.folder.rows / "calculated-from.json"
    if not mark.exists() or mark.read_text() != found.key:
        job.folder.clear(job.folder.rows)
        with write_durably(mark) as temporary:
            temporary.write_text(found.key)
    with job.lake.reader() as connection:
        work = found.work(connection)
        parts = [
            (id_, month)
            for id_ in work.meters
            for month in months_of(connection, found.selection, id_, job.backfill.snapshot)
        ]
        return _calculate_all(work, connection, parts) if spread is None else spread(parts)


def _calculate_all(
    work: _Work, connection: duckdb.DuckDBPyConnection, parts: Sequence[Part]
) -> list[RecalculatedMonth]:
    with ThreadPoolExecutor(work.job.organization.settings.threads) as pool:
        waiting = [pool.submit(work.part, connection, *part) for part in parts]
        try:
            found = []
            for done, each in enumerate(waiting, 1):
                found.append(each.result())
                work.job.progress(found[-1].seen, done, len(parts))
        except BaseException:
            # One has failed: those that have not begun are of no use.
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return found


def calculate_part(found: Recalculation, part: Part) -> str:
    """Calculate one partition, which others may do as well; the name of its note."""
    with found.job.lake.reader() as connection:
        work = found.work(connection, shared=True)
        work.part(connection, *part)
    return f"{_name_part(*part, found.digest)}.json"


def _name_part(meter_id: str, month: datetime, digest: str) -> str:
    return f"{meter_id}-{month.year:04}-{month.month:02}-{digest}"


def rows_of(found: list[RecalculatedMonth], meter_id: str) -> str:
    """The changed measurements of a meter, as a query."""
    paths = [path for each in found if each.meter_id == meter_id for path in each.rows]
    return changed_rows(paths)


def changed_columns(found: list[RecalculatedMonth]) -> dict[str, list[str]]:
    """The columns of the changed measurements, by meter."""
    columns: dict[str, list[str]] = {}
    for each in found:
        for path in each.rows:
            names = pl.scan_parquet(path).collect_schema().names()
            known = columns.setdefault(each.meter_id, [])
            known += [name for name in names if name not in known]
    return columns


def register(
    job: BackfillJob, connection: duckdb.DuckDBPyConnection, found: RecalculatedMonth
) -> None:
    """Make the files of a partition part of the lake, within a transaction; they stay staged."""
    for path in found.rows:
        # If the transaction is not committed, they are needed once more.
        again = path.with_name(f"{uuid4()}.parquet")
        with disk():
            os.link(path, again)
        name = f"{found.partition}/{again.name}"
        job.lake.register(connection, meter_table(found.meter_id), again, name)
