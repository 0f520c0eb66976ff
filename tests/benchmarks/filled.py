"""A lake with measurements, as ingest leaves it, without reading them from a source."""

from pathlib import Path

import duckdb

from meterlake.model.customers.accounts import Account
from meterlake.model.values.sql import quote
from meterlake.pipeline.ingest.derivations import read_meters
from meterlake.stores import Organization
from meterlake.stores.files.durable import sync

FILE_ROWS = 1_000_000


def fill(organization: Organization, select: str, rows: int) -> list[Path]:
    """Put measurements of September 2026 into the lake, for the meter `egress`.

    Args:
        organization: The organization.
        select: The query of the rows from `$first` to before `$last`, over the ids `$accounts`.
        rows: How many rows.

    Returns:
        The files of the lake.
    """
    with organization.reading() as reader:
        ids = sorted(each.id for each in reader.all(Account))
    meter = read_meters(organization.state, organization.id)[0]["egress"]
    lake = organization.lake
    staging, files = lake.new_staging("benchmark"), []
    with lake.lock(), lake.transaction() as connection:
        lake.ensure_meter_table(connection, meter)
        for number, first in enumerate(range(0, rows, FILE_ROWS)):
            staged = staging / f"{number}.parquet"
            target = f"{quote(staged)} (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
            bound = {"accounts": ids, "first": first, "last": min(rows, first + FILE_ROWS)}
            with duckdb.connect() as writer:
                writer.execute(f"COPY ({select}) TO {target}", bound)
            sync(staged)
            name = f"year=2026/month=9/{staged.name}"
            files.append(lake.register(connection, meter.table, staged, name))
    lake.drop_staging("benchmark")
    return files
