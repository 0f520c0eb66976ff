"""An organization's lake in another number of shards: the verb `shard_lake`."""

from dataclasses import dataclass
from typing import Any

from meterlake.model.errors import NotFound
from meterlake.stores import Stores
from meterlake.stores.lake.sharding import change_shards, check_shards


@dataclass(frozen=True, slots=True)
class ShardedLake:
    """In how many shards the uids of a lake are; the uids of the smallest and the largest one."""

    shards: int
    uids: int
    smallest: int
    largest: int
    snapshot: int

    def to_wire(self) -> dict[str, Any]:
        """The line of `--json`."""
        return {
            "shards": self.shards,
            "uids": self.uids,
            "smallest": self.smallest,
            "largest": self.largest,
            "snapshot": self.snapshot,
        }


def shard_lake(stores: Stores, org_id: str, shards: int) -> ShardedLake:
    """Have an organization's lake compare uids in so many shards; 1 makes it whole again.

    Safe to repeat, and beside everything else; what was killed goes on.

    Raises:
        Invalid: No lake can have as many.
        NotFound: The lake does not exist.
        Unavailable: The disk or the lake failed.
    """
    check_shards(shards)
    lake = stores.lake(org_id)
    if not lake.catalog.exists():
        raise NotFound("lake", org_id)
    rows = change_shards(lake, shards)
    return ShardedLake(shards, sum(rows), min(rows), max(rows), lake.snapshot())
