"""What a lake itself knows of backfills: the steps that were done, and the books of their rows.

A step and all that it changes are one transaction, so the lake alone tells whether it was done.
"""

from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import duckdb

from meterlake.model.measurements.measurement import CALCULATION_ERROR
from meterlake.model.values.period import aware, naive
from meterlake.model.work.backfill import (
    CORRECTION,
    RETRACTION,
    STEP,
    WITHDRAWN_SOURCE,
    Action,
    Backfill,
    Mode,
)
from meterlake.stores.lake.backfill.rows import keys
from meterlake.stores.lake.lake import Lake

_PLACE: Final = "(identity, row, part) IN (SELECT (source, row, part) FROM {keys})"
_INCOMPLETE: Final = "SELECT identity, attempt, count(DISTINCT (row, part)) AS n FROM {errors}"
# In one statement: by how much the numbers of incomplete measurements differ.
_CORRECTION: Final = f"""
    INSERT INTO lake.{CORRECTION} BY NAME
    SELECT $backfill AS backfill, $step AS step, identity, attempt,
        CAST(coalesce(new.n, 0) - coalesce(old.n, 0) AS BIGINT) AS incomplete
    FROM ({_INCOMPLETE} GROUP BY ALL) AS old
    FULL JOIN ({_INCOMPLETE.replace("{errors}", "{staged}")} GROUP BY ALL) AS new
        USING (identity, attempt)
    WHERE coalesce(new.n, 0) <> coalesce(old.n, 0)"""
_NO_ERRORS: Final = f"(SELECT * FROM lake.{CALCULATION_ERROR} WHERE false)"


class BackfillStep(NamedTuple):
    """The last thing that was done with a backfill; `snapshot` is the one before it."""

    number: int
    action: Action
    snapshot: int

    @property
    def made(self) -> int:
        """The snapshot that the step made: under the lake's lock there is none in between."""
        return self.snapshot + 1


class Next(NamedTuple):
    """A step that is being done."""

    backfill: Backfill
    number: int
    at: datetime

    @property
    def instant(self) -> datetime:
        """When, as the lake keeps it."""
        return naive(self.at)


def last_step(connection: duckdb.DuckDBPyConnection, id: str) -> BackfillStep | None:
    """The last thing that was done with a backfill; None if it was never applied."""
    row = connection.execute(
        f"SELECT step, action, snapshot FROM lake.{STEP} WHERE backfill = ?"
        " ORDER BY step DESC LIMIT 1",
        [id],
    ).fetchone()
    return None if row is None else BackfillStep(row[0], Action(row[1]), row[2])


class DoneStep(NamedTuple):
    """A step of any backfill that changed measurements; `snapshot` is the one before it."""

    backfill: str
    action: Action
    mode: Mode
    snapshot: int
    done_at: datetime

    @property
    def made(self) -> int:
        """The snapshot that the step made."""
        return self.snapshot + 1


def steps_since(connection: duckdb.DuckDBPyConnection, snapshot: int, until: int) -> list[DoneStep]:
    """The steps that changed measurements after a snapshot and until another one, in their order."""
    rows = connection.execute(
        f"SELECT backfill, action, mode, snapshot, done_at FROM lake.{STEP}"
        " WHERE snapshot >= ? AND snapshot < ? AND mode <> ? ORDER BY snapshot",
        [snapshot, until, Mode.REAGGREGATE.value],
    ).fetchall()
    return [DoneStep(row[0], Action(row[1]), Mode(row[2]), row[3], aware(row[4])) for row in rows]


def write_step(
    lake: Lake,
    connection: duckdb.DuckDBPyConnection,
    step: Next,
    action: Action,
    author: str,
    snapshot: int,
) -> None:
    """Write down that a step is done, within the transaction that does it."""
    spec = step.backfill.spec
    about = [step.backfill.id, step.number, action.value, spec.mode.value, author, spec.reason]
    lake.insert(connection, STEP, [[*about, snapshot, step.instant]])


def note_corrected(
    connection: duckdb.DuckDBPyConnection, step: Next, path: Path, staged: str | None = None
) -> None:
    """Note by how much the numbers of incomplete measurements change, within a transaction.

    Args:
        connection: Of the transaction; the old errors are still there.
        step: The step.
        path: The keys of the measurements whose errors go.
        staged: The errors that come, as a source of SQL.
    """
    old = f"lake.{CALCULATION_ERROR} WHERE {_PLACE.format(keys=keys(path))}"
    connection.execute(
        _CORRECTION.format(errors=old, staged=staged or _NO_ERRORS),
        {"backfill": step.backfill.id, "step": step.number},
    )


def forget_corrections(connection: duckdb.DuckDBPyConnection, id: str, step: int) -> None:
    """Take out what a step noted, as it is undone, within a transaction."""
    for table in (RETRACTION, CORRECTION, WITHDRAWN_SOURCE):
        connection.execute(f"DELETE FROM lake.{table} WHERE backfill = ? AND step = ?", [id, step])
