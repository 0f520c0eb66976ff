"""The verb `explore`: questions about usage, answered from one snapshot of the lake, or shown as SQL."""

import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import duckdb

from meterlake.model.configuration.queries import (
    ROWS_MAX,
    UsageQueryRequest,
    UsageSavedQuery,
    relative_period,
)
from meterlake.model.errors import BadQuery
from meterlake.model.rules.queries import check_dates, check_question
from meterlake.model.values.money import divide
from meterlake.pipeline.explorer.answers import ExplorerAnswer, ExplorerTable
from meterlake.pipeline.explorer.usage_questions import check_ids, questions_of
from meterlake.stages.usage.aggregate import narrow
from meterlake.stages.usage.explore import (
    ACCOUNT_ID,
    FIRST,
    RECEIVED,
    SENT,
    ExplorerScope,
    Question,
    aggregate_query,
    boundary,
    needs_wide,
    newest_first,
    raw,
)
from meterlake.stores import Organization
from meterlake.stores.lake import quantities
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.measurements.rows import MeasurementQuery, read_measurements
from meterlake.stores.lake.tables import columns_at
from meterlake.stores.state.core import account_names
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

# A quoted identifier, in which a sign of dollar means nothing, or a parameter.
_PARAMETER: Final = re.compile(r'"(?:[^"]|"")*"|\$(\w+)')


class Stop:
    """Lets another thread end a question that nobody waits for any more."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: duckdb.DuckDBPyConnection | None = None
        self._why: str | None = None

    def __call__(self, why: str) -> None:
        """End it, now or as soon as it begins, and say why."""
        with self._lock:
            self._why = why
            if self._running is not None:
                self._running.interrupt()

    @contextmanager
    def ending(self, connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """Let the body's statements be ended.

        Raises:
            BadQuery: They were.
        """
        with self._lock:
            self._running = connection
        try:
            self.check()
            yield
        except duckdb.InterruptException:
            raise self._stop_error() from None
        finally:
            with self._lock:
                self._running = None

    def check(self) -> None:
        """Go on only if nobody has ended it; to be called between two statements.

        Raises:
            BadQuery: Somebody has.
        """
        if self._why is not None:
            raise self._stop_error()

    def _stop_error(self) -> BadQuery:
        return BadQuery("query", None, f"{self._why or 'it was ended'}; ask again")


def explore(
    organization: Organization, query: UsageQueryRequest, stop: Stop | None = None
) -> ExplorerAnswer:
    """Answer a question about usage.

    Args:
        organization: The organization.
        query: What is asked.
        stop: Ends it early.

    Raises:
        Invalid: Dates are missing, a meter, a field or an account does not exist, or what is asked
            does not fit them.
        Unavailable: The disk or the memory failed.
    """
    questions, scope = asked(organization, query)
    # One row more than are wanted tells whether there are more.
    return answer(organization, questions, replace(scope, rows=scope.rows + 1), stop)


def asked(
    organization: Organization, query: UsageQueryRequest
) -> tuple[list[Question], ExplorerScope]:
    """What a question means: of each meter, and which measurements.

    Raises:
        Invalid: As `explore` says.
    """
    period = check_dates(query.start_date, query.end_date)
    with organization.reading() as reader:
        configuration = StoredConfiguration(reader)
        check_ids(query, reader, configuration)
        check_question(query, configuration)
        questions = questions_of(query, configuration)
    return questions, ExplorerScope(period, query.limit or ROWS_MAX, query.account_ids or None)


def explore_saved(organization: Organization, id: str, stop: Stop | None = None) -> ExplorerAnswer:
    """Answer a saved question; its relative time is that of now.

    Raises:
        NotFound: There is none of that id.
        Invalid: It does not fit the meters any more.
    """
    with organization.reading() as reader:
        query = reader.get(UsageSavedQuery, id).entity.usage_query
    if query.time_period is not None:
        period = relative_period(query.time_period, organization.now())
        if period.start == period.end:
            return ExplorerAnswer((), more=False)  # Today, at midnight.
        query = query.model_copy(update={"start_date": period.start, "end_date": period.end})
    return explore(organization, query, stop)


def answer(
    organization: Organization,
    questions: Sequence[Question],
    scope: ExplorerScope,
    stop: Stop | None = None,
) -> ExplorerAnswer:
    """Answer questions of one kind, all of them from one snapshot.

    Args:
        organization: The organization.
        questions: One for each meter; all with folds, or none.
        scope: Which measurements; `rows` is one more than are wanted.
        stop: Ends it early.
    """
    lake, stop = organization.explored_lake, stop or Stop()
    if not questions or not questions[0].rollups:
        with reading(lake, stop) as snapshot:
            found, more, order = _raw(snapshot, questions, scope)
        return ExplorerAnswer(tables_of(organization, found), more, order)
    with reading(lake, stop) as snapshot:
        rollups = aggregate_meters(snapshot, questions, scope, wide=False)
    if rollups is None:
        with reading(lake, stop) as snapshot:
            rollups = aggregate_meters(snapshot, questions, scope, wide=True)
        assert rollups is not None, "wide sums do not overflow"
    more = sum(len(rows) for _, rows in rollups) == scope.rows
    most = scope.rows - 1
    first_rows = []
    for question, rows in rollups:
        first_rows.append((question, rows[:most]))
        most -= len(first_rows[-1][1])
    return ExplorerAnswer(tables_of(organization, first_rows), more)


Found = tuple[Question, list[tuple[Any, ...]]]


class Snapshot:
    """The lake as it was at one moment, and the columns that its tables had then."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, stop: Stop) -> None:
        self._connection = connection
        self._stop = stop
        self._columns: dict[str, set[str]] = {}
        rows = connection.execute(
            "SELECT table_name, column_name FROM duckdb_columns() WHERE database_name = 'lake'"
        )
        for table, column in rows.fetchall():
            self._columns.setdefault(table, set()).add(column)

    def columns(self, question: Question, snapshot: int | None = None) -> set[str]:
        """The columns of a meter's table; none if nothing was ever ingested for it.

        Args:
            question: What is asked of the meter.
            snapshot: As of an earlier one.
        """
        if snapshot is not None:
            return columns_at(self._connection, question.table, snapshot)
        return self._columns.get(question.table, set())

    def rows(self, sql: str, parameters: dict[str, Any]) -> list[tuple[Any, ...]] | None:
        """The rows of a query; None if one of its sums has too many digits."""
        self._stop.check()
        return quantities.rows(self._connection, sql, parameters)

    def measurements(self, query: MeasurementQuery, limit: int) -> list[dict[str, Any]]:
        """The first measurements of a query, with file and row."""
        self._stop.check()
        return read_measurements(self._connection, query, limit)


@contextmanager
def reading(lake: Lake, stop: Stop) -> Iterator[Snapshot]:
    """Read one snapshot; what is committed meanwhile is not seen.

    Raises:
        BadQuery: Somebody ended it.
    """
    with lake.reader() as connection, stop.ending(connection):
        connection.execute("BEGIN")
        yield Snapshot(connection, stop)
        connection.execute("ROLLBACK")


def aggregate_meters(
    snapshot: Snapshot, questions: Iterable[Question], scope: ExplorerScope, *, wide: bool
) -> list[Found] | None:
    """The first rows of all meters; None if sums among them have to be wide.

    The transaction has failed then, at least where DuckDB found it: ask again in a new one.
    """
    found: list[Found] = []
    left = scope.rows
    for question in questions:
        present = snapshot.columns(question, scope.snapshot)
        if not present or not left:
            continue
        rows = snapshot.rows(
            *aggregate_query(question, present, replace(scope, rows=left), wide=wide)
        )
        if rows is None or (needs_wide(rows) and not wide):
            return None
        left -= len(rows)
        found.append((question, combine_rows(rows)))
    return found


def combine_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The values of the rows of a `folded` query: sums put together, means divided."""
    # Most questions have neither, which the first row tells.
    if not any(isinstance(value, dict) for row in rows[:1] for value in row):
        return [row[FIRST:] for row in rows]
    return [tuple(map(_value, row[FIRST:])) for row in rows]


def _value(value: Any) -> Any:
    found = narrow(value)
    if not isinstance(found, dict):
        return found
    return divide(found["sum"], Decimal(found["count"])) if found["count"] else None


def _raw(
    snapshot: Snapshot, questions: Sequence[Question], scope: ExplorerScope
) -> tuple[list[Found], bool, tuple[tuple[int, int], ...]]:
    """The newest rows of all meters together, whether there are more, and their order."""
    newest: list[tuple[tuple[int, int, str], int, tuple[Any, ...]]] = []
    for number, question in enumerate(questions):
        present = snapshot.columns(question, scope.snapshot)
        if not present:
            continue
        ends = snapshot.rows(*boundary(question, present, scope))
        near = replace(scope, since=ends[0]) if ends else scope
        rows = snapshot.rows(*raw(question, present, near)) or []
        newest += [(newest_first(row), number, row) for row in rows]
        newest = sorted(newest)[: scope.rows]
        if len(newest) == scope.rows:
            # What comes after all of these is not among the newest.
            last = newest[-1][2]
            scope = replace(scope, since=(last[RECEIVED], last[SENT]))
    found: list[Found] = [(question, []) for question in questions]
    order = []
    for _, number, row in newest[: scope.rows - 1]:
        order.append((number, len(found[number][1])))
        found[number][1].append(row)
    return found, len(newest) == scope.rows, tuple(order)


def tables_of(organization: Organization, found: Sequence[Found]) -> tuple[ExplorerTable, ...]:
    """The rows with the codes of their accounts beside the ids."""
    places = {id(question): account_column(question) for question, _ in found}
    ids = {
        row[column]
        for question, rows in found
        if (column := places[id(question)]) is not None
        for row in rows
    }
    names: dict[str, account_names.AccountName] = {}
    if ids:
        with organization.reading() as reader:
            names = account_names.by_id(reader, ids)
    codes = {name.id: name.code for name in names.values()}
    return tuple(add_codes(question, rows, codes) for question, rows in found)


def account_column(question: Question) -> int | None:
    """Where the id of the account is in the rows of a question, if it is there."""
    return question.keys.index(ACCOUNT_ID) if ACCOUNT_ID in question.keys else None


def add_codes(
    question: Question, rows: list[tuple[Any, ...]], codes: Mapping[str, str]
) -> ExplorerTable:
    """The rows of a question as the answer has them, with the codes of their accounts."""
    column = account_column(question)
    fixed = {"meterId": question.meter_id, "meter": question.meter}
    if column is None:
        return ExplorerTable(fixed, question.keys, rows)
    after = column + 1
    keys = (*question.keys[:after], "account", *question.keys[after:])
    named = [(*row[:after], codes.get(row[column]), *row[after:]) for row in rows]
    return ExplorerTable(fixed, keys, named)


# Who reads the statement of a folded question finds a column that is in no answer.
GUARD_COMMENT: Final = (
    "-- large: whether numbers are too large for quick sums; meterlake sums them with\n"
    "-- more digits then. It is no part of the answer.\n"
)


def statements(
    organization: Organization, query: UsageQueryRequest, stop: Stop
) -> list[dict[str, str]]:
    """What a question asks of the lake: one statement for each meter that has measurements.

    Raises:
        Invalid: As `explore` says.
    """
    questions, scope = asked(organization, query)
    found = []
    with reading(organization.explored_lake, stop) as snapshot:
        for each in questions:
            present = snapshot.columns(each)
            if present:
                ask = aggregate_query if each.rollups else raw
                sql, parameters = ask(each, present, scope)
                comment = GUARD_COMMENT if each.rollups else ""
                shown = comment + with_values(sql, parameters)
                found.append({"meter": each.meter, "sql": shown})
    return found


def with_values(sql: str, parameters: Mapping[str, Any]) -> str:
    """A statement with its parameters written out.

    >>> print(with_values('SELECT "a$b" WHERE x = $b', {"b": "eu"}))
    SELECT "a$b" WHERE x = 'eu'
    """

    def written(found: re.Match[str]) -> str:
        name = found[1]
        return _literal(parameters[name]) if name in parameters else found[0]

    return _PARAMETER.sub(written, sql)


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, datetime):
        return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, str):
        quoted = value.replace("'", "''")
        return f"'{quoted}'"
    return str(value)
