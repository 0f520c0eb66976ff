"""What tells the states of lakes from each other, without opening them."""

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, suppress
from pathlib import Path

from meterlake.settings import Settings
from meterlake.stores.lake.backends.location import lake_folder

# A lake whose state nobody knows.
UNKNOWN = ""


class LakeMarks:
    """Reads the marks of lakes: one question for all that have their catalogs in PostgreSQL.

    Of a catalog in a file the newest snapshot is read again only if the file has changed.

    Args:
        settings: Of the home.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: dict[str, tuple[tuple[int, int], str]] = {}

    def read(self, org_ids: Collection[str]) -> dict[str, str]:
        """The marks of some lakes; the same mark means that nothing came in.

        Raises:
            Unavailable: The server of the catalogs does not answer.
        """
        if self._settings.catalog is None:
            return {each: self._read_file(each) for each in org_ids}
        from meterlake.stores.lake.backends.postgres_catalog import (  # noqa: PLC0415
            read_fences,
            schema_of,
        )

        found = read_fences(self._settings.catalog)
        return {each: str(found.get(schema_of(each), UNKNOWN)) for each in org_ids}

    def _read_file(self, org_id: str) -> str:
        path = lake_folder(self._settings, org_id) / "catalog.sqlite"
        state = _file_state(path)
        known = self._known.get(org_id)
        if known is None or known[0] != state:
            known = state, next(_newest_snapshot(path), UNKNOWN)
            self._known[org_id] = known
        return known[1]


def _file_state(path: Path) -> tuple[int, int]:
    """What changes with every commit, and now and then without one."""
    changed = size = 0
    with suppress(FileNotFoundError):
        changed = path.stat().st_mtime_ns
        size = path.with_name(f"{path.name}-wal").stat().st_size
    return changed, size


def _newest_snapshot(path: Path) -> Iterator[str]:
    # Whoever writes it now, or has not made it yet, is looked at the next time.
    with suppress(sqlite3.Error):
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
            row = connection.execute("SELECT max(snapshot_id) FROM ducklake_snapshot").fetchone()
        yield str(row[0])
