"""The files of usage in an export: of every meter, raw or folded, and that of the quantities."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import duckdb

from meterlake.model.bills.bill import Query
from meterlake.model.catalog.catalog import Meter
from meterlake.model.configuration.queries import UsageQueryRequest
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.model.measurements.measurement import Category, Field
from meterlake.model.values.period import Period
from meterlake.model.values.sql import identifier
from meterlake.model.work.export_request import Format
from meterlake.pipeline.explorer.usage_questions import questions_of
from meterlake.pipeline.export.aggregated import MeterAggregate
from meterlake.pipeline.export.files import schema_of
from meterlake.pipeline.export.rows import FilePiece, RowBlock, RowOutput, write_parquet, write_text
from meterlake.pipeline.export.staging import ExportStaging, StagedDocuments, staged_file
from meterlake.stages.decode.csv_lines import csv_lines
from meterlake.stages.export.column_kinds import ExportColumn
from meterlake.stages.export.documents import Document, quantities_query, quantity_document
from meterlake.stages.export.exported_columns import MEASUREMENTS, Export
from meterlake.stages.export.manifest import ExportPart, WrittenFile
from meterlake.stages.export.measurements import LINE, Measurements, stored_fields
from meterlake.stages.usage.explore import ALL_ROWS, ExplorerScope, Question, conditions
from meterlake.stores.files.durable import sync
from meterlake.stores.lake.tables import table_names
from meterlake.stores.state.core.entity_history import known_at
from meterlake.stores.state.core.versions import versions

_METER_TABLE: Final = "m_"
_ALWAYS: Final = Period(datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
# How many rows come together; text of so many fits into Arrow's 2 GiB, however long it is.
_ROWS: Final = 8192
_NOTHING: Final = Query("false", {})


class Sheet(NamedTuple):
    """Rows that become one file, or several where it would be too large.

    Attributes:
        blocks: The rows, as they are written.
    """

    part: ExportPart
    columns: tuple[ExportColumn, ...]
    blocks: Iterable[RowBlock]


def stage_usage(
    staging: ExportStaging, export: Export, only: str | None = None
) -> Iterator[WrittenFile]:
    """Write the files of one type of usage: of what the request selects, at the snapshot.

    Args:
        staging: Where to.
        export: The type.
        only: The id of the one meter whose measurements are written; those of all if None.
    """
    settings = staging.stores.settings
    with (
        staging.stores.lake(staging.place.org_id).apart(settings.export_memory) as connection,
        staging.attempt.interrupting(connection.interrupt),
    ):
        if export is not MEASUREMENTS:
            part = ExportPart(export.key_type)
            with StagedDocuments(staging, part, export.columns) as staged:
                for document in _quantities(connection, staging):
                    staged.add(document)
            yield from staged.files()
            return
        find = _aggregated_sheets if staging.request.usage.aggregations else _measurement_sheets
        for sheet in find(connection, staging, only):
            watched = sheet._replace(blocks=_watch_blocks(staging, sheet.blocks))
            pieces = write_sheet(watched, staging.format, output_of(staging, sheet))
            for number, piece in enumerate(pieces, start=1):
                part = sheet.part._replace(number=number if len(pieces) > 1 else 0)
                sync(piece.path.rename(staging.path(part)))
                yield staged_file(staging, part, sheet.columns, piece.rows, piece.sums.totals)


def meters_of(staging: ExportStaging) -> list[str]:
    """The ids of the meters of which measurements are written, in the order of their files."""
    usage = staging.request.usage
    questions = [each.meter_id for each in questions_of(usage, staging.meters)]
    if usage.aggregations:
        return questions
    with staging.stores.lake(staging.place.org_id).reader() as connection:
        stored = _stored_columns(connection, staging.snapshot)
    return [each for each in sorted({*stored, *questions}) if _among(each, usage.meter_ids)]


def _measurement_sheets(
    connection: duckdb.DuckDBPyConnection, staging: ExportStaging, only: str | None
) -> Iterator[Sheet]:
    """The measurements of every meter."""
    codes = staging.codes[Account]
    connection.execute(
        "CREATE TEMP TABLE account_code AS"
        " SELECT unnest(?::VARCHAR[]) AS id, unnest(?::VARCHAR[]) AS code",
        [list(codes), list(codes.values())],
    )
    usage, scope = staging.request.usage, _scope(staging)
    questions = {each.meter_id: each for each in questions_of(usage, staging.meters)}
    with staging.stores.state.reading(staging.place.org_id) as reader:
        # Also those that are gone, whose measurements are still there.
        meters = {each.id: each.entity for each in known_at(reader, Meter, staging.at)}
    history = _versions(staging)
    stored = _stored_columns(connection, staging.snapshot)
    for meter_id in sorted({*stored, *questions}):
        if not _among(meter_id, usage.meter_ids) or only not in {None, meter_id}:
            continue
        meter = meters.get(meter_id)
        code = meter_id if meter is None else meter.code
        question = questions.get(meter_id) or _of_unknown(meter_id, code, usage)
        columns = stored.get(meter_id) or [field.column for field in question.fields]
        derived = _derived_columns(meter, history.get(meter_id, ()))
        fields = stored_fields(columns)
        # Which measurements are meant; a field that was never filled has none of the wanted
        # values.
        if any(field.column not in columns for field, _ in question.filters):
            condition = _NOTHING
        else:
            condition = conditions(question, scope)
        measurements = Measurements(
            table=f"lake.{identifier(question.table)}",
            snapshot=staging.snapshot,
            meter=code,
            fields=tuple(name for name in fields if name not in derived),
            derived=tuple(name for name in derived if name in fields),
            current=frozenset(
                Field(field.category, field.code).column
                for field in (() if meter is None else meter.data_fields)
            ),
            where=condition,
            spreadsheet=staging.request.spreadsheet,
        )
        there = meter_id in stored
        if not (there and connection.execute(*measurements.unusual()).fetchone()):
            measurements = replace(measurements, current=None)
        blocks = rows_of(connection, measurements, staging.format) if there else ()
        yield Sheet(ExportPart(MEASUREMENTS.key_type, meter_id, code), measurements.columns, blocks)


def _aggregated_sheets(
    connection: duckdb.DuckDBPyConnection, staging: ExportStaging, only: str | None
) -> Iterator[Sheet]:
    """What the aggregations of the request give, of every meter that they name."""
    codes, scope = staging.codes[Account], _scope(staging)
    for question in questions_of(staging.request.usage, staging.meters):
        if only not in {None, question.meter_id}:
            continue
        found = MeterAggregate(connection, question, scope, codes)
        blocks = found.blocks(staging.format, spreadsheet=staging.request.spreadsheet)
        part = ExportPart(MEASUREMENTS.key_type, question.meter_id, question.meter)
        yield Sheet(part, found.columns, blocks)


def _of_unknown(meter_id: str, code: str, usage: UsageQueryRequest) -> Question:
    """All measurements of a meter that is gone; what is asked of its fields cannot be answered."""
    if any(each.meter_id == meter_id for each in usage.dimension_filters):
        raise NotFound(Meter.__name__, meter_id)
    return Question(meter_id, code, ())


def _scope(staging: ExportStaging) -> ExplorerScope:
    accounts = staging.request.usage.account_ids or None
    return ExplorerScope(staging.period, ALL_ROWS, accounts, snapshot=staging.snapshot)


def rows_of(
    connection: duckdb.DuckDBPyConnection, measurements: Measurements, format: Format
) -> Iterator[RowBlock]:
    """The measurements of a meter, ordered by uid; DuckDB sorts on disk where memory ends.

    Args:
        connection: Has the lake attached, and a table `account_code(id, code)`.
        measurements: Which ones.
        format: As what they are to be written.
    """
    for batch in connection.execute(*measurements.rows(format)).to_arrow_reader(_ROWS):
        if format is Format.PARQUET:
            yield RowBlock(batch)
        else:
            yield RowBlock(batch.drop_columns([LINE]), batch.column(LINE))


def write_sheet(sheet: Sheet, format: Format, output: RowOutput) -> list[FilePiece]:
    """Write rows as one file or several."""
    if format is Format.PARQUET:
        return write_parquet(sheet.blocks, schema_of(sheet.columns), output)
    header = (
        "".join(csv_lines([[column.name for column in sheet.columns]])).encode()
        if format is Format.CSV
        else b""
    )
    return write_text(sheet.blocks, header, output)


def output_of(staging: ExportStaging, sheet: Sheet) -> RowOutput:
    """Where the files of a sheet are staged."""
    settings = staging.stores.settings
    return RowOutput(
        path=lambda number: staging.path(sheet.part._replace(number=number)),
        numbers=[column.name for column in sheet.columns if column.summed],
        most=staging.request.file_bytes or settings.export_file_bytes,
        threads=settings.threads,
    )


def _watch_blocks(staging: ExportStaging, blocks: Iterable[RowBlock]) -> Iterator[RowBlock]:
    """The same blocks; it is told how far it is, and somebody may stop it."""
    for block in blocks:
        staging.attempt.check()
        yield block
        staging.told.add(block.rows)


def _versions(staging: ExportStaging) -> dict[str, list[Mapping[str, Any]]]:
    """All versions of meters, by the meter's id.

    Versions that are younger than the job matter where measurements came in meanwhile: calculated
    fields that it did not know yet are calculated ones all the same.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    with staging.stores.state.reading(staging.place.org_id) as reader:
        for each in versions(reader, Meter):
            found.setdefault(each["id"], []).append(each)
    return found


def _stored_columns(
    connection: duckdb.DuckDBPyConnection, snapshot: int
) -> dict[str, Sequence[str]]:
    """The columns of every meter that had measurements at the snapshot, by its id."""
    found = {}
    for table in table_names(connection):
        if table.startswith(_METER_TABLE):
            columns = _columns(connection, table, snapshot)
            if columns:
                found[table.removeprefix(_METER_TABLE)] = columns
    return found


def _derived_columns(meter: Meter | None, versions: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns of a meter's derived fields, and behind them of those that it has no more."""
    fields = () if meter is None else meter.derived_fields
    today = [Field(field.category, field.code).column for field in fields]
    sent, ever = (
        {
            Field(Category(field["category"]), field["code"]).column: None
            for version in versions
            for field in version[name]
        }
        for name in ("dataFields", "derivedFields")
    )
    return [*today, *(name for name in ever if name not in today and name not in sent)]


def _columns(
    connection: duckdb.DuckDBPyConnection, table: str, snapshot: int
) -> Sequence[str] | None:
    """The columns of a table in their order."""
    pinned = f"FROM lake.{identifier(table)} AT (VERSION => {snapshot:d})"
    try:
        rows = connection.execute(f"DESCRIBE SELECT * {pinned}").fetchall()
    except duckdb.CatalogException:
        return None  # it is younger than the snapshot
    return [row[0] for row in rows]


def _quantities(
    connection: duckdb.DuckDBPyConnection, staging: ExportStaging
) -> Iterator[Document]:
    """The quantities of the meters and accounts that are asked for."""
    usage, period = staging.request.usage, staging.period or _ALWAYS
    bounds = [instant.replace(tzinfo=None) for instant in (period.start, period.end)]
    connection.execute(quantities_query(staging.snapshot), bounds)
    while rows := connection.fetchmany(_ROWS):
        for row in rows:
            document = quantity_document(row, staging.codes)
            if _among(document["meterId"], usage.meter_ids) and _among(
                document["accountId"], usage.account_ids
            ):
                yield document


def _among(id: str, chosen: Collection[str]) -> bool:
    return not chosen or id in chosen
