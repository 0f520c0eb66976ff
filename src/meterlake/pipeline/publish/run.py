"""The verb `publish`: one self-contained DuckDB file with everything an analyst starts with.

A file is built in a staging folder and takes the place of the last one in a single step. Who has
the old one open keeps reading it, and sees the new one when opening the file again. The new one
begins as a copy of the old one, in which only the months that have changed are made anew. If asked for, plain files of Parquet lie beside it.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
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
from meterlake.model.values.sql import identifier, quote
from meterlake.pipeline.publish import tables as published_schema
from meterlake.pipeline.publish.contents import PublishedContent, fill_file
from meterlake.pipeline.publish.documents import Findings, about_document, documents_of
from meterlake.stages.publish import statements
from meterlake.stages.publish.document import dbt_sources, live_script
from meterlake.stages.publish.meters import PublishedMeter, measured_meters
from meterlake.stages.publish.months import Made
from meterlake.stages.publish.statements import DIGEST, PUBLICATION
from meterlake.stages.publish.tables import ABOUT_TABLE, DICTIONARY, LAKE_TABLES
from meterlake.stages.publish.views import STATE_TABLES, folder_name
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
VERSIONS: Final = "parquet-publications"
# Whoever follows the link just before it is changed still has some publications to read in peace.
_KEPT: Final = 2
_SETTINGS: Final = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1"


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
            meanings = tuple(connection.execute(statements.MEANINGS).fetchall())
            sources = dbt_sources(organization.code, Path(target.file.name), meanings)
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


def publish_parquet(
    connection: duckdb.DuckDBPyConnection,
    link: Path,
    meters: Sequence[PublishedMeter],
    made: Sequence[Made],
) -> None:
    """Write the Parquet files of a published file, and let the link lead to them.

    Args:
        connection: The published file, opened.
        link: Where readers look.
        meters: The meters of the file.
        made: Their months.
    """
    row = connection.execute(PUBLICATION).fetchone()
    assert row is not None
    versions = link.parent / VERSIONS
    target = versions / row[0]
    last = link.resolve() if link.is_symlink() and link.is_dir() else None
    make_folder(target)
    _write_months(connection, target, last, meters, made)
    tables = [each.name for each in (*STATE_TABLES, ABOUT_TABLE, DICTIONARY)]
    for name in (*tables, *(each.name for each in LAKE_TABLES)):
        found = connection.execute(DIGEST, [name]).fetchone()
        assert found is not None, name
        place = Path(name, f"{found[0]}.parquet")
        _write(connection, f"FROM {identifier(name)}", target, last, place)
    for folder in [*(path for path in target.rglob("*") if path.is_dir()), target, versions]:
        sync(folder)
    mark_step("publish.parquet_written")
    # Change the link in one step; it is relative, so that the home can be moved.
    new = link.with_name(f".{link.name}.new")
    with disk():
        new.unlink(missing_ok=True)
        new.symlink_to(target.relative_to(link.parent), target_is_directory=True)
        new.replace(link)
    sync(link.parent)
    # Remove old publications, and those that nobody finished.
    kept = {target, last}
    others = sorted(
        (version for version in versions.iterdir() if version not in kept),
        key=lambda version: version.stat().st_mtime_ns,
    )
    for version in others[: -(_KEPT - 1)]:
        shutil.rmtree(version, ignore_errors=True)


def _write_months(
    connection: duckdb.DuckDBPyConnection,
    target: Path,
    last: Path | None,
    meters: Sequence[PublishedMeter],
    made: Sequence[Made],
) -> None:
    folders = {each.meter.id: folder_name(each.name) for each in meters}
    for each in made:
        query = f"FROM months.{identifier(each.table)}"
        # With the meter, as its folder may have been another one's in the last publication.
        name = f"{each.publication}-{each.meter_id}.parquet"
        place = Path(folders[each.meter_id], f"month={each.month}", name)
        _write(connection, query, target, last, place)
    for meter in meters:
        if all(each.meter_id != meter.meter.id for each in made):
            # So that it can be read before it has measurements, with its columns.
            place = Path(folders[meter.meter.id], "month=0001-01", f"{meter.meter.version}.parquet")
            _write(connection, f"FROM {identifier(meter.name)} LIMIT 0", target, None, place)


def _write(
    connection: duckdb.DuckDBPyConnection, query: str, target: Path, last: Path | None, place: Path
) -> None:
    """Write a file, or take it from the last publication."""
    path = target / place
    with disk():
        path.parent.mkdir(parents=True, exist_ok=True)
        if last is not None and (last / place).exists():
            os.link(last / place, path)
            return
    connection.execute(f"COPY ({query}) TO {quote(path)} ({_SETTINGS})")
    sync(path)
