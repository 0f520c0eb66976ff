"""Folded usage in an export: the rows that the Data Explorer answers, without its limit."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import duckdb
import pyarrow as pa

from meterlake.model.catalog.catalog import Reduce
from meterlake.model.values.money import plain
from meterlake.model.work.export_request import Format
from meterlake.pipeline.explorer.answers import ExplorerTable
from meterlake.pipeline.explorer.explore import add_codes, combine_rows
from meterlake.pipeline.export.files import schema_of
from meterlake.pipeline.export.rows import RowBlock
from meterlake.stages.decode.csv_lines import csv_lines
from meterlake.stages.export.column_kinds import ExportColumn, Kind, cell, formula_free_cell
from meterlake.stages.usage.explore import ExplorerScope, Question, aggregate_query, large
from meterlake.stores.lake.tables import columns_at

_ROWS: Final = 8192
_COUNTS: Final = frozenset({Reduce.COUNT, Reduce.UNIQUE})


class MeterAggregate:
    """The folded usage of one meter.

    Attributes:
        columns: Those of the Data Explorer's rows: the meter, the groups, the folded fields.
    """

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        question: Question,
        scope: ExplorerScope,
        codes: Mapping[str, str],
    ) -> None:
        """Look at what there is.

        Args:
            connection: Has the lake attached; stays open while rows are read.
            question: With folds.
            scope: Which measurements, at which snapshot.
            codes: Of the accounts, by their ids.
        """
        assert scope.snapshot is not None
        self._connection = connection
        self._question = question
        self._scope = scope
        self._codes = codes
        self._present = columns_at(connection, question.table, scope.snapshot)
        self._wide = False
        if self._present:
            row = connection.execute(*large(question, self._present, scope)).fetchone()
            assert row is not None
            self._wide = bool(row[0])
        self.columns = tuple(self._columns())

    def blocks(self, format: Format, *, spreadsheet: bool) -> Iterator[RowBlock]:
        """All rows, in the order of the answer.

        Args:
            format: Of which lines are made.
            spreadsheet: Whether texts of CSV are marked.
        """
        if not self._present:
            return
        statement = aggregate_query(self._question, self._present, self._scope, wide=self._wide)
        self._connection.execute(*statement)
        while rows := self._connection.fetchmany(_ROWS):
            table = add_codes(self._question, combine_rows(rows), self._codes)
            yield self._block(table, format, spreadsheet=spreadsheet)

    def _columns(self) -> Iterator[ExportColumn]:
        table = add_codes(self._question, [], self._codes)
        kinds = {
            group.key: Kind.INSTANT if group.newest_first else Kind.TEXT
            for group in self._question.groups
        }
        kinds |= {rollup.key: self._kind(rollup.key) for rollup in self._question.rollups}
        for name in (*table.fixed, *table.keys):
            yield ExportColumn(name, kinds.get(name, Kind.TEXT))

    def _kind(self, key: str) -> Kind:
        """What a folded field holds; its key ends with how it was folded."""
        reduce = Reduce(key.rpartition(".")[2])
        if reduce in _COUNTS:
            return Kind.COUNT
        exact = reduce is Reduce.MEAN or (reduce is Reduce.SUM and self._wide)
        return Kind.EXACT if exact else Kind.NUMBER

    def _block(self, table: ExplorerTable, format: Format, *, spreadsheet: bool) -> RowBlock:
        schema = schema_of(self.columns)
        rows = [(*table.fixed.values(), *row) for row in table.rows]
        arrays = [
            pa.array([_convert(value, column.kind) for value in values], kind)
            for column, values, kind in zip(
                self.columns, zip(*rows, strict=True), schema.types, strict=True
            )
        ]
        block = RowBlock(pa.record_batch(arrays, schema=schema))
        match format:
            case Format.PARQUET:
                return block
            case Format.JSONL:
                lines = [f"{text}\n" for text in table.texts()]
            case Format.CSV:
                kinds = [column.kind for column in self.columns]
                cells = (
                    [
                        _cell(value, kind, spreadsheet=spreadsheet)
                        for value, kind in zip(row, kinds, strict=True)
                    ]
                    for row in rows
                )
                lines = list(csv_lines(cells))
        return block._replace(lines=pa.array(lines, pa.string()))


def _cell(value: Any, kind: Kind, *, spreadsheet: bool) -> str:
    if kind is Kind.INSTANT and isinstance(value, datetime):
        return f"{value.isoformat()}Z"  # as the answer has it
    return (formula_free_cell if spreadsheet else cell)(value, kind)


def _convert(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    match kind:
        case Kind.EXACT:
            return plain(value)
        case Kind.COUNT:
            return int(value)
        case Kind.NUMBER:
            return Decimal(value)
        case _:
            return value
