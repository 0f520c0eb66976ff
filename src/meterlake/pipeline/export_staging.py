"""The files of an export in its staging folder: one per type, and one per meter of measurements."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb

from meterlake.model.accounts import Account
from meterlake.model.catalog import Meter
from meterlake.model.entity import Configuration
from meterlake.model.errors import NotFound
from meterlake.model.failpoint import reached
from meterlake.model.measurement import Field
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Month, Period, zone
from meterlake.model.sql import identifier
from meterlake.pipeline.bill_documents import bill_document, line_documents
from meterlake.pipeline.export_files import digest, write_documents, write_measurements
from meterlake.stages.export.columns import Column, flat, with_computed
from meterlake.stages.export.documents import (
    Document,
    entity_documents,
    quantities_query,
    quantity_document,
)
from meterlake.stages.export.manifest import ExactSums, WrittenFile, sums_of
from meterlake.stages.export.measurements import Measurements, stored_fields, sums_hold
from meterlake.stages.export.names import Format, Part, Place
from meterlake.stages.export.types import BILLS, LINES, MEASUREMENTS, QUANTITIES, Export
from meterlake.stores import Stores
from meterlake.stores.lake_tables import table_names
from meterlake.stores.state import bills

_METER_TABLE = "m_"
_ALWAYS = Period(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))


@dataclass(frozen=True, slots=True)
class Staging:
    """What the files of one export are made from, and where.

    Attributes:
        configuration: As it was when the job was created.
        month: The month whose measurements, quantities and bills are exported; None for all.
    """

    stores: Stores
    place: Place
    format: Format
    folder: Path
    snapshot: int
    configuration: Configuration
    month: Month | None = None

    @property
    def period(self) -> Period | None:
        """The month in the organization's time zone."""
        if self.month is None:
            return None
        settings = self.configuration.single(OrganizationConfig).entity
        return self.month.period(zone(settings.timezone))

    def path(self, part: Part) -> Path:
        """Where a file is staged: under the last part of its key, which no other has."""
        return self.folder / Path(self.place.file_key(part, self.format)).name


def stage(staging: Staging, exports: Iterable[Export]) -> Iterator[WrittenFile]:
    """Write the files of the exports, one after the other."""
    for export in exports:
        if export is MEASUREMENTS:
            yield from _measurements(staging)
        else:
            yield _documents(staging, export, _DOCUMENTS.get(export.name, _entities))


def _measurements(staging: Staging) -> Iterator[WrittenFile]:
    with staging.stores.lake(staging.place.org_id).reader() as connection:
        _account_codes(connection, staging)
        for meter_id, code, columns in _meters(connection, staging):
            derived = _derived(staging.configuration, meter_id)
            fields = stored_fields(columns)
            measurements = Measurements(
                table=f"lake.{identifier(_METER_TABLE + meter_id)}",
                snapshot=staging.snapshot,
                meter=code,
                fields=tuple(name for name in fields if name not in derived),
                derived=tuple(name for name in fields if name in derived),
                period=staging.period,
            )
            part = Part(MEASUREMENTS.key_type, meter_id, code)
            yield _write(connection, staging, measurements, part)


def _write(
    connection: duckdb.DuckDBPyConnection, staging: Staging, measurements: Measurements, part: Part
) -> WrittenFile:
    numbers = [column.name for column in measurements.columns if column.numeric]
    count, sums = _sums(connection, measurements, numbers)
    path, threads = staging.path(part), staging.stores.settings.threads
    rows = write_measurements(connection, measurements, staging.format, path, threads)
    assert rows == count, (rows, count)
    return _written(staging, part, measurements.columns, rows, sums)


def _sums(
    connection: duckdb.DuckDBPyConnection, measurements: Measurements, numbers: Sequence[str]
) -> tuple[int, dict[str, Any]]:
    """The count of the measurements, and the exact sums of their numbers."""
    with suppress(duckdb.OutOfRangeException):
        row = connection.execute(measurements.sums()).fetchone()
        assert row is not None
        if sums_hold(row):
            return row[0], sums_of(numbers, row[3::3])
    row = connection.execute(measurements.wide_sums()).fetchone()
    assert row is not None
    return row[0], sums_of(numbers, row[1::2], row[2::2])


def _account_codes(connection: duckdb.DuckDBPyConnection, staging: Staging) -> None:
    # Where clocks differ between machines, an account may seem to be younger than the job that
    # exports its measurements: then its code of today is taken.
    now = staging.stores.state.configuration(staging.place.org_id)
    codes = {
        each.id: each.entity.code
        for configuration in (now, staging.configuration)
        for each in configuration.all(Account)
    }
    connection.execute(
        "CREATE TEMP TABLE account_code AS"
        " SELECT unnest(?::VARCHAR[]) AS id, unnest(?::VARCHAR[]) AS code",
        [list(codes), list(codes.values())],
    )


def _meters(
    connection: duckdb.DuckDBPyConnection, staging: Staging
) -> Iterator[tuple[str, str, Sequence[str]]]:
    """Id, code and columns of every meter that had measurements at the snapshot."""
    codes = {each.id: each.entity.code for each in staging.configuration.all(Meter)}
    for table in sorted(table_names(connection)):
        if table.startswith(_METER_TABLE):
            columns = _columns(connection, table, staging.snapshot)
            meter_id = table.removeprefix(_METER_TABLE)
            if columns:
                yield meter_id, codes.get(meter_id, meter_id), columns


def _derived(configuration: Configuration, meter_id: str) -> set[str]:
    """The columns of a meter's derived fields; none of a meter that is gone."""
    try:
        meter = configuration.get(Meter, meter_id).entity
    except NotFound:
        return set()
    return {Field(field.category, field.code).column for field in meter.derived_fields}


def _columns(
    connection: duckdb.DuckDBPyConnection, table: str, snapshot: int
) -> Sequence[str] | None:
    pinned = f"FROM lake.{identifier(table)} AT (VERSION => {snapshot:d})"
    try:
        rows = connection.execute(f"DESCRIBE SELECT * {pinned}").fetchall()
    except duckdb.CatalogException:
        return None  # it is younger than the snapshot
    return [row[0] for row in rows]


def _quantities(staging: Staging, export: Export) -> list[Document]:
    del export
    period = staging.period or _ALWAYS
    bounds = [instant.replace(tzinfo=None) for instant in (period.start, period.end)]
    with staging.stores.lake(staging.place.org_id).reader() as connection:
        rows = connection.execute(quantities_query(staging.snapshot), bounds).fetchall()
    return [quantity_document(row, staging.configuration) for row in rows]


def _bills(staging: Staging, export: Export) -> list[Document]:
    month = None if staging.month is None else str(staging.month)
    with staging.stores.state.reading(staging.place.org_id) as reader:
        found = bills.of_period(reader, month)
    if export is BILLS:
        return [bill_document(bill) for bill in found]
    return [line for bill in found for line in line_documents(bill)]


def _entities(staging: Staging, export: Export) -> list[Document]:
    assert export.entity is not None
    return entity_documents(export.entity, staging.configuration)


_DOCUMENTS = {QUANTITIES.name: _quantities, BILLS.name: _bills, LINES.name: _bills}


def _documents(staging: Staging, export: Export, read: Any) -> WrittenFile:
    documents: list[Document] = read(staging, export)
    columns = export.columns
    if export.entity is not None:
        columns = with_computed(columns, documents)
    part = Part(export.key_type)
    path, threads = staging.path(part), staging.stores.settings.threads
    write_documents(documents, columns, staging.format, path, threads)
    numbers = tuple(column for column in columns if column.numeric)
    sums = ExactSums([column.name for column in numbers])
    for document in documents:
        sums.add(flat(document, numbers))
    return _written(staging, part, columns, len(documents), sums.totals)


def _written(
    staging: Staging,
    part: Part,
    columns: Sequence[Column],
    rows: int,
    sums: Mapping[str, Any],
) -> WrittenFile:
    reached("export.file_staged")
    size, sha256 = digest(staging.path(part))
    return WrittenFile(
        key=staging.place.file_key(part, staging.format),
        type=part.type,
        about={"meter": part.label} if part.label else {},
        columns=[column.name for column in columns],
        rows=rows,
        size_bytes=size,
        sha256=sha256,
        sums=sums,
    )
