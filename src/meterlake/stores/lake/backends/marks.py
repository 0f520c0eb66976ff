"""What tells the states of lakes from each other, without opening them."""

from collections.abc import Collection
from pathlib import Path

from meterlake.settings import Settings
from meterlake.stores.lake.backends.location import lake_folder

# A lake whose state nobody knows.
UNKNOWN = ""


class LakeMarks:
    """Reads the marks of lakes: one question for all that have their catalogs in PostgreSQL.

    Of a catalog in a file it is when that was written. Nobody opens the file for it: who closes a
    file gives up all locks that his process has on it, and so those of DuckDB's own SQLite. Another
    process would then remove the log that a commit is about to write to.

    Args:
        settings: Of the home.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def read(self, org_ids: Collection[str]) -> dict[str, str]:
        """The marks of some lakes; the same mark means that nothing came in.

        Raises:
            Unavailable: The server of the catalogs does not answer.
        """
        if self._settings.catalog is None:
            return {each: _file_mark(lake_folder(self._settings, each)) for each in org_ids}
        from meterlake.stores.lake.backends.postgres_catalog import (  # noqa: PLC0415
            read_fences,
            schema_of,
        )

        found = read_fences(self._settings.catalog)
        return {each: str(found.get(schema_of(each), UNKNOWN)) for each in org_ids}


def _file_mark(folder: Path) -> str:
    """What changes with every commit, and now and then without one."""
    written = (_written(folder / name) for name in ("catalog.sqlite", "catalog.sqlite-wal"))
    return " ".join(filter(None, written)) or UNKNOWN


def _written(path: Path) -> str:
    """When a file was written, and its size; nothing of one that is empty, or not there."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return ""
    return f"{found.st_mtime_ns}:{found.st_size}" if found.st_size else ""
