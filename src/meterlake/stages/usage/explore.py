"""Questions about the measurements of one meter as SQL: raw rows, or folded fields by groups.

Names of tables and columns are quoted identifiers, everything else that people chose is a bound
parameter. An answer's order never depends on how the lake's files lie or on threads.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import Any, Final, NamedTuple, Protocol

from meterlake.model.bills.bill import Query
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.period import Period, naive
from meterlake.model.values.sql import any_large, identifier, local_time, naive_utc


class Reducing(Protocol):
    """SQL that folds the values `{v}` of a column, and what does so whatever the sum is."""

    @property
    def sql(self) -> str:
        """One aggregate."""

    @property
    def wide(self) -> str | None:
        """The same where a sum may have more than 38 digits; None if there is no sum."""


class StoredField(NamedTuple):
    """A field of a meter: its key in answers, its column in the lake, and the column's type."""

    key: str
    column: str
    type: str


class Unit(StrEnum):
    """Calendar units; a week begins on Monday."""

    HOUR = "HOUR"
    DAY = "DAY"
    WEEK = "WEEK"
    MONTH = "MONTH"
    QUARTER = "QUARTER"
    YEAR = "YEAR"


class Group(NamedTuple):
    """What measurements are grouped by: the key in answers, and SQL over the measurement `m`."""

    key: str
    sql: str
    newest_first: bool = False


ACCOUNT_ID: Final = "accountId"
BY_ACCOUNT: Final = Group(ACCOUNT_ID, "m.account_id")


def by_time(unit: Unit, timezone: tzinfo = UTC) -> Group:
    """Groups of one calendar unit of a zone; the answer has the instant at which each begins.

    The hour that clocks repeat in autumn is two groups.
    """
    word = unit.value.lower()
    begin = f"date_trunc('{word}', m.ts)"
    if str(timezone) != "UTC" and unit is not Unit.HOUR:
        begin = naive_utc(f"date_trunc('{word}', {local_time('m.ts', timezone)})", timezone)
    return Group(word, begin, newest_first=True)


def by_field(field: StoredField) -> Group:
    """Groups of one value of a field; measurements without one are a group, too."""
    return Group(field.key, f"m.{identifier(field.column)}")


class FieldRollup(NamedTuple):
    """A folded field: the key in answers, the field, and how."""

    key: str
    field: StoredField
    reducer: Reducing


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of one meter.

    Attributes:
        fields: Its fields; raw rows have all of them.
        filters: Fields, and the values of which a measurement must have one.
        groups: By what folded fields are grouped; different ones.
        rollups: The folded fields; raw rows are asked for if there are none.
        chosen: Groups with the value that a measurement must have of each; None is no value.
    """

    meter_id: str
    meter: str
    fields: tuple[StoredField, ...]
    filters: tuple[tuple[StoredField, tuple[str, ...]], ...] = ()
    groups: tuple[Group, ...] = ()
    rollups: tuple[FieldRollup, ...] = ()
    chosen: tuple[tuple[Group, str | datetime | None], ...] = ()

    @property
    def table(self) -> str:
        """The meter's table in the lake."""
        return meter_table(self.meter_id)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of an answered row, in the order of the query's columns from `FIRST` on."""
        if self.rollups:
            groups = tuple(group.key for group in self.groups)
            return (*groups, *(rollup.key for rollup in self.rollups))
        return (*RAW, *(field.key for field in self.fields))


# Keys of a raw row before its fields, and their columns.
RAW: Final[Mapping[str, str]] = {
    "uid": "uid",
    ACCOUNT_ID: "account_id",
    "ts": "ts",
    "ets": "ets",
    "receivedAt": "received_at",
}
RECEIVED: Final = list(RAW).index("receivedAt")
SENT: Final = list(RAW).index("ts")
# The first column of a folded row that is part of the answer.
FIRST: Final = 1


# More rows than any lake has.
ALL_ROWS: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class ExplorerScope:
    """Which measurements of every meter are meant, and the most rows that are wanted of each.

    Attributes:
        period: When; at any time if None.
        rows: How many; `ALL_ROWS` for all of them.
        account_ids: Of which accounts; of all if None. Children are accounts of their own.
        since: Only what was received after the first instant (both naive UTC), or at it with a
            `ts` that is not before the second.
        snapshot: The snapshot of the lake; that of the transaction if None.
        uids: Only the measurements whose uids a query gives; its parameters are those of no other
            condition.
    """

    period: Period | None
    rows: int
    account_ids: tuple[str, ...] | None = None
    since: tuple[datetime, datetime] | None = None
    snapshot: int | None = None
    uids: Query | None = None


_SINCE: Final = "(m.received_at > $received OR (m.received_at = $received AND m.ts >= $sent))"
_LIMIT: Final = "LIMIT $rows"
_NEWEST_FIRST: Final = "ORDER BY m.received_at DESC, m.ts DESC, m.uid"


def aggregate_query(
    question: Question, present: Collection[str], scope: ExplorerScope, *, wide: bool = False
) -> Query:
    """The folded fields of a meter: one row for each group that has measurements.

    Args:
        question: With one or more folds.
        present: The columns that the meter's table has; a field comes to it with the first
            measurements that carry it.
        scope: Which measurements.
        wide: Sum whatever there is, at several times the cost; see `needs_wide`.

    Returns:
        A query whose first column is for `needs_wide`, and the others those of `question.keys`.
    """
    count = len(question.groups)
    selected = [
        f"{_large(question)} AS large",
        *(f"{group.sql} AS g{n}" for n, group in enumerate(question.groups, start=1)),
        *(
            f"{_sql(rollup, wide=wide)} AS a{n}"
            for n, rollup in enumerate(question.rollups, start=1)
        ),
    ]
    source = source_of(question, present, scope)
    where, parameters = conditions(question, scope)
    lines = [f"SELECT {', '.join(selected)}", f"FROM ({source}) AS m", f"WHERE {where}"]
    if count:
        places = [str(n) for n in range(FIRST + 1, FIRST + 1 + count)]
        order = [
            f"{place} {'DESC' if group.newest_first else 'ASC'} NULLS LAST"
            for place, group in zip(places, question.groups, strict=True)
        ]
        lines += [f"GROUP BY {', '.join(places)}", f"ORDER BY {', '.join(order)}"]
    else:
        lines.append("HAVING count(*) > 0")
    lines.append(_LIMIT)
    return Query("\n".join(lines), parameters | _limit(scope))


def large(question: Question, present: Collection[str], scope: ExplorerScope) -> Query:
    """Whether one of the values that a question sums is so large that `folded` has to be wide.

    It tells for all rows at once what `needs_wide` tells of those that are there.
    """
    if not _summed_columns(question):
        return Query("SELECT false", {})
    where, parameters = conditions(question, scope)
    source = source_of(question, present, scope)
    return Query(f"SELECT {_large(question)} FROM ({source}) AS m WHERE {where}", parameters)


def count_query(question: Question, present: Collection[str], scope: ExplorerScope) -> Query:
    """How many measurements of a meter are meant."""
    where, parameters = conditions(question, scope)
    source = source_of(question, present, scope)
    return Query(f"SELECT count(*) FROM ({source}) AS m WHERE {where}", parameters)


def raw(question: Question, present: Collection[str], scope: ExplorerScope) -> Query:
    """The measurements of a meter with all their fields, the newest received first.

    Args:
        question: Without folds.
        present: As for `folded`.
        scope: Which measurements.

    Returns:
        A query whose columns are those of `question.keys`.
    """
    columns = [*RAW.values(), *(field.column for field in question.fields)]
    where, parameters = conditions(question, scope)
    lines = [
        "SELECT " + ", ".join(f"m.{identifier(column)}" for column in columns),
        f"FROM ({source_of(question, present, scope)}) AS m",
        f"WHERE {where}",
        _NEWEST_FIRST,
        _LIMIT,
    ]
    return Query("\n".join(lines), parameters | _limit(scope))


def boundary(question: Question, present: Collection[str], scope: ExplorerScope) -> Query:
    """Where the newest rows of a meter end, to the hour, if it has as many as are wanted.

    DuckDB sorts all rows before it takes the first ten thousands; a count by hour costs a twentieth.

    Returns:
        A query for the `since` of a scope that leaves all rows that `raw` wants, and few more.
    """
    where, parameters = conditions(question, scope)
    lines = [
        "SELECT received_at, hour FROM (",
        "SELECT m.received_at, date_trunc('hour', m.ts) AS hour,",
        "sum(count(*)) OVER (ORDER BY m.received_at DESC, date_trunc('hour', m.ts) DESC) AS rows",
        f"FROM ({source_of(question, present, scope)}) AS m",
        f"WHERE {where}",
        "GROUP BY 1, 2)",
        "WHERE rows >= $rows ORDER BY 1 DESC, 2 DESC LIMIT 1",
    ]
    return Query("\n".join(lines), parameters | _limit(scope))


def values(
    question: Question, field: StoredField | None, present: Collection[str], scope: ExplorerScope
) -> Query:
    """The different values of a field, or the ids of the accounts, in their order."""
    where, parameters = conditions(question, scope)
    column = "m.account_id" if field is None else f"m.{identifier(field.column)}"
    lines = [
        f"SELECT DISTINCT {column} AS value",
        f"FROM ({source_of(question, present, scope)}) AS m",
        f"WHERE {where} AND {column} IS NOT NULL",
        "ORDER BY value",
        _LIMIT,
    ]
    return Query("\n".join(lines), parameters | _limit(scope))


def needs_wide(rows: Sequence[Sequence[Any]]) -> bool:
    """Whether sums among the rows of a `folded` query that is not wide cannot be relied on."""
    return any(row[0] for row in rows)


def newest_first(row: Sequence[Any]) -> tuple[int, int, str]:
    """Sorts raw rows of several meters as `raw` sorts those of one."""
    uid, _, ts, _, received_at = row[: len(RAW)]
    return -_micros(received_at), -_micros(ts), uid


def _micros(instant: datetime) -> int:
    since = instant.replace(tzinfo=UTC) - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def source_of(question: Question, present: Collection[str], scope: ExplorerScope) -> str:
    """The meter's table, with all fields."""
    absent = [field for field in question.fields if field.column not in present]
    more = "".join(
        f", CAST(NULL AS {field.type}) AS {identifier(field.column)}" for field in absent
    )
    pinned = "" if scope.snapshot is None else f" AT (VERSION => {scope.snapshot:d})"
    return f"SELECT *{more} FROM lake.{identifier(question.table)}{pinned}"


def conditions(question: Question, scope: ExplorerScope) -> Query:
    """Which measurements `m` of a meter are meant, as a condition in SQL."""
    parts = ["true"]
    parameters: dict[str, Any] = {}
    if scope.period is not None:
        parts = ["m.ts >= $start", "m.ts < $end"]
        parameters = {"start": naive(scope.period.start), "end": naive(scope.period.end)}
    if scope.account_ids is not None:
        parts.append("m.account_id IN (SELECT unnest(CAST($accounts AS VARCHAR[])))")
        parameters["accounts"] = list(scope.account_ids)
    for n, (field, wanted) in enumerate(question.filters, start=1):
        column = f"m.{identifier(field.column)}"
        parts.append(f"{column} IN (SELECT unnest(CAST($values{n} AS VARCHAR[])))")
        parameters[f"values{n}"] = list(wanted)
    for n, (group, value) in enumerate(question.chosen, start=1):
        parts.append(f"{group.sql} IS NULL" if value is None else f"{group.sql} = $group{n}")
        if value is not None:
            parameters[f"group{n}"] = value
    if scope.since is not None:
        parts.append(_SINCE)
        parameters["received"], parameters["sent"] = scope.since
    if scope.uids is not None:
        parts.append(f"m.uid IN ({scope.uids.sql})")
        parameters |= scope.uids.parameters
    return Query(" AND ".join(parts), parameters)


def _limit(scope: ExplorerScope) -> dict[str, Any]:
    return {"rows": scope.rows}


def _sql(rollup: FieldRollup, *, wide: bool) -> str:
    sql = (rollup.reducer.wide if wide else None) or rollup.reducer.sql
    return sql.replace("{v}", f"m.{identifier(rollup.field.column)}")


def _large(question: Question) -> str:
    return any_large([f"m.{identifier(column)}" for column in _summed_columns(question)])


def _summed_columns(question: Question) -> tuple[str, ...]:
    """The columns that are summed."""
    return tuple(
        dict.fromkeys(rollup.field.column for rollup in question.rollups if rollup.reducer.wide)
    )
