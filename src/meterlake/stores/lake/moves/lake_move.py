"""One lake on its way to another place: looked at, copied, compared, and removed where it was.

Whoever moves it holds the locks of both places from the copy of the catalog on.
"""

import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from sqlalchemy import make_url

from meterlake.model.errors import CannotMove, Invalid
from meterlake.model.values import wire
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.sql import identifier
from meterlake.settings import Settings
from meterlake.stores.files.durable import disk, make_folder, sync, write_durably
from meterlake.stores.home_settings import stored_value
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.moves.catalog_rows import compare_rows, copy_rows, open_catalog
from meterlake.stores.lake.moves.file_copies import FileCopies
from meterlake.stores.lake.reconciliation import ControlTotals, control_totals

_SHOWN_MAX: Final = 5
# Of many pinned snapshots, so many are counted again.
_SNAPSHOTS_MAX: Final = 20
_LOCK_S: Final = 60
_FILE: Final = "move-lake.json"
_NAMES: Final = ("lake", "catalog")


@dataclass(frozen=True, slots=True)
class LakeContents:
    """What there is to move of a lake."""

    files: int
    size_bytes: int
    catalog_rows: int
    snapshot: int
    sent_files: int = 0


class LakeMove:
    """A lake, and the place that it goes to.

    Args:
        source: Where it is.
        target: The same organization's lake as it will be.
        description: The target for people, without passwords.
    """

    def __init__(self, source: Lake, target: Lake, description: str) -> None:
        self.source = source
        self.target = target
        self.description = description
        self.moves_files = source.files.root != target.files.root
        self._copies = FileCopies(
            source.files.objects, target.files.objects, source.staging, source.threads
        )

    def contents(self) -> LakeContents:
        """What there is to move now.

        Raises:
            CannotMove: A file lies outside of the folder of its lake.
        """
        with open_catalog(self.source) as catalog:
            files, rows = catalog.files(), catalog.count()
        if not self.moves_files:
            return LakeContents(0, 0, rows, self.source.snapshot())
        # Replaced files may be gone.
        sizes = {each.key: each.size_bytes for each in self.source.files.objects.list()}
        found = [sizes[key] for key in files if key in sizes]
        sent = sum(each.sent for each in self._copies.done.values())
        return LakeContents(len(found), sum(found), rows, self.source.snapshot(), sent)

    def copy_files(self, *, locked: bool) -> None:
        """Copy the files that the catalog names, and read each of them back.

        Args:
            locked: Whether nobody else changes the lake, or upkeep may remove files meanwhile.

        Raises:
            CannotMove: A file is missing or damaged, here or there.
        """
        if not self.moves_files:
            return
        with open_catalog(self.source) as catalog:
            files = catalog.files()
        self._copies.copy(files, may_vanish=not locked)
        if locked:
            self._copies.check(files)
        mark_step("move.files_copied")

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep all writers away from both places while the body runs; neither has to be used yet.

        Raises:
            Busy: Another process writes for a minute.
        """
        make_folder(self.target.folder)
        with self.source.catalog.lock(_LOCK_S), self.target.catalog.lock(_LOCK_S):
            yield

    def copy_catalog(self) -> None:
        """Replace the target's catalog, if there is one, by the source's; under the lock."""
        self.target.catalog.drop()
        self.target.files.create()
        self.target.create_catalog()
        self.target.close_connections()
        mark_step("move.catalog_made")
        root = self.target.files.root
        with open_catalog(self.source) as source, open_catalog(self.target, read_only=False) as own:
            copy_rows(source, own, root)
        mark_step("move.rows_copied")
        self.target.catalog.guard()
        self.target.catalog.mark_moved(None)

    def compare(self, pinned: Collection[int]) -> ControlTotals:
        """Compare both catalogs row by row, and what the lakes say at the same snapshots.

        Args:
            pinned: Snapshots that somebody may read again.

        Returns:
            The control totals of both.

        Raises:
            CannotMove: Something differs.
        """
        with open_catalog(self.source) as source, open_catalog(self.target) as own:
            found = list(compare_rows(source, own, self.target.files.root))
        if found:
            raise CannotMove(
                f"the catalogs differ: {'; '.join(found[:_SHOWN_MAX])};"
                " run it again, and report it if this comes back"
            )
        totals = [_control_totals(lake, pinned) for lake in (self.source, self.target)]
        if totals[0] != totals[1]:
            raise CannotMove(
                f"the control totals differ: {totals[0]} before, {totals[1]} after;"
                " run it again, and report it if this comes back"
            )
        mark_step("move.compared")
        return totals[1]

    def retire(self) -> None:
        """Have processes with the former settings write nothing here any more; under the lock."""
        # What they know of uids is made anew.
        shutil.rmtree(self.target.cache, ignore_errors=True)
        self.target.cache.mkdir(parents=True, exist_ok=True)
        self.source.catalog.mark_moved(self.description)
        mark_step("move.retired")

    def restore(self) -> None:
        """Let writers go on at the source, for the move failed; under the lock."""
        self.source.catalog.mark_moved(None)

    def remove_source(self) -> int:
        """Remove the files and the catalog where the lake was; what is gone already is no error.

        Returns:
            The number of removed files.

        Raises:
            CannotMove: It was not moved to the target.
        """
        self.source.close_connections()
        with self.source.catalog.lock(_LOCK_S):
            if self.source.catalog.moved_to() != self.description:
                raise CannotMove(
                    "it was not moved from there, and nothing is removed; end the move with `meterlake move-lake` first"
                )
            names = sorted(self.source.files.names()) if self.moves_files else []
            for name in names:
                self.source.files.objects.delete(name)
                mark_step("move.source_file_removed")
            if self.moves_files and self.source.files.is_local:
                root = Path(self.source.files.root)
                for folder in sorted(
                    (path for path in root.rglob("*") if path.is_dir()), reverse=True
                ):
                    if not any(folder.iterdir()):
                        folder.rmdir()
            self.source.catalog.drop()
            mark_step("move.source_removed")
        return len(names)

    def close(self) -> None:
        """Close the connections to both places."""
        self.source.close()
        self.target.close()


def _control_totals(lake: Lake, pinned: Collection[int]) -> ControlTotals:
    with closing(lake.connect()) as connection, lake.catalog.reading():
        schema = f"__ducklake_metadata_lake.{identifier(lake.catalog.schema)}"
        snapshots = sorted(pinned)
        step = max(1, -(-len(snapshots) // _SNAPSHOTS_MAX))
        some = sorted({*snapshots[::step], *snapshots[-1:]})
        return control_totals(connection, schema, some)


@dataclass(frozen=True, slots=True)
class LakeLocation:
    """Where the lakes of a home are, as its settings say it, without passwords; None: in the home."""

    lake: str | None
    catalog: str | None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The location that settings name."""
        return cls(*(stored_value(name, getattr(settings, name)) for name in _NAMES))

    def __str__(self) -> str:
        return f"{self.lake or 'the home folder'}, catalog {self.catalog or 'SQLite'}"

    def to_settings(self, settings: Settings) -> Settings:
        """Settings with this location; a hidden password is left to libpq's own files."""
        catalog = self.catalog
        if catalog is not None and (url := make_url(catalog)).password is not None:
            catalog = url.set(password=None).render_as_string()
        return settings.model_copy(update={"lake": self.lake, "catalog": catalog})


@dataclass(frozen=True, slots=True)
class MoveRecord:
    """A move that has begun.

    Attributes:
        organizations: The ids of those whose place at the target was free when it began.
    """

    source: LakeLocation
    target: LakeLocation
    organizations: tuple[str, ...]
    done: bool = False

    def finish(self, home: Path) -> None:
        """Write down that the home has its lakes at the target."""
        write_record(home, replace(self, done=True))


def read_record(home: Path) -> MoveRecord | None:
    """What a home knows of its last move, if the source was not removed since.

    Raises:
        Invalid: The file is none of ours.
    """
    path = home / _FILE
    with disk():
        if not path.exists():
            return None
        text = path.read_bytes()
    with suppress(Invalid, KeyError, TypeError):
        found = wire.loads(text)
        return MoveRecord(
            _read_location(found["from"]),
            _read_location(found["to"]),
            tuple(found["organizations"]),
            bool(found["done"]),
        )
    raise Invalid("record of a move", str(path), "it must be one that `meterlake move-lake` wrote")


def write_record(home: Path, record: MoveRecord) -> None:
    """Write a record durably."""
    content = {
        "from": _to_wire(record.source),
        "to": _to_wire(record.target),
        "organizations": list(record.organizations),
        "done": record.done,
    }
    with write_durably(home / _FILE) as temporary:
        temporary.write_bytes(wire.dumps_pretty(content))
        temporary.chmod(0o600)


def forget_record(home: Path) -> None:
    """Remove the record: there is no former place any more."""
    with disk():
        (home / _FILE).unlink(missing_ok=True)
    sync(home)


def _to_wire(location: LakeLocation) -> dict[str, str | None]:
    return {name: getattr(location, name) for name in _NAMES}


def _read_location(found: Mapping[str, Any]) -> LakeLocation:
    return LakeLocation(found["lake"], found["catalog"])
