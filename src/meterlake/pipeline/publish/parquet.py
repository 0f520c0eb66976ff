"""A publication as plain Parquet files: one folder per table, measurements by month.

    parquet/<table>/month=2026-10/<name>.parquet    measurements of a meter
    parquet/<table>/<name>.parquet                  everything else

`parquet` is a link to the folder of one publication, which never changes: a reader that has followed
it sees one state from beginning to end. Months that have not changed are the same files again.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import duckdb

from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.sql import identifier, quote
from meterlake.stages.publish.meters import PublishedMeter
from meterlake.stages.publish.months import Made
from meterlake.stages.publish.statements import DIGEST, PUBLICATION
from meterlake.stages.publish.tables import ABOUT_TABLE, DICTIONARY, LAKE_TABLES
from meterlake.stages.publish.views import STATE_TABLES, folder_name
from meterlake.stores.files.durable import disk, make_folder, sync

VERSIONS: Final = "parquet-publications"
# Whoever follows the link just before it is changed still has some publications to read in peace.
_KEPT: Final = 2
_SETTINGS: Final = "FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1"


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
