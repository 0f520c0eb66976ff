"""The ledger of sources and the rejected rows of a lake: read by identity, written in a commit."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import duckdb
import polars as pl

from meterlake.model.measurements.measurement import CALCULATION_ERROR, LAKE_TABLES
from meterlake.model.measurements.receipt import SAMPLE_MAX, Delivery, History, Receipt, Requeued
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.model.values import wire
from meterlake.model.values.period import naive
from meterlake.stores.lake.rejected import ITEMS

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
    "measurement": pl.String,
}
_REQUEUE_SCHEMA: Final = {
    "identity": pl.String,
    "attempt": pl.Int32,
    "row": pl.Int64,
    "part": pl.Int16,
    "tries": pl.Int32,
    "edited": pl.Boolean,
    "new_identity": pl.String,
    "new_row": pl.Int64,
    "author": pl.String,
}
assert list(_REQUEUE_SCHEMA) == list(LAKE_TABLES["requeue"])
# Rows of a source that were rejected, given in again, and not rejected again.
_MENDED: Final = """
    SELECT q.row, q.part FROM lake.requeue q
    ANTI JOIN lake.rejected x ON x.identity = q.new_identity AND x.row = q.new_row
    ANTI JOIN lake.retraction w ON w.identity = q.new_identity AND w.row = q.new_row
    WHERE q.identity = $identity"""
# Measurements of a source that were withdrawn and did not come in again.
_WITHDRAWN: Final = """
    SELECT w.row, w.part FROM lake.retraction w
    ANTI JOIN (SELECT row, part FROM lake.uid_index WHERE source = $identity) u USING (row, part)
    WHERE w.identity = $identity"""
# How many rows of a source are in the lake: its own, and those that a requeue brought.
_PRESENT: Final = f"""
    SELECT (SELECT count(*) FROM lake.uid_index WHERE source = $identity)
        + (SELECT count(*) FROM (SELECT DISTINCT row, part FROM ({_MENDED})))"""
# Whether measurements of other sources are withdrawn whose uids nobody has.
_FREED: Final = """
    SELECT 1 FROM lake.retraction w ANTI JOIN lake.uid_index u ON u.uid = w.uid
    WHERE w.identity <> ? LIMIT 1"""
# Whether a chosen row was looked at again since, withdrawn, dismissed or taken up again.
_OVERTAKEN: Final = f"""{ITEMS}
    SELECT count(*) FROM chosen c LEFT JOIN item i USING (identity, row, part)
    WHERE i.status IS DISTINCT FROM c.status OR i.attempt <> c.attempt OR i.tries + 1 <> c.tries"""
assert list(_REJECTED_SCHEMA) == list(LAKE_TABLES["rejected"])


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
    """A receipt out of the ledger with the first of its rows that reports show."""
    where = "WHERE identity = ? AND attempt = ?"
    source = [receipt.identity, receipt.attempt]
    errors = _first_rows(connection, f"lake.{CALCULATION_ERROR} {where}", source)
    sample = _first_rows(connection, f"lake.rejected {where}", source)
    return replace(receipt, sample=sample, errors=errors if receipt.incomplete else ())


def still_incomplete(
    connection: duckdb.DuckDBPyConnection, receipt: Receipt, staged: str | None
) -> Receipt:
    """A receipt that counts the calculation errors that are left in a staged file, if any is."""
    if staged is None:
        return replace(receipt, incomplete=0, errors=())
    found = connection.execute(f"SELECT count(DISTINCT (row, part)) FROM {staged}").fetchone()
    assert found is not None
    return replace(receipt, incomplete=found[0], errors=_first_rows(connection, staged, []))


def _first_rows(
    connection: duckdb.DuckDBPyConnection, source: str, values: list[Any]
) -> tuple[Rejection, ...]:
    rows = connection.execute(
        "SELECT row, reason, detail, original, part, field, meter, uid, measurement"
        f" FROM {source} ORDER BY row, part, field LIMIT {SAMPLE_MAX}",
        values,
    ).fetchall()
    return tuple(Rejection(row, Reason(reason), *rest) for row, reason, *rest in rows)


def missing_places(connection: duckdb.DuckDBPyConnection, receipt: Receipt) -> pl.DataFrame:
    """The `row` and `part` of every row that is not stored, of a source that was read before.

    An attempt rejected it and no requeue brought it in, or it is withdrawn.
    """
    found = connection.execute(
        "(SELECT row, part FROM lake.rejected WHERE identity = $identity AND attempt = $attempt"
        f" EXCEPT {_MENDED}) UNION {_WITHDRAWN}",
        {"identity": receipt.identity, "attempt": receipt.attempt},
    ).pl()
    return found.cast({"row": pl.Int64, "part": pl.Int16})


def repeats_freed(connection: duckdb.DuckDBPyConnection, receipt: Receipt, missing: int) -> bool:
    """Whether rows of a source may be missing that were repeats of what is withdrawn since.

    The lake does not know which rows of a source were repeats, only how many.

    Args:
        connection: Of the lake.
        receipt: The last attempt at the source that was done.
        missing: The number of its `missing_places`.
    """
    present = connection.execute(_PRESENT, {"identity": receipt.identity}).fetchone()
    assert present is not None
    if receipt.received <= present[0] + missing:
        return False
    return connection.execute(_FREED, [receipt.identity]).fetchone() is not None


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
        "incomplete": receipt.incomplete,
    }
    return [values[name] for name in LAKE_TABLES["source"]]


def rejected_frame(
    rows: Sequence[Rejection], identity: str, attempt: int, name: str
) -> pl.DataFrame:
    """Rejected rows, or calculation errors, in the columns of their table."""
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
                row.measurement,
            )
            for row in rows
        ],
        schema=_REJECTED_SCHEMA,
        orient="row",
    )


def requeue_frame(origins: Sequence[Requeued], identity: str) -> pl.DataFrame:
    """Where the rows of a requeued source come from, in the columns of the table."""
    rows = [
        (*origin[:-2], identity, number, origin.author) for number, origin in enumerate(origins, 1)
    ]
    return pl.DataFrame(rows, schema=_REQUEUE_SCHEMA, orient="row")


def are_as_chosen(connection: duckdb.DuckDBPyConnection, origins: Sequence[Requeued]) -> bool:
    """Whether all these rows are as they were when they were chosen: rejected, not looked at since."""
    status = pl.Series("status", [origin.status for origin in origins], dtype=pl.String)
    chosen = requeue_frame(origins, "").with_columns(status)
    connection.register("chosen", chosen.to_arrow())
    try:
        found = connection.execute(_OVERTAKEN).fetchone()
    finally:
        connection.unregister("chosen")
    assert found is not None
    return not found[0]


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
        # Older versions of meterlake did not derive anything.
        incomplete=row["incomplete"] or 0,
    )
