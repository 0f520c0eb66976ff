"""Rejected rows of a lake as people mend them: each once, under the place where it came in first.

A row that was given in again and rejected again is still the same row: it shows the text and the
reason of its last try. It is mended when a try was not rejected. Nobody waits for rows that are
withdrawn with their source, nor for those that somebody dismissed.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final, Literal, NamedTuple

import duckdb

from meterlake.model.measurements.rejection import Reason
from meterlake.model.values.period import Month, naive
from meterlake.stores.lake.connection import temporary_table

Status = Literal["open", "dismissed", "withdrawn", "requeued"]

# What may be given in again if somebody names it: all but what came in.
NOT_IN: Final[frozenset[Status]] = frozenset({"open", "dismissed", "withdrawn"})

# How many digits of an identity name a row.
SHOWN_DIGITS: Final = 12

# Of a source counts its newest attempt that is not withdrawn; if all are, the newest of all.
ITEMS: Final = """
WITH newest AS (
    SELECT s.identity, bool_and(w.identity IS NOT NULL) AS withdrawn,
        coalesce(max(s.attempt) FILTER (w.identity IS NULL), max(s.attempt)) AS attempt
    FROM lake.source s LEFT JOIN (
        SELECT DISTINCT identity, attempt FROM lake.withdrawn_source
    ) w USING (identity, attempt)
    WHERE s.status = 'done' GROUP BY s.identity
), link AS (
    SELECT q.identity, q.row, q.part, q.attempt, q.tries, q.edited, q.new_identity, q.new_row,
        CASE WHEN x.identity IS NOT NULL THEN 'rejected' WHEN w.identity IS NOT NULL
            THEN 'withdrawn' ELSE 'stored' END AS outcome,
        x.reason, x.field, x.detail, x.meter, x.uid, x.original, x.measurement
    FROM lake.requeue q
    LEFT JOIN lake.rejected x ON x.identity = q.new_identity AND x.row = q.new_row
    LEFT JOIN (
        SELECT DISTINCT identity, row FROM lake.retraction
    ) w ON w.identity = q.new_identity AND w.row = q.new_row
    QUALIFY row_number() OVER (PARTITION BY q.identity, q.row, q.part ORDER BY q.tries DESC) = 1
), given_up AS (
    SELECT identity, row, part, arg_max(action, number) AS action, arg_max(tries, number) AS tries,
        arg_max(reason, number) AS because, arg_max(author, number) AS dismissed_by,
        arg_max(done_at, number) AS dismissed_at
    FROM lake.dismissal GROUP BY identity, row, part
), item AS (
    SELECT r.identity, r.attempt, r.row, r.part, r.name,
        CASE WHEN l.outcome = 'stored' THEN 'requeued'
            WHEN n.withdrawn OR l.outcome = 'withdrawn' AND r.attempt = l.attempt THEN 'withdrawn'
            WHEN d.action = 'dismiss' AND d.tries = coalesce(l.tries, 0) THEN 'dismissed'
            ELSE 'open' END AS status,
        coalesce(l.tries, 0) AS tries, l.edited, l.new_identity, l.new_row,
        if(l.outcome = 'rejected', l.reason, r.reason) AS reason,
        if(l.outcome = 'rejected', l.field, r.field) AS field,
        if(l.outcome = 'rejected', l.detail, r.detail) AS detail,
        if(l.outcome = 'rejected', l.meter, r.meter) AS meter,
        if(l.outcome = 'rejected', l.uid, r.uid) AS uid,
        r.original,
        if(l.outcome = 'rejected', l.measurement, r.measurement) AS measurement,
        d.because, d.dismissed_by, d.dismissed_at
    FROM lake.rejected r
    LEFT JOIN link l USING (identity, row, part)
    LEFT JOIN given_up d USING (identity, row, part)
    LEFT JOIN newest n ON n.identity = r.identity AND n.attempt = r.attempt
    WHERE if(l.outcome = 'stored', r.attempt = l.attempt, n.identity IS NOT NULL)
        AND r.identity NOT IN (SELECT new_identity FROM lake.requeue)
)"""
_SELECT: Final = f"""{ITEMS}
SELECT item.* EXCLUDE (because, dismissed_by, dismissed_at), s.delivery, s.received_at, s.format,
    if(item.status = 'dismissed', item.because, NULL),
    if(item.status = 'dismissed', item.dismissed_by, NULL),
    if(item.status = 'dismissed', item.dismissed_at, NULL)
FROM item JOIN lake.source s ON s.identity = item.identity AND s.attempt = item.attempt"""


# Days, and instants with their offset from UTC: without one they are UTC, as measurements are.
_TIMES: Final = (
    "[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:?[0-9]{2})?)?"
)
_COUNT_OPEN: Final = f"""{ITEMS}, dated AS (
    SELECT item.reason, s.received_at, regexp_extract_all(item.original, '{_TIMES}') AS times
    FROM item JOIN lake.source s ON s.identity = item.identity AND s.attempt = item.attempt
    WHERE item.status = 'open'
)
SELECT reason, count(*), count(*) FILTER (len(times) = 0) FROM dated
WHERE CASE WHEN len(times) = 0 THEN received_at >= $1
    ELSE len(list_filter(times, each -> coalesce(
        if(length(each) = 10, NULL, try_cast(each AS TIMESTAMP) >= $1
            AND try_cast(each AS TIMESTAMP) < $2),
        each[:10] BETWEEN $3 AND $4))) > 0 END
GROUP BY reason ORDER BY reason"""

# Whether there are any: what they have become since costs more than most commands.
ANY: Final = "SELECT true FROM lake.rejected LIMIT 1"

PLACE: Final = {"identity": "VARCHAR", "row": "BIGINT", "part": "SMALLINT"}


class RowRef(NamedTuple):
    """Where a row came in first; what names it."""

    identity: str
    row: int
    part: int = 0

    def __str__(self) -> str:
        part = f".{self.part}" if self.part else ""
        return f"{self.identity[:SHOWN_DIGITS]}:{self.row}{part}"

    @property
    def uid(self) -> str:
        """The uid that the row gets if it has none."""
        part = f".{self.part}" if self.part else ""
        return f"{self.identity[:32]}-{self.row}{part}"


@dataclass(frozen=True, slots=True)
class RejectedFilter:
    """Which rows are meant; None means all."""

    source: str | None = None
    delivery: str | None = None
    reason: str | None = None
    meter: str | None = None
    uid: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    status: Status | None = "open"

    def conditions(self) -> tuple[list[str], list[Any]]:
        """The SQL of the conditions and the values they are bound to."""
        tests: dict[str, list[Any]] = {
            "(starts_with(item.identity, ?) OR item.name = ?)": [self.source] * 2,
            "item.identity IN (SELECT identity FROM lake.source WHERE delivery = ?)": [
                self.delivery
            ],
            "item.reason = ?": [self.reason],
            "item.meter = ?": [self.meter],
            "item.uid = ?": [self.uid],
            "s.received_at >= ?": [self.since and naive(self.since)],
            "s.received_at < ?": [self.until and naive(self.until)],
            "item.status = ?": [self.status],
        }
        used = {sql: values for sql, values in tests.items() if values[0] is not None}
        return list(used), [value for values in used.values() for value in values]


# What lists are ordered by, beside the places of rows: texts, of which the empty one is no value.
_SORTED: Final = {
    "receivedAt": "strftime(s.received_at, '%Y-%m-%dT%H:%M:%S.%f')",
    "reason": "item.reason",
    "name": "item.name",
    "meter": "coalesce(item.meter, '')",
}
SORTS: Final = tuple(_SORTED)


@dataclass(frozen=True, slots=True)
class RejectedOrder:
    """The order of a list: by a member of `SORTS`, and of rows with the same one by place.

    Rows without a value are the last ones in both directions.
    """

    by: str | None = None
    ascending: bool = True

    @property
    def key(self) -> str:
        """The SQL of what sorts."""
        return _SORTED[self.by] if self.by else "''"

    def sql(self) -> str:
        """What follows ORDER BY."""
        direction = "ASC" if self.ascending else "DESC"
        names = [self.key] if self.by else []
        names += ["item.identity", "item.row", "item.part"]
        return ", ".join([f"({self.key} = '')", *(f"{each} {direction}" for each in names)])

    def behind(self, mark: "RejectedMark") -> tuple[str, list[Any]]:
        """The condition of rows behind one, and its values."""
        sign = ">" if self.ascending else "<"
        empty = f"({self.key} = '')"
        place = f"({self.key}, item.identity, item.row, item.part)"
        return (
            f"({empty} > (? = '') OR {empty} = (? = '') AND {place} {sign} (?, ?, ?, ?))",
            [mark.value, mark.value, mark.value, *mark.place],
        )


class RejectedMark(NamedTuple):
    """A row as the end of a page.

    Attributes:
        place: Where it came in.
        value: What it was sorted by then; it may have changed since.
    """

    place: RowRef
    value: str = ""


IN_PLACE: Final = RejectedOrder()


@dataclass(frozen=True, slots=True)
class RejectedRow:
    """One rejected row; `attempt` is the one that rejected it where it came in."""

    identity: str
    attempt: int
    row: int
    part: int
    name: str
    status: Status
    tries: int
    edited: bool | None
    new_identity: str | None
    new_row: int | None
    reason: str
    field: str | None
    detail: str
    meter: str | None
    uid: str | None
    original: str
    measurement: str | None
    delivery: str
    received_at: datetime
    format: str
    because: str | None = None
    dismissed_by: str | None = None
    dismissed_at: datetime | None = None

    @property
    def place(self) -> RowRef:
        """What names it."""
        return RowRef(self.identity, self.row, self.part)

    def sorted_value(self, order: RejectedOrder) -> str:
        """What it is sorted by, as `RejectedOrder.key` has it."""
        match order.by:
            case "receivedAt":
                return self.received_at.isoformat(timespec="microseconds")
            case "reason":
                return self.reason
            case "name":
                return self.name
            case "meter":
                return self.meter or ""
        return ""

    @property
    def may_change_uid(self) -> bool:
        """Whether an edit may give it another uid without its being counted twice.

        Where the uid was not at fault, the row may come in under it wherever it is delivered again.
        """
        at_fault = {Reason.INVALID_UID, Reason.DUPLICATE_UID}
        return self.measurement is None or self.reason in at_fault

    def to_wire(self) -> dict[str, Any]:
        """The members that lists show."""
        return {
            "id": str(self.place),
            "status": self.status,
            "name": self.name,
            "row": self.row,
            "reason": self.reason,
            "field": self.field,
            "detail": self.detail,
            "meter": self.meter,
            "uid": self.uid,
            "tries": self.tries,
            "receivedAt": self.received_at.replace(tzinfo=UTC),
            "delivery": self.delivery,
            "identity": self.identity,
            "attempt": self.attempt,
            "part": self.part,
            "format": self.format,
            "original": self.original,
            "measurement": self.measurement,
            "because": self.because,
            "dismissedBy": self.dismissed_by,
            "dismissedAt": self.dismissed_at and self.dismissed_at.replace(tzinfo=UTC),
        }


def page(
    connection: duckdb.DuckDBPyConnection,
    filters: RejectedFilter,
    limit: int,
    after: RejectedMark | None = None,
    order: RejectedOrder = IN_PLACE,
) -> list[RejectedRow]:
    """Rows in an order, from behind one of them on."""
    if connection.execute(ANY).fetchone() is None:
        return []
    tests, values = filters.conditions()
    if after is not None:
        behind, place = order.behind(after)
        tests.append(behind)
        values += place
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    query = f"{_SELECT}{where} ORDER BY {order.sql()} LIMIT {limit:d}"
    return [RejectedRow(*row) for row in connection.execute(query, values).fetchall()]


def at(connection: duckdb.DuckDBPyConnection, places: Iterable[RowRef]) -> list[RejectedRow]:
    """The rows at some places, as far as they are rejected, or were requeued."""
    query = f"""{_SELECT} SEMI JOIN wanted w
        ON w.identity = item.identity AND w.row = item.row AND w.part = item.part"""
    with temporary_table(connection, "wanted", PLACE, list(places)):
        rows = connection.execute(query).fetchall()
    return [RejectedRow(*row) for row in rows]


def ever_rejected(connection: duckdb.DuckDBPyConnection, places: Iterable[RowRef]) -> set[RowRef]:
    """Those of the places at which a row was rejected at any time."""
    query = """SELECT DISTINCT identity, row, part FROM lake.rejected
        SEMI JOIN wanted USING (identity, row, part)"""
    with temporary_table(connection, "wanted", PLACE, list(places)):
        rows = connection.execute(query).fetchall()
    return {RowRef(*row) for row in rows}


class OpenRows(NamedTuple):
    """How many rows wait to be mended for one reason.

    Attributes:
        undated: How many of them name no day.
    """

    rows: int
    undated: int


def count_open(
    connection: duckdb.DuckDBPyConnection, month: Month, timezone: tzinfo
) -> dict[str, OpenRows]:
    """How many rows of a month wait to be mended, by reason.

    A row is of the months of the instants and days that its text names; one that names none is
    counted if it came since the month began.

    Args:
        connection: To the lake.
        month: In the time zone.
        timezone: That of the organization.
    """
    if connection.execute(ANY).fetchone() is None:
        return {}
    period = month.period(timezone)
    instants = [naive(period.start), naive(period.end)]
    days = [str(month.first), str(month.after - timedelta(days=1))]
    rows = connection.execute(_COUNT_OPEN, instants + days).fetchall()
    return {reason: OpenRows(*counts) for reason, *counts in rows}


def count_set_aside(
    connection: duckdb.DuckDBPyConnection, filters: RejectedFilter
) -> dict[str, int]:
    """How many of the rows that are meant wait for nobody: withdrawn or dismissed."""
    if connection.execute(ANY).fetchone() is None:
        return {}
    tests, values = replace(filters, status=None).conditions()
    where = " AND ".join(["item.status IN ('dismissed', 'withdrawn')", *tests])
    query = f"""{ITEMS} SELECT item.status, count(*)
        FROM item JOIN lake.source s ON s.identity = item.identity AND s.attempt = item.attempt
        WHERE {where} GROUP BY ALL ORDER BY ALL"""
    return dict(connection.execute(query, values).fetchall())


def count_waiting(connection: duckdb.DuckDBPyConnection, identity: str) -> int:
    """How many rows of a source are rejected, and not withdrawn; those that came in since are not."""
    query = f"""{ITEMS} SELECT count(*) FROM item
        WHERE identity = ? AND status IN ('open', 'dismissed')"""
    [[count]] = connection.execute(query, [identity]).fetchall()
    return int(count)


def meters(connection: duckdb.DuckDBPyConnection) -> set[str]:
    """The codes of meters as rows had them that were rejected at any time."""
    rows = connection.execute(
        "SELECT DISTINCT meter FROM lake.rejected WHERE meter IS NOT NULL"
    ).fetchall()
    return {code for (code,) in rows}


def identities(connection: duckdb.DuckDBPyConnection, prefix: str) -> list[str]:
    """The identities of sources that begin so; two at most."""
    rows = connection.execute(
        "SELECT DISTINCT identity FROM lake.source WHERE starts_with(identity, ?)"
        " ORDER BY ALL LIMIT 2",
        [prefix],
    ).fetchall()
    return [row[0] for row in rows]


def tries(connection: duckdb.DuckDBPyConnection, place: RowRef) -> list[dict[str, Any]]:
    """What became of a row each time that it was looked at, the oldest first."""
    rows = connection.execute(
        _TRIES, {"identity": place.identity, "row": place.row, "part": place.part}
    ).fetchall()
    names = ("at", "name", "identity", "row", "attempt", "requeued", "edited", "author")
    named = (*names, "reason", "detail")
    found = [dict(zip(named, row[: len(named)], strict=True)) for row in rows]
    return [each | {"at": each["at"].replace(tzinfo=UTC)} for each in found]


_TRIES: Final = """
    SELECT s.finished_at, s.name, r.identity, r.row, s.attempt, false, NULL, NULL, r.reason, r.detail,
        0 AS tries
    FROM lake.rejected r JOIN lake.source s USING (identity, attempt)
    WHERE r.identity = $identity AND r.row = $row AND r.part = $part
    UNION ALL
    SELECT s.finished_at, s.name, q.new_identity, q.new_row, s.attempt, true, q.edited,
        q.author, x.reason, x.detail, q.tries
    FROM lake.requeue q JOIN lake.source s ON s.identity = q.new_identity
    LEFT JOIN lake.rejected x ON x.identity = q.new_identity AND x.row = q.new_row
    WHERE q.identity = $identity AND q.row = $row AND q.part = $part
    ORDER BY finished_at, tries, attempt"""
