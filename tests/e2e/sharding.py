"""What a process does that changes the number of a lake's shards between two files."""

from typing import Any

from meterlake.pipeline.maintenance.move_lake import shard_lake
from tests.homes import Home


def sharded(home: Home) -> dict[str, Any]:
    """Have two shards, ingest the files of the inbox, and have three."""
    shard_lake(home.organization, 2)
    home.work()
    done = shard_lake(home.organization, 3)
    return {"shards": home.organization.lake.shards, "known": done.uids}
