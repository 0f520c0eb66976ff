"""The verb `publish`: one self-contained DuckDB file with everything an analyst starts with.

A file is built in a staging folder and takes the place of the last one in a single step. Who has
the old one open keeps reading it, and sees the new one when opening the file again. The new one
begins as a copy of the old one, in which only the months that have changed are made anew.
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
import pyarrow as pa

from meterlake.model import wire
from meterlake.model.catalog import Meter
from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.failpoint import reached
from meterlake.model.sql import identifier, quoted
from meterlake.pipeline import door
from meterlake.pipeline.publish_contents import Wanted, fill_file
from meterlake.pipeline.publish_documents import documents_of
from meterlake.pipeline.publish_parquet import publish_parquet
from meterlake.pipeline.version import code_version
from meterlake.stages.publish.meters import Measured, measured
from meterlake.stages.publish.months import Made
from meterlake.stages.publish.tables import ABOUT_TABLE, LAKE_TABLES, Table
from meterlake.stores import Stores
from meterlake.stores.durable import disk, make_folder, move, sync, written
from meterlake.stores.lake import Lake
from meterlake.stores.lake_connection import attach_statement, translated
from meterlake.stores.lake_tables import newest_snapshot
from meterlake.stores.locks import held
from meterlake.stores.reader_gate import reading
from meterlake.stores.state import Organization, new_id

FILE_NAME: Final = "warehouse.duckdb"
PARQUET_NAME: Final = "parquet"
_ALWAYS: Final = frozenset(each.name for each in LAKE_TABLES)


@dataclass(frozen=True, slots=True)
class Published:
    """The files that were published.

    Attributes:
        path: The file with everything.
        parquet: The folder of Parquet files, if they were asked for.
        snapshot: The snapshot of the lake.
        rows: The rows of every table and of every meter.
        made: How many months of meters were made anew, of how many.
    """

    path: Path
    parquet: Path | None
    snapshot: int
    rows: Mapping[str, int]
    made: tuple[int, int]


class _Built(NamedTuple):
    snapshot: int
    publication: str
    meters: tuple[Measured, ...]
    made: tuple[Made, ...]


class _Place(NamedTuple):
    """Where a publication goes: its folder, and where what is known of the last file is kept."""

    folder: Path
    last: Path

    @property
    def file(self) -> Path:
        return self.folder / FILE_NAME


def publish(
    stores: Stores, org_id: str, *, parquet: bool = False, whole: bool = False
) -> Published:
    """Publish an organization's data as one DuckDB file, in place of the last one.

    Args:
        stores: The home's stores.
        org_id: The organization.
        parquet: Also publish a folder of Parquet files.
        whole: Make everything anew, whatever the last file has.

    Raises:
        NotFound: There is no such organization.
        Unavailable: The disk or the memory failed; the last file is untouched.
    """
    organization = stores.state.organization(org_id)
    folder = stores.home / "published" / organization.code
    staging = stores.home / "staging" / "publish"
    place = _Place(folder, staging / f"{organization.id}.last")
    with _building(staging / organization.id) as building:
        built = _built(stores, organization, building, place, whole=whole)
        sync(building / FILE_NAME)
        with closing(duckdb.connect(str(building / FILE_NAME), read_only=True)) as connection:
            rows = _rows(connection, built)
            if parquet:
                publish_parquet(connection, folder / PARQUET_NAME, built.meters, built.made)
        reached("publish.built")
        _replace(building / FILE_NAME, place.file)
        _remember(place)
    new = sum(each.publication == built.publication for each in built.made)
    return Published(
        place.file,
        folder / PARQUET_NAME if parquet else None,
        built.snapshot,
        rows,
        (new, len(built.made)),
    )


def attach_line(stores: Stores, org_id: str) -> str:
    """The line of SQL that attaches the live lake read-only as `lake`.

    DuckDB's extensions `ducklake` and `sqlite` have to be there.
    """
    lake = stores.lake(org_id)
    return attach_statement(lake.catalog, lake.data, read_only=True) + ";"


@contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """A new folder that only we build in."""
    make_folder(folder.parent)
    with held(folder.with_suffix(".lock")):
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _replace(new: Path, target: Path) -> None:
    make_folder(target.parent)
    # What somebody wrote to the old file and left in its log must not meet the new one.
    Path(f"{target}.wal").unlink(missing_ok=True)
    move(new, target)


def _identity(path: Path) -> dict[str, int]:
    """What changes with every write to a file."""
    found = path.stat()
    return {"inode": found.st_ino, "size": found.st_size, "modified": found.st_mtime_ns}


def _remember(place: _Place) -> None:
    with written(place.last) as path:
        path.write_text(wire.dumps_sorted(_identity(place.file)), "utf-8")


def _copied(place: _Place, path: Path) -> bool:
    """Begin with a copy of the last file, if it is exactly what we published."""
    with suppress(OSError, UnicodeError, Invalid):
        if wire.loads(place.last.read_text("utf-8")) == _identity(place.file):
            with disk():
                shutil.copyfile(place.file, path)
            return True
    return False


def _built(
    stores: Stores, organization: Organization, building: Path, place: _Place, *, whole: bool
) -> _Built:
    path = building / FILE_NAME
    if not whole and _copied(place, path):
        try:
            return _filled(stores, organization, path, again=True)
        except (duckdb.Error, Unavailable):
            # Damaged, or of another version of DuckDB: nothing of it is trusted. If it is the disk
            # that fails, it fails again.
            path.unlink()
            Path(f"{path}.wal").unlink(missing_ok=True)
    return _filled(stores, organization, path, again=False)


def _filled(stores: Stores, organization: Organization, path: Path, *, again: bool) -> _Built:
    lake = stores.lake(organization.id)
    with (
        closing(_opened(lake, path)) as connection,
        translated(),
        reading(lake.gate),
    ):
        lake.complete(connection)
        connection.execute("BEGIN")  # everything is of one snapshot
        # State is read after it: the lake never has an account that State does not have yet.
        snapshot = newest_snapshot(connection)
        meters, state = _state(stores, organization.id)
        publication = new_id()
        about = _about(stores, organization, snapshot) | {"publication": publication}
        state[ABOUT_TABLE] = door.rows_of(ABOUT_TABLE, [about])
        made = fill_file(connection, Wanted(snapshot, publication, meters, state), again=again)
        connection.execute("COMMIT")
        connection.execute("CHECKPOINT published")
    return _Built(snapshot, publication, meters, tuple(made))


def _opened(lake: Lake, path: Path) -> duckdb.DuckDBPyConnection:
    connection = lake.connect()
    with translated():
        connection.execute(f"ATTACH {quoted(path)} AS published")
        connection.execute("USE published")
    return connection


def _state(stores: Stores, org_id: str) -> tuple[tuple[Measured, ...], dict[Table, pa.Table]]:
    with stores.state.reading(org_id) as reader:
        configuration = reader.configuration()
        meters = tuple(measured(configuration.all(Meter)))
        names = {each.meter.id: each.name for each in meters}
        documents = documents_of(reader, configuration, names)
        return meters, {table: door.rows_of(table, rows) for table, rows in documents}


def _about(stores: Stores, organization: Organization, snapshot: int) -> dict[str, Any]:
    return {
        "organization": organization.name,
        "organizationCode": organization.code,
        "publishedAt": stores.now(),
        "snapshot": snapshot,
        "meterlake": code_version(),
    }


def _rows(connection: duckdb.DuckDBPyConnection, built: _Built) -> dict[str, int]:
    """The rows of every meter and of all tables but empty ones of configuration."""
    counts = {each.name: 0 for each in built.meters}
    names = {each.meter.id: each.name for each in built.meters}
    for month in built.made:
        counts[names[month.meter_id]] += month.rows
    tables = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main'"
    for (name,) in connection.execute(tables).fetchall():
        row = connection.execute(f"SELECT count(*) FROM {identifier(name)}").fetchone()
        assert row is not None
        if row != (0,) or name in _ALWAYS:
            counts[name] = int(row[0])
    return dict(sorted(counts.items()))
