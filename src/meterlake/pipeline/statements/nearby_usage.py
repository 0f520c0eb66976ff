"""The measurements that lines of a bill share, copied out of the lake once instead of read for each line."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import duckdb

from meterlake.model.values.period import naive
from meterlake.model.values.sql import identifier
from meterlake.pipeline.billing.line_usage import LineUsage
from meterlake.stages.usage import aggregate
from meterlake.stores.lake.connection import translate_errors

# A copy costs as much as two or three lines that read the lake.
LINES_MIN: Final = 3
# More are read where they are: a copy of them would take memory.
MEASUREMENTS_MAX: Final = 100_000
_Key = tuple[str, int]


class NearbyUsage:
    """What stands for the tables of meters while the lines of one bill are read."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, usages: Iterable[LineUsage]) -> None:
        self._connection = connection
        self._usages: dict[_Key, list[LineUsage]] = defaultdict(list)
        for each in usages:
            self._usages[each.meter_id, each.snapshot].append(each)
        self._tables: dict[_Key, str] = {}

    def table(self, usage: LineUsage) -> str:
        """The SQL of the measurements among which those of a line are, at the line's snapshot.

        Raises:
            Unavailable: The lake failed.
        """
        key = usage.meter_id, usage.snapshot
        if key not in self._tables:
            self._tables[key] = self._copy(key)
        return self._tables[key]

    def _copy(self, key: _Key) -> str:
        """The table of a meter, or a copy of what lines need of it where that is little."""
        usages, stored = self._usages[key], aggregate.table(*key)
        if len(usages) < LINES_MIN:
            return stored
        name = identifier(f"nearby_{len(self._tables)}")
        periods = [each.period for each in usages]
        bound = {
            "accounts": _accounts(usages),
            "start": naive(min(each.start for each in periods)),
            "end": naive(max(each.end for each in periods)),
        }
        query = f"""CREATE TEMP TABLE {name} AS FROM {stored}
            WHERE account_id IN (SELECT unnest($accounts)) AND ts >= $start AND ts < $end
            LIMIT {MEASUREMENTS_MAX + 1}"""
        with translate_errors():
            self._connection.execute(query, bound)
            [[count]] = self._connection.execute(f"SELECT count(*) FROM {name}").fetchall()
            if count <= MEASUREMENTS_MAX:
                return f"temp.{name}"
            self._connection.execute(f"DROP TABLE temp.{name}")
        return stored


def _accounts(usages: Sequence[LineUsage]) -> list[str]:
    """Whose measurements count for some lines."""
    own = {each.account_id for each in usages if not each.pool}
    pooled = {account_id for each in usages for _, account_id, _ in each.pool}
    return sorted(own | pooled)
