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
from typing import Final, NamedTuple

import duckdb

from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.values import wire
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.period import zone
from meterlake.model.values.sql import quote
from meterlake.pipeline.publish import tables as published_schema
from meterlake.pipeline.publish.contents import PublishedContent, fill_file
from meterlake.pipeline.publish.documents import Findings, about_document, documents_of
from meterlake.pipeline.publish.parquet import publish_parquet
from meterlake.stages.publish import statements
from meterlake.stages.publish.document import dbt_sources, live_script
from meterlake.stages.publish.meters import PublishedMeter, measured_meters
from meterlake.stages.publish.months import Made
from meterlake.stages.publish.tables import ABOUT_TABLE, LAKE_TABLES
from meterlake.stores import Organization
from meterlake.stores.files.durable import disk, make_folder, move, sync, write_durably
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.lake.connection import translate_errors
from meterlake.stores.lake.tables import newest_snapshot
from meterlake.stores.state import new_id

FILE_NAME: Final = "warehouse.duckdb"
LIVE_NAME: Final = "live.sql"
SOURCES_NAME: Final = "sources.yml"
PARQUET_NAME: Final = "parquet"
_ALWAYS: Final = frozenset(each.name for each in LAKE_TABLES)


@dataclass(frozen=True, slots=True)
class Published:
    """The files that were published.

    Attributes:
        path: The file with everything; `live.sql` and `sources.yml` lie beside it.
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

    @property
    def live(self) -> Path:
        """The script that opens the live lake by the names of the file."""
        return self.path.with_name(LIVE_NAME)

    @property
    def duckdb(self) -> str:
        """The version of DuckDB whose extensions the script loads."""
        return duckdb.__version__


class _Built(NamedTuple):
    snapshot: int
    publication: str
    meters: tuple[PublishedMeter, ...]
    made: tuple[Made, ...]


class _Target(NamedTuple):
    """Where a publication goes: its folder, and where what is known of the last file is kept."""

    folder: Path
    last: Path

    @property
    def file(self) -> Path:
        return self.folder / FILE_NAME


def publish(organization: Organization, *, parquet: bool = False, whole: bool = False) -> Published:
    """Publish an organization's data as one DuckDB file, in place of the last one.

    Args:
        organization: The organization.
        parquet: Also publish a folder of Parquet files.
        whole: Make everything anew, whatever the last file has.

    Raises:
        NotFound: There is no such organization.
        Unavailable: The disk or the memory failed; the last file is untouched.
    """
    folder = organization.stores.home / "published" / organization.code
    staging = organization.stores.home / "staging" / "publish"
    target = _Target(folder, staging / f"{organization.id}.last")
    with _building(staging / organization.id) as building:
        built = _build(organization, building, target, whole=whole)
        sync(building / FILE_NAME)
        with closing(duckdb.connect(str(building / FILE_NAME), read_only=True)) as connection:
            rows = _count_rows(connection, built)
            sources = dbt_sources(
                organization.code, target.file, connection.execute(statements.MEANINGS).fetchall()
            )
            if parquet:
                publish_parquet(connection, folder / PARQUET_NAME, built.meters, built.made)
        mark_step("publish.built")
        make_folder(target.file.parent)
        # What somebody wrote to the old file and left in its log must not meet the new one.
        Path(f"{target.file}.wal").unlink(missing_ok=True)
        move(building / FILE_NAME, target.file)
        with write_durably(target.last) as path:
            path.write_text(wire.dumps_sorted(_identity(target.file)), "utf-8")
        for beside_name, text in (
            (SOURCES_NAME, sources),
            (LIVE_NAME, live_script(target.file, attach_line(organization))),
        ):
            with write_durably(target.folder / beside_name, needed=False) as beside:
                beside.write_text(text, "utf-8")
    new = sum(each.publication == built.publication for each in built.made)
    return Published(
        target.file,
        folder / PARQUET_NAME if parquet else None,
        built.snapshot,
        rows,
        (new, len(built.made)),
    )


def _count_rows(connection: duckdb.DuckDBPyConnection, built: _Built) -> dict[str, int]:
    """How many rows each table of a file has, by name; most tables are left out if they are empty."""
    counts = {each.name: 0 for each in built.meters}
    names = {each.meter.id: each.name for each in built.meters}
    for month in built.made:
        counts[names[month.meter_id]] += month.rows
    for (name,) in connection.execute(statements.TABLE_NAMES).fetchall():
        row = connection.execute(statements.count_rows(name)).fetchone()
        assert row is not None
        if row != (0,) or name in _ALWAYS:
            counts[name] = int(row[0])
    return dict(sorted(counts.items()))


def attach_line(organization: Organization) -> str:
    """The line of SQL that attaches the live lake read-only as `lake`, without a network.

    Raises:
        Unavailable: The extensions of the installed version of DuckDB are not installed.
    """
    return "; ".join(organization.lake.public_statements()) + ";"


@contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """A new folder that only we build in."""
    make_folder(folder.parent)
    with hold_lock(folder.with_suffix(".lock")):
        shutil.rmtree(folder, ignore_errors=True)
        make_folder(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _identity(path: Path) -> dict[str, int]:
    """What changes with every write to a file."""
    found = path.stat()
    return {"inode": found.st_ino, "size": found.st_size, "modified": found.st_mtime_ns}


def _copy_last(target: _Target, path: Path) -> bool:
    """Begin with a copy of the last file, if it is exactly what we published."""
    with suppress(OSError, UnicodeError, Invalid):
        if wire.loads(target.last.read_text("utf-8")) == _identity(target.file):
            with disk():
                shutil.copyfile(target.file, path)
            return True
    return False


def _build(organization: Organization, building: Path, target: _Target, *, whole: bool) -> _Built:
    path = building / FILE_NAME
    findings = Findings.of(organization).read()
    if not whole and _copy_last(target, path):
        try:
            return _fill(organization, path, findings, again=True)
        except (duckdb.Error, Unavailable):
            # Damaged, or of another version of DuckDB: nothing of it is trusted. If it is the disk
            # that fails, it fails again.
            path.unlink()
            Path(f"{path}.wal").unlink(missing_ok=True)
    return _fill(organization, path, findings, again=False)


def _fill(organization: Organization, path: Path, findings: Findings, *, again: bool) -> _Built:
    lake = organization.lake
    with (
        closing(lake.connect()) as connection,
        translate_errors(),
        lake.catalog.reading(),
    ):
        connection.execute(f"ATTACH {quote(path)} AS published")
        connection.execute("USE published")
        lake.complete(connection)
        connection.execute("BEGIN")  # everything is of one snapshot
        # State is read after it: the lake never has an account that State does not have yet.
        snapshot = newest_snapshot(connection)
        with organization.reading() as reader:
            configuration = reader.configuration()
            timezone = configuration.single(OrganizationConfig).entity.timezone
            meters = tuple(measured_meters(configuration.all(Meter)))
            names = {each.meter.id: each.name for each in meters}
            documents = documents_of(reader, configuration, names, organization.now(), findings)
            state = {table: published_schema.rows_of(table, rows) for table, rows in documents}
        publication = new_id()
        about = about_document(organization, timezone, snapshot)
        about |= {"publication": publication}
        state[ABOUT_TABLE] = published_schema.rows_of(ABOUT_TABLE, [about])
        content = PublishedContent(
            snapshot, publication, meters, zone(timezone), state, lake.catalog.schema
        )
        made = fill_file(connection, content, again=again)
        connection.execute("COMMIT")
        connection.execute("CHECKPOINT published")
    return _Built(snapshot, publication, meters, tuple(made))
