"""Lake files in a bucket: uploaded by us, read by DuckDB."""

from pathlib import Path

from meterlake.model.failpoint import mark_step
from meterlake.stores.lake.backends.data_files import DataFiles
from meterlake.stores.objects.base import ObjectStore


class BucketFiles(DataFiles):
    """Files below a prefix of a bucket."""

    # DuckLake asks for it whatever reads the files.
    extensions = ("httpfs",)

    def __init__(self, store: ObjectStore) -> None:
        self._objects = store

    @property
    def objects(self) -> ObjectStore:
        """See `DataFiles.objects`."""
        return self._objects

    @property
    def root(self) -> str:
        """See `DataFiles.root`."""
        return self.objects.url("x")[:-1]

    def store(self, staged: Path, name: str) -> Path:
        """See `DataFiles.store`; the staged file stays where it is, too."""
        self.objects.put_file(name, staged)
        mark_step("lake.file_uploaded")
        return staged

    def names(self) -> set[str]:
        """See `DataFiles.names`."""
        return {each.key for each in self.objects.list() if each.key.endswith(".parquet")}
