"""Lakes go to another place with their whole history (`move_lakes`), or into other shards (`shard_lake`).

A move takes files first, while everybody works; then, with all writers held off, what came since, the catalogs,
and the comparison of both. The settings of the home change last: whatever fails before that changes
nothing, and whatever is killed goes on when it is run again.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.errors import Busy, CannotMove, NotFound
from meterlake.model.values.failpoint import mark_step
from meterlake.settings import Settings
from meterlake.stores import Organization, Stores
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.home_settings import change_together, shared_settings
from meterlake.stores.lake.backends.location import lake_folder, open_lake
from meterlake.stores.lake.moves.lake_move import (
    LakeContents,
    LakeLocation,
    LakeMove,
    MoveRecord,
    forget_record,
    read_record,
    write_record,
)
from meterlake.stores.lake.uid_shards import change_shards, check_shards
from meterlake.stores.state import OrganizationRecord
from meterlake.stores.state.billing.calculations.pins import pinned_snapshots

_LOCK: Final = ".move-lake.lock"
_REMOVE: Final = "`meterlake move-lake --remove-source` removes what an earlier move left"


@dataclass(frozen=True, slots=True)
class MovedLake:
    """What there is to move of an organization's lake, or was moved."""

    organization: str
    contents: LakeContents

    def to_wire(self) -> dict[str, Any]:
        """The line of `--json`."""
        return {
            "organization": self.organization,
            "files": self.contents.files,
            "bytes": self.contents.size_bytes,
            "sent": self.contents.sent_files,
            "catalogRows": self.contents.catalog_rows,
            "snapshot": self.contents.snapshot,
        }


def plan_move(stores: Stores, target: Settings) -> list[MovedLake]:
    """Say what a move would copy; nothing is changed.

    Raises:
        CannotMove: The lakes cannot go there.
        Unavailable: The target cannot be reached.
    """
    with _opened_moves(stores, target) as moves:
        _check_target(stores, moves, read_record(stores.home), LakeLocation.of(target))
        return _describe(moves)


def move_lakes(stores: Stores, target: Settings, *, remove_source: bool = False) -> list[MovedLake]:
    """Move all lakes of a home, and have its settings say so.

    Args:
        stores: The home's stores.
        target: The home's settings as they will be: another lake, another catalog.
        remove_source: Whether the lakes go where they were.

    Returns:
        What was moved; nothing where an earlier run had ended it but for its last note.

    Raises:
        CannotMove: The lakes cannot go there, or did not arrive as they were.
        Busy: Somebody else moves them, or writes for a minute.
        Unavailable: A store, a database or the disk failed.
    """
    refusal = Busy("move-lake", "another process moves the lakes of this home; try again later")
    with hold_lock(stores.home / _LOCK, refusal):
        if not _is_done(stores, target):
            with _opened_moves(stores, target) as moves:
                location = LakeLocation.of(target)
                _check_target(stores, moves, read_record(stores.home), location)
                ids = tuple(each.id for each in _sorted_organizations(stores) if each.code in moves)
                record = MoveRecord(LakeLocation.of(stores.settings), location, ids)
                write_record(stores.home, record)
                mark_step("move.begun")
                done = _move(stores, moves, record, target)
                if remove_source:
                    _remove(stores, moves)
            return done
        if remove_source:
            _remove_former(stores)
        return []


def remove_former(stores: Stores) -> int:
    """Remove the lakes where the last move left them; the number of files.

    Raises:
        CannotMove: There was no move, or it is not done.
    """
    refusal = Busy("move-lake", "another process moves the lakes of this home; try again later")
    with hold_lock(stores.home / _LOCK, refusal):
        return _remove_former(stores)


def _is_done(stores: Stores, target: Settings) -> bool:
    """Whether the home has its lakes there, by a move of ours.

    Raises:
        CannotMove: It always had them there.
    """
    location, record = LakeLocation.of(target), read_record(stores.home)
    if location != LakeLocation.of(stores.settings):
        return False
    if record is None or record.target != location:
        raise CannotMove(f"the lakes are there already: {location}; name another place")
    record.finish(stores.home)
    return True


@contextmanager
def _opened_moves(stores: Stores, target: Settings) -> Iterator[dict[str, LakeMove]]:
    """The move of each lake of the home, by the code of its organization."""
    before, after = LakeLocation.of(stores.settings), LakeLocation.of(target)
    if before == after:
        raise CannotMove(f"the lakes are there already: {after}; name another place")
    if before.catalog == after.catalog:
        rule = "name another database with --catalog"
        raise CannotMove(f"files and catalog go together, and the catalog would stay: {rule}")
    if lake_folder(stores.settings, "x") != lake_folder(target, "x"):
        former, folder = lake_folder(stores.settings, "x").parent, lake_folder(target, "x").parent
        rule = f"stop all processes, move {former} to {folder}, and change the setting `lake`"
        raise CannotMove(f"segments and sources of this machine would stay: {rule}")
    text = str(LakeLocation.of(target))
    found = {
        each.code: LakeMove(open_lake(stores.settings, each.id), open_lake(target, each.id), text)
        for each in _sorted_organizations(stores)
    }
    try:
        yield {code: move for code, move in found.items() if move.source.catalog.exists()}
    finally:
        for move in found.values():
            move.close()


def _sorted_organizations(stores: Stores) -> list[OrganizationRecord]:
    return sorted(stores.state.organizations(), key=lambda each: each.id)


def _check_target(
    stores: Stores,
    moves: dict[str, LakeMove],
    record: MoveRecord | None,
    location: LakeLocation,
) -> None:
    """Refuse a target that has lakes which no earlier run of this move left there."""
    ours: tuple[str, ...] = ()
    if record is not None and not record.done and record.target == location:
        ours = record.organizations
    ids = {each.code: each.id for each in stores.state.organizations()}
    for code, move in moves.items():
        if ids[code] not in ours and move.target.catalog.exists():
            raise CannotMove(f"there is a catalog of {code} at {location} already; {_REMOVE}")


def _move(
    stores: Stores, moves: dict[str, LakeMove], record: MoveRecord, target: Settings
) -> list[MovedLake]:
    for move in moves.values():
        move.copy_files(locked=False)
    with ExitStack() as locks:
        for move in moves.values():
            locks.enter_context(move.lock())
        for org_id, move in zip(record.organizations, moves.values(), strict=True):
            move.copy_files(locked=True)
            move.copy_catalog()
            move.compare(pinned_snapshots(stores.state, org_id))
        done = _describe(moves)
        _switch(stores, list(moves.values()), target)
        mark_step("move.switched")
    record.finish(stores.home)
    return done


def _switch(stores: Stores, moves: Sequence[LakeMove], target: Settings) -> None:
    """Change the settings of the home while nobody can write, neither here nor there."""
    try:
        for move in moves:
            move.retire()
        _check_complete(stores, len(moves))
        change_together(stores.settings, {"lake": target.lake, "catalog": target.catalog})
    except BaseException:
        found = shared_settings(stores.settings)
        if LakeLocation(found.get("lake"), found.get("catalog")) != LakeLocation.of(target):
            for move in moves:
                move.restore()
        raise


def _check_complete(stores: Stores, moved: int) -> None:
    lakes = (stores.lake(each.id) for each in stores.state.organizations())
    if sum(lake.catalog.exists() for lake in lakes) != moved:
        raise CannotMove("an organization came meanwhile; run it again")


def _describe(moves: dict[str, LakeMove]) -> list[MovedLake]:
    return [MovedLake(code, move.contents()) for code, move in moves.items()]


def _remove_former(stores: Stores) -> int:
    record = read_record(stores.home)
    if record is None or not record.done or record.target != LakeLocation.of(stores.settings):
        raise CannotMove("no move has left anything that could be removed; move the lakes first")
    former = record.source.to_settings(stores.settings)
    text = str(record.target)
    moves = {
        each: LakeMove(open_lake(former, each), open_lake(stores.settings, each), text)
        for each in record.organizations
    }
    try:
        return _remove(stores, moves)
    finally:
        for move in moves.values():
            move.close()


def _remove(stores: Stores, moves: dict[str, LakeMove]) -> int:
    removed = sum(move.remove_source() for move in moves.values())
    forget_record(stores.home)
    return removed


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


def shard_lake(organization: Organization, shards: int) -> ShardedLake:
    """Have an organization's lake compare uids in so many shards; 1 makes it whole again.

    Safe to repeat, and beside everything else; what was killed goes on.

    Raises:
        Invalid: No lake can have as many.
        NotFound: The lake does not exist.
        Unavailable: The disk or the lake failed.
    """
    check_shards(shards)
    lake = organization.lake
    if not lake.catalog.exists():
        raise NotFound("lake", organization.id)
    rows = change_shards(lake, shards)
    return ShardedLake(shards, sum(rows), min(rows), max(rows), lake.snapshot())
