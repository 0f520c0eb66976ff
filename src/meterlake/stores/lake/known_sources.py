"""Which sources a lake's ledger knows, by hash: in memory, and good for one snapshot only.

The ledger's newest rows live in the catalog, where a look for one identity reads them all. Nearly
every source is new, and of a new one nothing need be read.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import duckdb
import numpy as np
from numpy.typing import NDArray
from polars import Series

from meterlake.model.measurements.receipt import UNKNOWN, History
from meterlake.stores.lake import ledger
from meterlake.stores.lake.connection import open_cursor

# With more sources than that the ledger itself is asked: 8 bytes each are held in memory.
_SOURCES_MAX: Final = 1 << 22


class KnownSources:
    """The sources of one lake, for as long as the process has it open.

    Args:
        identify: What tells a snapshot from another one of the same number.
    """

    def __init__(self, identify: Callable[[int], str] = lambda _: "") -> None:
        self._identify = identify
        self._snapshot = -1
        self._identity = ""
        self._sorted = np.empty(0, np.uint64)
        self._latest: set[int] = set()

    def history(
        self, connection: duckdb.DuckDBPyConnection, snapshot: int, identity: str, delivery: str
    ) -> History:
        """What `ledger.history` says, without asking the ledger about a source that is new.

        Args:
            connection: A connection to the lake.
            snapshot: The newest snapshot, or the one of the connection's transaction.
            identity: The source.
            delivery: The arrival that is asked about.
        """
        if self._snapshot >= 0 and self._identify(self._snapshot) != self._identity:
            self._snapshot = -1
        if snapshot != self._snapshot:
            self._learn(connection, snapshot)
            self._identity = self._identify(snapshot)
        if self._may_hold(identity):
            return ledger.history(connection, identity, delivery)
        return UNKNOWN

    def is_new(self, identity: str) -> bool:
        """Whether the source was new at the last look; never before the first one."""
        return self._snapshot >= 0 and not self._may_hold(identity)

    def add_commit(self, before: int, snapshot: int, identity: str) -> None:
        """Add what a commit brought that took the lake from snapshot `before` to `snapshot`."""
        if self._snapshot == before and snapshot == before + 1:
            self._latest.add(_hashes(Series([identity]))[0].item())
            self._snapshot, self._identity = snapshot, self._identify(snapshot)

    def _may_hold(self, identity: str) -> bool:
        if len(self._sorted) + len(self._latest) > _SOURCES_MAX:
            return True
        identity_hash = _hashes(Series([identity]))[0]
        index = int(np.searchsorted(self._sorted, identity_hash))
        here = index < len(self._sorted) and self._sorted[index] == identity_hash
        return bool(here) or identity_hash.item() in self._latest

    def _learn(self, connection: duckdb.DuckDBPyConnection, snapshot: int) -> None:
        if 0 <= self._snapshot < snapshot:
            since = f"ducklake_table_insertions('lake', 'main', 'source', {self._snapshot + 1},"
            # The question may fail, and that would abort a transaction: it is asked beside it.
            with open_cursor(connection) as cursor, suppress(duckdb.InvalidInputException):
                self._latest.update(_identities(cursor, f"{since} {snapshot})").tolist())
                self._snapshot = snapshot
                return
        # The first look, or a snapshot in between has expired.
        self._sorted = np.sort(_identities(connection, "lake.source"))
        self._latest = set()
        self._snapshot = snapshot


def _identities(connection: duckdb.DuckDBPyConnection, table: str) -> NDArray[np.uint64]:
    query = f"SELECT identity FROM {table} LIMIT {_SOURCES_MAX + 1}"
    return _hashes(connection.execute(query).pl()["identity"])


def _hashes(identities: Series) -> NDArray[np.uint64]:
    found: NDArray[Any] = identities.hash().to_numpy()
    return found.astype(np.uint64, copy=False)
