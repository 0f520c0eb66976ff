"""The ledger of sources and the rejected rows of a lake: read by identity, written in a commit."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import duckdb
import polars as pl

from meterlake.model import wire
from meterlake.model.measurement import LAKE_TABLES, Reason, Rejection
from meterlake.model.receipt import SAMPLE_MAX, Delivery, Receipt

_REJECTED_SCHEMA: Final = {
    "identity": pl.String,
    "attempt": pl.Int32,
    "name": pl.String,
    "row": pl.Int64,
    "part": pl.Int16,
    "meter": pl.String,
    "uid": pl.String,
    "reason": pl.String,
    "field": pl.String,
    "detail": pl.String,
    "original": pl.String,
}
assert list(_REJECTED_SCHEMA) == list(LAKE_TABLES["rejected"])


class History(NamedTuple):
    """What the ledger knows of a source: all its attempts, and the newest that was not refused whole."""

    attempts: int
    same_delivery: Receipt | None
    done: Receipt | None


def history(connection: duckdb.DuckDBPyConnection, identity: str, delivery: str) -> History:
    """Read what the ledger knows of a source."""
    names = ", ".join(f'"{name}"' for name in LAKE_TABLES["source"])
    rows = connection.execute(
        f"SELECT {names} FROM lake.source WHERE identity = ? ORDER BY attempt", [identity]
    ).fetchall()
    receipts = [_receipt(dict(zip(LAKE_TABLES["source"], row, strict=True))) for row in rows]
    same = [each for each in receipts if each.delivery.id == delivery]
    done = [each for each in receipts if each.status == "done"]
    return History(len(receipts), same[-1] if same else None, done[-1] if done else None)


def with_sample(connection: duckdb.DuckDBPyConnection, receipt: Receipt) -> Receipt:
    """A receipt out of the ledger with its first rejected rows, as reports show them."""
    rows = connection.execute(
        "SELECT row, reason, detail, original, part, field, meter, uid FROM lake.rejected"
        f" WHERE identity = ? AND attempt = ? ORDER BY row, part LIMIT {SAMPLE_MAX}",
        [receipt.identity, receipt.attempt],
    ).fetchall()
    sample = tuple(Rejection(row, Reason(reason), *rest) for row, reason, *rest in rows)
    return replace(receipt, sample=sample)


def rejected_places(connection: duckdb.DuckDBPyConnection, receipt: Receipt) -> pl.DataFrame:
    """The `row` and `part` of every row that an attempt rejected."""
    found = connection.execute(
        "SELECT row, part FROM lake.rejected WHERE identity = ? AND attempt = ?",
        [receipt.identity, receipt.attempt],
    ).pl()
    return found.cast({"row": pl.Int64, "part": pl.Int16})


def source_row(receipt: Receipt, finished_at: datetime, versions: dict[str, int]) -> list[Any]:
    """The ledger's row of a receipt, in the order of its columns."""
    values = {
        "identity": receipt.identity,
        "attempt": receipt.attempt,
        "delivery": receipt.delivery.id,
        "name": receipt.delivery.name,
        "sha256": receipt.sha256,
        "size_bytes": receipt.size_bytes,
        "format": receipt.format,
        "mapping": receipt.mapping,
        "status": receipt.status,
        "reason": receipt.reason and str(receipt.reason),
        "detail": receipt.detail,
        "received_at": naive(receipt.delivery.received_at),
        "finished_at": naive(finished_at),
        "received": receipt.received,
        "accepted": receipt.accepted,
        "repeats": receipt.repeats,
        "rejected": receipt.rejected,
        "rounded": receipt.rounded,
        "reasons": wire.dumps_sorted({str(key): count for key, count in receipt.reasons.items()}),
        "versions": wire.dumps_sorted(versions),
    }
    return [values[name] for name in LAKE_TABLES["source"]]


def rejected_frame(
    rows: Sequence[Rejection], identity: str, attempt: int, name: str
) -> pl.DataFrame:
    """Rejected rows in the columns of their table."""
    return pl.DataFrame(
        [
            (
                identity,
                attempt,
                name,
                row.row,
                row.part,
                row.meter,
                row.uid,
                str(row.reason),
                row.field,
                row.detail,
                row.original,
            )
            for row in rows
        ],
        schema=_REJECTED_SCHEMA,
        orient="row",
    )


def naive(instant: datetime) -> datetime:
    """An instant as the lake keeps it: UTC without saying so."""
    return instant.astimezone(UTC).replace(tzinfo=None)


def _receipt(row: dict[str, Any]) -> Receipt:
    reasons = {Reason(name): count for name, count in wire.loads(row["reasons"]).items()}
    received_at = row["received_at"].replace(tzinfo=UTC)
    return Receipt(
        delivery=Delivery(row["delivery"], row["name"], received_at),
        identity=row["identity"],
        attempt=row["attempt"],
        sha256=row["sha256"],
        size_bytes=row["size_bytes"],
        format=row["format"],
        mapping=row["mapping"],
        status=row["status"],
        received=row["received"],
        accepted=row["accepted"],
        repeats=row["repeats"],
        rejected=row["rejected"],
        rounded=row["rounded"],
        reasons=reasons,
        reason=row["reason"] and Reason(row["reason"]),
        detail=row["detail"],
    )
