"""Which lake of which organization: its catalog and its files, as the settings say, and what marks it."""

from collections.abc import Collection
from pathlib import Path

from meterlake.model.errors import Invalid, Required
from meterlake.settings import Settings, variable
from meterlake.stores.lake.backends.catalog import Catalog, SqliteCatalog
from meterlake.stores.lake.backends.data_files import DataFiles, FolderFiles
from meterlake.stores.lake.lake import Lake
from meterlake.stores.objects.base import ObjectStore, checked_key
from meterlake.stores.objects.destination import open_objects, split_url

# A lake whose state nobody knows.
UNKNOWN = ""


def lake_folder(settings: Settings, org_id: str) -> Path:
    """The folder of an organization's lake on this machine.

    What lies in a bucket has one, too: for what is prepared, cached or spilled.
    """
    if settings.lake is None or "://" in settings.lake:
        return settings.home.absolute() / "lakes" / org_id
    return Path(settings.lake).absolute() / org_id


def check_new_lake(settings: Settings) -> None:
    """Refuse a place for new lakes that could not be kept.

    Raises:
        Required: The files would be in a bucket, and the catalog on this machine only.
    """
    if "://" in (settings.lake or "") and settings.catalog is None:
        raise Required(f"{variable('catalog')} beside a lake in {settings.lake}")


def open_lake(settings: Settings, org_id: str) -> Lake:
    """The lake of an organization; nothing is contacted yet.

    Raises:
        Invalid: A setting names no folder, bucket or database.
    """
    folder = lake_folder(settings, org_id)
    return Lake(
        folder,
        settings.duckdb_memory,
        settings.threads,
        catalog=_catalog(settings, org_id, folder),
        files=_files(settings, org_id, folder),
    )


def open_lake_objects(settings: Settings, org_id: str, name: str) -> ObjectStore | None:
    """What lies beside the files of a lake in its bucket; None if the lake is in a folder."""
    if settings.lake is None or "://" not in settings.lake:
        return None
    return open_objects(f"{settings.lake.rstrip('/')}/{org_id}/{name}", settings)


def _catalog(settings: Settings, org_id: str, folder: Path) -> Catalog:
    if settings.catalog is None:
        return SqliteCatalog(folder)
    from meterlake.stores.lake.backends.postgres_catalog import PostgresCatalog  # noqa: PLC0415

    return PostgresCatalog(settings.catalog, org_id)


def _files(settings: Settings, org_id: str, folder: Path) -> DataFiles:
    if settings.lake is None or "://" not in settings.lake:
        return FolderFiles(folder / "data")
    scheme, bucket, path = split_url(settings.lake, "lake")
    if scheme == "file":
        raise Invalid(
            "lake", settings.lake, "it must be a folder without file://, or an s3:// or gs:// URL"
        )
    prefix = "/".join(filter(None, (path.strip("/"), org_id, "data")))
    checked_key(prefix)
    # boto3 and google-cloud-storage take half a second each to import: only who needs them pays.
    if scheme == "s3":
        from meterlake.stores.lake.backends.bucket_files import S3Files  # noqa: PLC0415
        from meterlake.stores.objects.s3 import S3Objects  # noqa: PLC0415

        return S3Files(S3Objects(bucket, prefix, settings.s3_endpoint))
    from meterlake.stores.lake.backends.bucket_files import GcsFiles  # noqa: PLC0415
    from meterlake.stores.objects.gcs import GcsObjects  # noqa: PLC0415

    return GcsFiles(GcsObjects(bucket, prefix, settings.gcs_endpoint))


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
