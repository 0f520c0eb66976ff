"""Runs custom SQL over the measurements of one account, and ends it after a time."""

from collections import defaultdict
from decimal import Decimal, InvalidOperation
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Self

from meterlake.model.custom_sql import InvalidSql, check_result
from meterlake.stores.custom_sql.process import LIMITS, Ended, Process, SqlLimits

if TYPE_CHECKING:  # It takes long to import; hardly any organization has SQL of its own.
    import pyarrow as pa

# To hand over the measurements of one account, however busy the machine is.
_ROWS_S: Final = 60
_DIGITS_MAX: Final = 64


class Sandbox:
    """Runs checked queries over `measurements`; a context manager, for one thread.

    One process serves all accounts, as long as it lives: a query is planned once there. It starts
    with the first value that is asked for; where it had to be killed, another one takes its place.
    """

    def __init__(self, limits: SqlLimits = LIMITS) -> None:
        self.limits = limits
        self._process: Process | None = None
        self._rows: pa.Table | None = None
        self._there = False
        self._spent: dict[str, float] = defaultdict(float)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def pid(self) -> int | None:
        """The id of the process that runs the queries, if there is one."""
        return None if self._process is None else self._process.pid

    def put(self, rows: "pa.Table") -> None:
        """Put measurements in the place of those that were there."""
        self._rows = rows
        self._there = False

    def value(self, sql: str, aggregation_id: str = "") -> Decimal | None:
        """What a checked query gives for the measurements; None if that is NULL.

        Args:
            sql: The query.
            aggregation_id: Whose time for all accounts it takes.

        Raises:
            InvalidSql: It cannot be run, takes too much time or memory, or gives something else
                than one row with one exact number.
            Unavailable: There can be no process to run it.
        """
        left = self.limits.run_seconds - self._spent[aggregation_id]
        if left <= 0:
            raise self._all_too_long()
        seconds = min(self.limits.seconds, left)
        # The process, with the measurements.
        if self._process is None:
            self._process = Process("run", self.limits.memory)
        if self._rows is not None and not self._there:
            try:
                self._process.ask("table", _ROWS_S, self._rows)
            except Ended:
                self._end()
                raise
        self._there = True
        process = self._process
        start = monotonic()
        try:
            answer = process.ask("value", seconds, sql=sql)
        except Ended:
            self._end()
            if seconds < self.limits.seconds and monotonic() - start >= seconds:
                raise self._all_too_long() from None
            raise
        finally:
            self._spent[aggregation_id] += monotonic() - start
        return _value(answer)

    def _all_too_long(self) -> InvalidSql:
        whole = f"{self.limits.run_seconds:g} s"
        return InvalidSql(f"it takes longer than {whole} for all accounts of the run together")

    def _end(self) -> None:
        if self._process is not None:
            self._process.close()
        self._process, self._there = None, False


def _value(answer: dict[str, Any]) -> Decimal | None:
    check_result(answer["types"])
    rows = answer["rows"]
    if len(rows) != 1:
        raise InvalidSql(f"it gives {'no row' if not rows else 'several rows'}, not one")
    [text] = rows
    if text is None:
        return None
    try:
        value = Decimal(text[:_DIGITS_MAX])
    except InvalidOperation:
        raise InvalidSql("it gives no number") from None
    return value
