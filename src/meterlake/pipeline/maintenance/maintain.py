"""Upkeep of an organization's lake and of its events: the verb `maintain`."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from meterlake.pipeline.backfill.job import FOLDER, LOCKS
from meterlake.stores import Organization
from meterlake.stores.lake.maintenance import (
    compact,
    expire_snapshots,
    remove_orphans,
    remove_replaced,
    remove_stale,
)
from meterlake.stores.lake.uid_shards import empty_former
from meterlake.stores.state.billing.calculations.pins import pinned_snapshots
from meterlake.stores.state.events.log import remove_events
from meterlake.stores.state.ingest.backfills import Backfills

AUTHOR: Final = "maintenance"
# Events of one transaction: other writers of State wait for as long as it takes.
_BATCH: Final = 1000
# No query and no ingest of one file takes a day. DuckLake compares whole days only (in a SQLite
# catalog `2026-10-01 23:00` is text, and less than `2026-10-01T01:00`): two make sure of one.
_REPLACED_KEPT: Final = timedelta(days=2)
_STAGING_KEPT: Final = timedelta(hours=24)
# An export that failed can be continued from what it staged.
_EXPORTS_KEPT: Final = timedelta(days=7)


def forget_events(organization: Organization) -> int:
    """Remove the events that are older than the setting says; how many that were.

    Raises:
        Unavailable: State cannot be reached.
    """
    before = organization.now() - timedelta(days=organization.settings.event_days)
    count, removed = 0, _BATCH
    while removed == _BATCH:
        with organization.transaction(AUTHOR) as transaction:
            removed = remove_events(transaction, before, _BATCH)
        count += removed
    return count


@dataclass(frozen=True, slots=True)
class Maintained:
    """What was removed and compacted: counts of files, for `staging_removed` also of folders."""

    snapshots_expired: int
    compacted_files: int
    replaced_removed: int
    orphans_removed: int
    staging_removed: int
    events_removed: int
    snapshot: int

    def to_wire(self) -> dict[str, Any]:
        """The line of `--json`."""
        return {
            "snapshotsExpired": self.snapshots_expired,
            "compactedFiles": self.compacted_files,
            "replacedRemoved": self.replaced_removed,
            "orphansRemoved": self.orphans_removed,
            "stagingRemoved": self.staging_removed,
            "eventsRemoved": self.events_removed,
            "snapshot": self.snapshot,
        }


def maintain(
    organization: Organization,
    *,
    kept_for: timedelta = _REPLACED_KEPT,
    snapshots_for: timedelta | None = None,
) -> Maintained:
    """Compact a lake and remove what nobody needs any more; safe beside ingest and readers.

    Events that are older than the setting says go, too.

    Args:
        organization: The organization.
        kept_for: How long replaced files stay for queries that began before.
        snapshots_for: How long snapshots stay that nothing pins; the setting when None.

    Raises:
        Unavailable: The disk or the lake failed.
    """
    lake = organization.lake
    age = snapshots_for
    if age is None:
        age = timedelta(days=organization.settings.snapshot_days)
    with lake.lock():
        expired = expire_snapshots(lake, age, pinned_snapshots(organization.state, organization.id))
        orphans = remove_orphans(lake)
        compacted = compact(lake)
        replaced = remove_replaced(lake, kept_for)
        staging = remove_stale(lake.staging, _STAGING_KEPT)
        empty_former(lake.cache, lake.shards)
    staging += remove_stale(organization.stores.home / "staging" / "exports", _EXPORTS_KEPT)
    staging += remove_stale(organization.lake_folder / "inbox", _STAGING_KEPT)
    # The row of a backfill comes before its folder, and stays.
    known = {LOCKS, *Backfills(organization.state, organization.id).ids()}
    staging += remove_stale(lake.folder / FOLDER, _STAGING_KEPT, known)
    events = forget_events(organization)
    return Maintained(expired, compacted, replaced, orphans, staging, events, lake.snapshot())
