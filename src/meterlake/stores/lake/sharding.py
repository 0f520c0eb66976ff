"""How many shards a lake has: changed under its lock, once the new indexes are whole."""

import duckdb

from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.values.failpoint import mark_step
from meterlake.stores.lake.known_uids import KnownUids
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.tables import newest_snapshot
from meterlake.stores.lake.uid_shards import SHARDS_MAX, empty_former, read_shards, write_shards


def check_shards(count: int) -> None:
    """Refuse a number of shards that no lake can have.

    Raises:
        Invalid: It is too small or too large.
    """
    if not 1 <= count <= SHARDS_MAX:
        raise Invalid("shards", count, f"it must be a number from 1 to {SHARDS_MAX}")


def change_shards(lake: Lake, count: int) -> list[int]:
    """Have a lake compare uids in so many shards from now on; safe to repeat.

    Nothing that is stored changes. Indexes that are whole already are not built again.

    Returns:
        How many uids each shard has.

    Raises:
        Invalid: No lake can have as many.
        Unavailable: The disk or the lake failed, or an index lacks a uid; it is built anew then.
    """
    check_shards(count)
    with lake.lock():
        with lake.reader() as connection:
            present = read_shards(connection, lake.catalog.schema)
            rows = _build(lake, connection, count)
        mark_step("shards.built")
        if present != count:
            with lake.transaction() as transaction:
                write_shards(transaction, count)
        lake.forget_shards()
        mark_step("shards.changed")
        empty_former(lake.cache, count)
    return rows


def _build(lake: Lake, connection: duckdb.DuckDBPyConnection, count: int) -> list[int]:
    snapshot = newest_snapshot(connection)
    if count == 1:
        whole = KnownUids(lake.cache, lake.identity)
        whole.refresh(connection, snapshot)
        return [whole.rows]
    built = lake.sharded_uids(count).build(connection, snapshot)
    rows = [each for each in built if each is not None]
    if len(rows) < count:
        lake.sharded_uids(count).forget()
        raise Unavailable("lake", "an index lacks uids that are stored", "run it again")
    return rows
