"""What backfills withdrew: measurements row by row, and attempts at sources as a whole.

The rejected rows of an attempt that is withdrawn whole wait for nobody any more.
"""

from collections.abc import Sequence
from datetime import UTC
from pathlib import Path
from typing import Any, Final

import duckdb

from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.sql import identifier
from meterlake.model.work.backfill import RETRACTION, STEP, WITHDRAWN_SOURCE
from meterlake.stores.lake.backfill.rows import affected_by, keys
from meterlake.stores.lake.backfill.steps import Next

# Of attempts with the instant at which a measurement came: the first that did not reject its row
# since it was last withdrawn.
_RETRACTED: Final = f"""
    WITH gone AS (
        SELECT k.*, m.received_at FROM {{keys}} k JOIN (
            SELECT source, row, part, received_at FROM lake.{{table}}
            WHERE ts >= $first AND ts <= $last
        ) m USING (source, row, part) WHERE k.meter_id = $meter
    ), before AS (
        SELECT identity, row, part, max(attempt) AS attempt FROM lake.{RETRACTION}
        WHERE identity IN (SELECT source FROM gone) GROUP BY ALL
    ), brought AS (
        SELECT g.source, g.row, g.part, min(s.attempt) AS attempt FROM gone g
        JOIN lake.source s ON s.identity = g.source AND s.received_at = g.received_at
        LEFT JOIN before b ON b.identity = g.source AND b.row = g.row AND b.part = g.part
        ANTI JOIN lake.rejected x ON x.identity = s.identity AND x.attempt = s.attempt
            AND x.row = g.row AND x.part = g.part
        WHERE s.status = 'done' AND s.accepted > 0 AND s.attempt > coalesce(b.attempt, 0)
        GROUP BY ALL
    )
    INSERT INTO lake.{RETRACTION} BY NAME
    SELECT $backfill AS backfill, $step AS step, g.source AS identity, g.row, g.part, g.uid,
        g.meter_id, $reason AS reason, $at AS retracted_at, a.attempt
    FROM gone g LEFT JOIN brought a USING (source, row, part)"""
_WITHDRAWN_SOURCES: Final = f"""
    INSERT INTO lake.{WITHDRAWN_SOURCE} BY NAME
    SELECT DISTINCT $backfill AS backfill, $step AS step, identity, attempt FROM lake.source
    WHERE status = 'done' AND {{which}}"""
# What the ledger says was accepted of a source is stored, or is withdrawn.
_EMPTIED: Final = f"""identity IN (
    SELECT identity FROM (
        SELECT identity, sum(accepted) AS accepted FROM lake.source
        WHERE identity IN (SELECT source FROM {{keys}}) GROUP BY identity
    ) JOIN (SELECT identity, count(*) AS gone FROM lake.{RETRACTION} GROUP BY identity)
        USING (identity)
    WHERE gone = accepted)"""
_MARKS: Final = f"""
    WITH noted AS (
        SELECT identity, attempt, backfill, any_value(reason) AS reason,
            max(retracted_at) AS marked_at, count(*) AS measurements
        FROM lake.{RETRACTION}
        WHERE identity IN (SELECT unnest(CAST($identities AS VARCHAR[]))) GROUP BY ALL
    ), dated AS (
        SELECT n.* REPLACE (coalesce(n.attempt, (
            SELECT max(s.attempt) FROM lake.source s
            WHERE s.identity = n.identity AND s.accepted > 0 AND s.finished_at <= n.marked_at
        )) AS attempt) FROM noted n
    ), emptied AS (
        SELECT w.identity, w.attempt, w.backfill, b.reason, b.done_at AS marked_at, 0 AS measurements
        FROM lake.{WITHDRAWN_SOURCE} w JOIN lake.{STEP} b USING (backfill, step)
        JOIN lake.source s USING (identity, attempt)
        WHERE w.identity IN (SELECT unnest(CAST($identities AS VARCHAR[]))) AND s.rejected > 0
    )
    SELECT identity, attempt, backfill, any_value(reason), max(marked_at), sum(measurements)::BIGINT
    FROM (FROM dated UNION ALL FROM emptied)
    GROUP BY identity, attempt, backfill ORDER BY max(marked_at), backfill"""


def note_retracted(connection: duckdb.DuckDBPyConnection, step: Next, path: Path) -> None:
    """Note that the measurements of a file of keys are withdrawn, within a transaction.

    They are still there: when a measurement came tells which attempt brought it.
    """
    for meter_id, _, first, last in affected_by(connection, path):
        connection.execute(
            _RETRACTED.format(keys=keys(path), table=identifier(meter_table(meter_id))),
            {
                "backfill": step.backfill.id,
                "step": step.number,
                "reason": step.backfill.spec.reason,
                "at": step.instant,
                "meter": meter_id,
                "first": first,
                "last": last,
            },
        )


def note_withdrawn(connection: duckdb.DuckDBPyConnection, step: Next, delivery: str) -> None:
    """Note that what deliveries brought is withdrawn whole, within a transaction.

    Args:
        connection: Of the transaction.
        step: The step.
        delivery: A pattern of the deliveries' ids.
    """
    connection.execute(
        _WITHDRAWN_SOURCES.format(which="regexp_full_match(delivery, $which)"),
        {"backfill": step.backfill.id, "step": step.number, "which": delivery},
    )


def note_withdrawn_source(connection: duckdb.DuckDBPyConnection, step: Next, identity: str) -> None:
    """Note that a source is withdrawn whole, every attempt at it, within a transaction."""
    connection.execute(
        _WITHDRAWN_SOURCES.format(which="identity = $which"),
        {"backfill": step.backfill.id, "step": step.number, "which": identity},
    )


def note_emptied(connection: duckdb.DuckDBPyConnection, step: Next, path: Path) -> None:
    """Note the sources of which nothing is left without a file of keys, within a transaction."""
    connection.execute(
        _WITHDRAWN_SOURCES.format(which=_EMPTIED.format(keys=keys(path))),
        {"backfill": step.backfill.id, "step": step.number},
    )


def retractions(
    connection: duckdb.DuckDBPyConnection, identities: Sequence[str]
) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """By whom what attempts at sources brought is withdrawn: backfill, why, when and how many.

    The keys are identity and attempt. Of an attempt whose rejected rows alone are withdrawn it is
    no measurement.
    """
    rows = connection.execute(_MARKS, {"identities": list(identities)}).fetchall()
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for identity, attempt, backfill, reason, at, count in rows:
        line = {"backfill": backfill, "reason": reason, "at": at.replace(tzinfo=UTC)}
        found.setdefault((identity, attempt), []).append({**line, "measurements": count})
    return found


def retracted_uids(
    connection: duckdb.DuckDBPyConnection, uids: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """By whom measurements were withdrawn, by uid, the oldest first."""
    rows = connection.execute(
        "SELECT r.uid, r.backfill, r.reason, r.retracted_at, r.identity, r.row, r.part, r.attempt"
        f" FROM lake.{RETRACTION} AS r"
        " WHERE r.uid IN (SELECT unnest(CAST($uids AS VARCHAR[]))) ORDER BY r.retracted_at, r.backfill",
        {"uids": list(uids)},
    ).fetchall()
    found: dict[str, list[dict[str, Any]]] = {}
    for uid, backfill, reason, at, identity, row, part, attempt in rows:
        line = {"backfill": backfill, "reason": reason, "at": at.replace(tzinfo=UTC)}
        place = {"identity": identity, "row": row, "part": part, "attempt": attempt}
        found.setdefault(uid, []).append({**line, **place})
    return found
