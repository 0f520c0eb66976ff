"""A lake with a long history of measurements, made by DuckDB and registered as ingest would do it.

Rows are narrow and compress well; their uids are numbers as text, so their hashes are spread evenly.
Tables, hashes, the ledger and the statistics of the catalog are those of ingest: a repeat of such a row
is found as one, and `meterlake check` reconciles the lake.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import duckdb
import polars as pl

from meterlake.model.measurements.measurement import MeterFields
from meterlake.model.measurements.receipt import Delivery, Receipt
from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.model.resources.proposal import Document
from meterlake.model.values.ids import derived_id
from meterlake.model.values.sql import quote
from meterlake.pipeline.config.apply_configuration import apply
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.derivations import read_meters
from meterlake.settings import Settings
from meterlake.stages.ingest.validate.parse_columns import content_hashes, uid_hashes
from meterlake.stores import Organization, Stores, open_stores
from meterlake.stores.files.durable import sync
from meterlake.stores.lake import ledger
from meterlake.stores.lake.lake import Lake
from meterlake.stores.state.core.auto_accounts import create_auto_accounts
from tests.homes import EGRESS, SENT

ACCOUNTS = 10_000
FILE_ROWS = 5_000_000
MONTHS = 10
REJECTED_EACH = 10_000  # one row of so many
# As many rows as there are accounts; all rows of a file repeat them.
CONTENTS = """
    SELECT k, $accounts[1 + k] AS account_id,
        $month::TIMESTAMP + to_seconds((k * 7919 + $file * 61) % 2419200) AS ts,
        NULL::TIMESTAMP AS ets, (k % 997 + 0.25)::DECIMAL(38,12) AS "measure.gb",
        ['eu', 'us', 'ap'][1 + k % 3] AS "where.region"
    FROM range(len($accounts)) t(k)"""
UIDS = "SELECT n, reverse(lpad(n::VARCHAR, 10, '0')) AS uid FROM range($first, $last) t(n)"
MEASUREMENTS = """
    SELECT u.uid, c.account_id, c.ts, c.ets, $received::TIMESTAMP AS received_at,
        $source AS source, (u.n - $first + 1)::BIGINT AS row, 0::SMALLINT AS part,
        c."measure.gb", c."where.region"
    FROM uids u JOIN contents c ON c.k = u.n % len($accounts)"""
INDEX = """
    SELECT u.uid, u.uid_hash, c.content_hash, $meter AS meter_id, $source AS source,
        (u.n - $first + 1)::BIGINT AS row, 0::SMALLINT AS part
    FROM uids u JOIN contents c ON c.k = u.n % len($accounts)"""
# The rows of a page are those of one month, and all repeats of a file's rows have its instants.
TO_PARQUET = "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"


def month(file: int) -> str:
    """The month of a file, as its first instant."""
    return f"2026-{1 + file % MONTHS:02}-01"


@contextmanager
def history_at(home: Path, **changes: object) -> Iterator[tuple[Stores, str]]:
    """The stores of a home, which is made where there is none, and its organization."""
    settings = Settings(_env_file=None, home=home, **changes)
    new = not (home / "lakes").exists()
    if new:
        made = initialize(settings, "Curve")
    with open_stores(settings) as stores:
        org_id = made.org_id if new else stores.state.organization().id
        if new:
            _configure(stores.organization(org_id))
        yield stores, org_id


def _configure(organization: Organization) -> None:
    for content in ({"meters": [EGRESS]}, {"aggregations": [SENT]}):
        apply(organization.state, organization.id, [Document("curve.yaml", content)], "benchmark")
    create_auto_accounts(
        organization.state, organization.id, dict(zip(codes(), ids(organization.id), strict=True))
    )


def codes() -> list[str]:
    """The codes of all accounts."""
    return [f"account-{number:05}" for number in range(ACCOUNTS)]


def ids(org_id: str) -> list[str]:
    """The ids of all accounts, in the order of their codes."""
    return [derived_id(org_id, "account", code) for code in codes()]


def uid(number: int) -> str:
    """The uid of a row: its number read backwards, so that no range of uids belongs to one file."""
    return f"{number:010}"[::-1]


@dataclass(frozen=True)
class SourceFile:
    """One file of the history, and what its rows have in common."""

    org_id: str
    meter: MeterFields
    file: int
    first: int
    last: int

    @property
    def identity(self) -> str:
        return hashlib.sha256(f"history {self.file}".encode()).hexdigest()

    def receipt(self) -> Receipt:
        """What the ledger says of it."""
        rejected = (self.last - self.first) // REJECTED_EACH
        arrival = datetime(2026, 11, 1, tzinfo=UTC)
        return Receipt(
            Delivery(str(uuid4()), f"history-{self.file}.csv", arrival),
            self.identity,
            attempt=1,
            sha256=self.identity,
            size_bytes=60 * (self.last - self.first),
            format="csv",
            mapping=None,
            status="done",
            received=self.last - self.first + rejected,
            accepted=self.last - self.first,
            rejected=rejected,
            reasons={Reason.INVALID_NUMBER: rejected} if rejected else {},
        )

    def stage(self, folder: Path) -> dict[str, Path]:
        """Write its files, synced, by table."""
        with duckdb.connect(config={"threads": 1}) as writer:
            bound = {"accounts": ids(self.org_id), "month": month(self.file), "file": self.file}
            contents = writer.execute(CONTENTS, bound).pl()
            hashed = contents.with_columns(
                content_hash=content_hashes(contents, self.meter), k=pl.col("k").cast(pl.Int64)
            )
            uids = writer.execute(UIDS, {"first": self.first, "last": self.last}).pl()
            uids = uids.with_columns(uid_hash=uid_hashes(uids["uid"]))
            writer.register("contents", hashed.to_arrow())
            writer.register("uids", uids.to_arrow())
            queries = {self.meter.table: MEASUREMENTS, "uid_index": INDEX}
            return {
                table: self._write(writer, folder, table, query) for table, query in queries.items()
            }

    def _write(
        self, writer: duckdb.DuckDBPyConnection, folder: Path, table: str, query: str
    ) -> Path:
        path = folder / f"{table}.parquet"
        values = {
            "first": self.first,
            "source": self.identity,
            "received": "2026-11-01",
            "meter": self.meter.id,
            "accounts": ids(self.org_id),
        }
        used = {name: value for name, value in values.items() if f"${name}" in query}
        writer.execute(f"COPY ({query}) TO {quote(path)} {TO_PARQUET}", used)
        sync(path)
        return path

    def rejected(self, folder: Path) -> Path:
        """Write its rejected rows, synced."""
        rows = [
            Rejection(
                self.last - self.first + 1 + number,
                Reason.INVALID_NUMBER,
                "'n/a' is no number",
                field="measure.gb",
                meter="egress",
                uid=f"bad-{self.file}-{number}",
                original=f"egress,account-00001,bad-{self.file}-{number},2026-10-01,n/a,eu",
            )
            for number in range(self.receipt().rejected)
        ]
        receipt = self.receipt()
        path = folder / "rejected.parquet"
        frame = ledger.rejected_frame(rows, receipt.identity, 1, receipt.delivery.name)
        frame.write_parquet(path, compression="zstd")
        sync(path)
        return path


def fill(organization: Organization, rows: int) -> None:
    """Give the lake so many rows of history, a file of each month at least; what is there stays."""
    file_rows = min(FILE_ROWS, max(1, rows // MONTHS))
    meter = read_meters(organization.state, organization.id)[0]["egress"]
    lake = organization.lake
    with lake.reader() as connection:
        [[there]] = connection.execute("SELECT count(*) FROM lake.source").fetchall()
    for file, first in enumerate(range(0, rows, file_rows)):
        if file >= there:
            source = SourceFile(organization.id, meter, file, first, min(rows, first + file_rows))
            _commit(lake, source)


def _commit(lake: Lake, source: SourceFile) -> None:
    folder = lake.new_staging("history")
    staged = source.stage(folder)
    receipt = source.receipt()
    with lake.lock(), lake.transaction() as connection:
        lake.ensure_meter_table(connection, source.meter)
        if receipt.rejected:
            staged["rejected"] = source.rejected(folder)
        for table, path in staged.items():
            name = f"{uuid4()}.parquet"
            if table == source.meter.table:
                name = f"year=2026/month={1 + source.file % MONTHS}/{name}"
            lake.register(connection, table, path, name)
        row = ledger.source_row(receipt, receipt.delivery.received_at, {})
        lake.insert(connection, "source", [row])
    lake.drop_staging("history")
