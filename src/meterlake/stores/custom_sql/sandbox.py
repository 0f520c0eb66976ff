"""Runs custom SQL over the measurements of one account, and leaves it after a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, Final, Self

import duckdb

from meterlake.model.custom_sql import MEASUREMENTS, InvalidSql, check_result
from meterlake.stores.custom_sql.locked import LIMITS, Limits, locked_connection, told

if TYPE_CHECKING:  # It takes long to import; hardly any organization has SQL of its own.
    import pyarrow as pa

# What an interrupted query does not notice at once is interrupted again.
_AGAIN_S: Final = 0.05


class Sandbox:
    """Runs checked queries over `measurements`; a context manager, for one thread."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.limits = limits
        self._opened = locked_connection(limits.memory)

    def __enter__(self) -> Self:
        self._connection = self._opened.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def put(self, rows: "pa.Table") -> None:
        """Put measurements in the place of those that were there."""
        self._connection.register(MEASUREMENTS, rows)

    def value(self, sql: str) -> Decimal | None:
        """What a checked query gives for the measurements; None if that is NULL.

        Raises:
            InvalidSql: It cannot be run, takes too much time or memory, or gives something else
                than one row with one exact number.
        """
        rows = self._rows(sql)
        if len(rows) != 1:
            raise InvalidSql(f"it gives {'no row' if not rows else 'several rows'}, not one")
        [value] = rows[0]
        return None if value is None else Decimal(value)

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            with self._interrupted_in_time():
                result = self._connection.execute(sql)
                check_result([str(each[1]) for each in result.description or ()])
                return result.fetchmany(2)
        except duckdb.InterruptException:
            raise InvalidSql(f"it runs longer than {self.limits.seconds:g} s") from None
        except duckdb.OutOfMemoryException:
            raise InvalidSql(f"it needs more memory than {self.limits.memory}") from None
        except (duckdb.Error, OverflowError, ValueError) as error:
            raise told(error) from None

    @contextmanager
    def _interrupted_in_time(self) -> Iterator[None]:
        done = Event()

        def watch() -> None:
            late = not done.wait(self.limits.seconds)
            while late and not done.wait(_AGAIN_S):
                self._connection.interrupt()

        watcher = Thread(target=watch, name="custom-sql-limit", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()
