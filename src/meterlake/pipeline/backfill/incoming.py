"""Files that are about to replace measurements: whether they may, and what would come of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import polars as pl

from meterlake.model.errors import Invalid
from meterlake.model.measurements.receipt import SAMPLE_MAX, Receipt
from meterlake.pipeline.ingest.commit import Commit
from meterlake.stores.lake.backfill import replacing
from meterlake.stores.lake.backfill.rows import RowSelection

_COUNTS: Final = ("received", "accepted", "repeats", "rejected")


@dataclass(frozen=True, slots=True)
class Incoming:
    """One file, read and staged, and its place among the others."""

    number: int
    what: Commit

    @property
    def identity(self) -> str:
        """What makes it the same source."""
        return self.what.receipt.identity

    @property
    def name(self) -> str:
        """Its name."""
        return self.what.receipt.delivery.name

    @property
    def mark(self) -> dict[str, Any]:
        """What tells whether it is the same file, read and calculated alike."""
        meters = {meter.id for meter in self.what.meters.values()}
        others = meters - {
            meter.id for table, meter in self.what.meters.items() if self.paths(table)
        }
        return {
            "identity": self.identity,
            "mapping": self.what.receipt.mapping,
            "versions": {id_: n for id_, n in self.what.versions.items() if id_ not in others},
        }

    def paths(self, table: str) -> list[Path]:
        """Its staged files of one table."""
        return [file.path for file in self.what.files if file.table == table]


@dataclass(frozen=True, slots=True)
class ReplacementOutcome:
    """What the commit of files will come to.

    Attributes:
        counts: File by file, what its receipt will say.
        rejected: The first rejected rows.
        dropped: The places that will not be stored: `number`, `row`, `part`.
    """

    counts: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    dropped: Path

    def forget(self) -> None:
        """Remove the file of places."""
        self.dropped.unlink(missing_ok=True)


def count(receipt: Receipt) -> dict[str, Any]:
    """What of a receipt must be as it was foreseen."""
    return {"name": receipt.delivery.name} | {each: getattr(receipt, each) for each in _COUNTS}


def check_inside(
    connection: duckdb.DuckDBPyConnection, file: Incoming, selection: RowSelection
) -> None:
    """Check that a file holds only measurements that the backfill is about.

    Raises:
        Invalid: It holds others.
    """
    for table, meter in sorted(file.what.meters.items()):
        paths = file.paths(table)
        if not paths:
            continue
        if selection.meters and meter.id not in selection.meters:
            raise Invalid(
                "file",
                file.name,
                f"it has measurements of meter {meter.code!r}, which is not replaced; take them out, or name the meter, too",
            )
        found = replacing.first_outside(connection, paths, selection)
        if found is not None:
            rule = (
                "it must have only measurements of the window and the accounts that are replaced;"
                f" row {found[0]} is of {found[1].isoformat()}Z, account id {found[2]}"
            )
            raise Invalid("file", file.name, rule)


def foresee(
    connection: duckdb.DuckDBPyConnection, files: list[Incoming], gone: Path, snapshot: int
) -> ReplacementOutcome:
    """Find out what will become of the rows of files that are committed one after the other.

    Args:
        connection: Of the lake.
        files: The files.
        gone: The keys of the measurements that go before.
        snapshot: The snapshot that is changed.
    """
    target = gone.with_name("dropped.parquet")
    uids = [(each.number, each.paths("uid_index")) for each in files]
    replacing.stage_dropped(connection, uids, gone, snapshot, target)
    dropped = pl.read_parquet(target)
    counts, rejected = [], []
    for each in files:
        mine = dropped.filter(pl.col("number") == each.number)
        wrong = mine.filter(~pl.col("repeat"))
        repeats = len(mine) - len(wrong)
        found = count(each.what.receipt)
        found["accepted"] -= len(mine)
        found["repeats"] += repeats
        found["rejected"] += len(wrong)
        counts.append(found)
        rejected += _rejected_rows(each, wrong)
    return ReplacementOutcome(counts, rejected, target)


def _rejected_rows(file: Incoming, wrong: pl.DataFrame) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {
            "name": file.name,
            "row": row.row,
            "reason": str(row.reason),
            "field": row.field,
            "detail": row.detail,
        }
        for row in file.what.receipt.sample
    ]
    found += [
        {
            "name": file.name,
            "row": row,
            "reason": "DuplicateUid",
            "field": "uid",
            "detail": f"uid {uid!r} is known with other content",
        }
        for row, uid in wrong.select("row", "uid").head(SAMPLE_MAX).iter_rows()
    ]
    return sorted(found, key=lambda each: each["row"])[:SAMPLE_MAX]


def meters_of(files: list[Incoming]) -> set[str]:
    """The ids of the meters that files bring measurements of."""
    return {
        meter.id for each in files for table, meter in each.what.meters.items() if each.paths(table)
    }


def rows_of(files: list[Incoming], meter_id: str, dropped: Path) -> str | None:
    """The measurements of a meter that files bring, as a source of SQL."""
    rows = [
        (file.number, file.paths(table))
        for file in files
        for table, meter in file.what.meters.items()
        if meter.id == meter_id
    ]
    return replacing.rows_without(rows, dropped)


def columns_of(files: list[Incoming], meter_id: str) -> list[str]:
    """The columns of these."""
    found: dict[str, None] = {}
    for file in files:
        for table, meter in file.what.meters.items():
            if meter.id == meter_id:
                for path in file.paths(table):
                    found |= dict.fromkeys(pl.scan_parquet(path).collect_schema().names())
    return list(found)


def rows_foreseen(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Incoming], dropped: Path
) -> list[list[Any]]:
    """What tells, file by file, which of their rows will be stored.

    Args:
        connection: Of the lake.
        files: The files.
        dropped: The places that will not be stored.
    """
    return [
        replacing.fingerprint_without(connection, (file.number, file.paths("uid_index")), dropped)
        for file in files
    ]


def rows_stored(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Incoming]
) -> list[list[Any]]:
    """The same of all that a transaction has of the sources that the files are."""
    return [replacing.fingerprint_stored(connection, file.identity) for file in files]


def rows_more(after: Sequence[Sequence[Any]], before: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """What tells the rows that came; a sum of hashes is also that of its parts."""
    return [
        [new - old, str(int(new_sum) - int(old_sum))]
        for (new, new_sum), (old, old_sum) in zip(after, before, strict=True)
    ]
