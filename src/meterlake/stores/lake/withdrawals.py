"""What backfills withdrew, and rejected rows that nobody takes up again.

Measurements are withdrawn row by row, attempts at sources as a whole. The rejected rows of an
attempt that is withdrawn whole wait for nobody any more.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

import duckdb

from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.period import naive
from meterlake.model.values.sql import identifier
from meterlake.model.work.backfill import RETRACTION, STEP, WITHDRAWN_SOURCE
from meterlake.stores.lake.backfill.rows import affected_by, keys
from meterlake.stores.lake.backfill.steps import Next
from meterlake.stores.lake.connection import temporary_table
from meterlake.stores.lake.rejected import ITEMS, PLACE, RejectedFilter, RowRef, Status

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
# Of most sources nothing was ever withdrawn, which costs a tenth of reading by whom.
_IS_MARKED: Final = f"""
    SELECT 1 FROM lake.{RETRACTION}
    WHERE identity IN (SELECT unnest(CAST($identities AS VARCHAR[])))
    UNION ALL SELECT 1 FROM lake.{WITHDRAWN_SOURCE}
    WHERE identity IN (SELECT unnest(CAST($identities AS VARCHAR[]))) LIMIT 1"""
Action = Literal["dismiss", "reopen"]

# What a row is before somebody decides.
_BEFORE: Final[dict[Action, Status]] = {"dismiss": "open", "reopen": "dismissed"}
_DECIDE: Final = f"""{ITEMS}
INSERT INTO lake.dismissal BY NAME
SELECT item.identity, item.row, item.part, item.tries::INTEGER AS tries,
    (coalesce(d.number, 0) + 1)::INTEGER AS number, ? AS action, ? AS reason, ? AS author,
    ?::TIMESTAMP AS done_at
FROM item JOIN lake.source s ON s.identity = item.identity AND s.attempt = item.attempt
LEFT JOIN (
    SELECT identity, row, part, max(number) AS number FROM lake.dismissal GROUP BY ALL
) d ON d.identity = item.identity AND d.row = item.row AND d.part = item.part
WHERE {{which}}"""
_NAMED: Final = "(item.identity, item.row, item.part) IN (SELECT (identity, row, part) FROM wanted)"
_HISTORY: Final = """
    SELECT done_at, action, author, reason FROM lake.dismissal
    WHERE identity = ? AND row = ? AND part = ? ORDER BY number"""


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
    asked = {"identities": list(identities)}
    if not identities or not connection.execute(_IS_MARKED, asked).fetchall():
        return {}
    rows = connection.execute(_MARKS, asked).fetchall()
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


class Decision(NamedTuple):
    """What somebody decides of rejected rows; the instant is aware."""

    action: Action
    because: str | None
    author: str
    at: datetime

    def values(self) -> list[Any]:
        """As the table has them."""
        return [self.action, self.because, self.author, naive(self.at)]


def decide_meant(
    connection: duckdb.DuckDBPyConnection, decision: Decision, filters: RejectedFilter
) -> int:
    """Write a decision down for all rows that are meant, within a transaction; how many they are.

    Args:
        connection: Of the transaction.
        decision: The decision.
        filters: Which rows; the decision says in which state.
    """
    tests, values = filters.conditions()
    return _decide(connection, decision, tests, values)


def decide_named(
    connection: duckdb.DuckDBPyConnection, decision: Decision, places: Sequence[RowRef]
) -> int:
    """Write a decision down for some rows, within a transaction; how many were not there before."""
    with temporary_table(connection, "wanted", PLACE, places):
        return _decide(connection, decision, [_NAMED], [])


def _decide(
    connection: duckdb.DuckDBPyConnection, decision: Decision, tests: list[str], values: list[Any]
) -> int:
    which = " AND ".join([*tests, "item.status = ?"])
    bound = [*decision.values(), *values, _BEFORE[decision.action]]
    [[count]] = connection.execute(_DECIDE.format(which=which), bound).fetchall()
    return int(count)


def decisions(connection: duckdb.DuckDBPyConnection, place: RowRef) -> list[dict[str, Any]]:
    """Who gave a row up and took it up again, when and why, the oldest first."""
    rows = connection.execute(_HISTORY, list(place)).fetchall()
    return [
        {"at": at.replace(tzinfo=UTC), "action": action, "author": author, "because": reason}
        for at, action, author, reason in rows
    ]
