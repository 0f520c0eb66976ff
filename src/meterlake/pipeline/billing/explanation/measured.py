"""Quantities of an explained bill: the SQL that gives them, and the measurements behind them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import cached_property
from typing import Any, Final

import duckdb

from meterlake.model.bills.bill import Quantity, Query
from meterlake.model.bills.explanation import ExplainedNumber
from meterlake.model.catalog.catalog import Aggregation, Meter, Reduce
from meterlake.model.configuration.statements import AggregationFrequency
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import Period, aware, format_instant
from meterlake.model.values.sql import identifier
from meterlake.pipeline.billing.calculation.account_bills import BillCalculation
from meterlake.pipeline.billing.line_usage import LineUsage, read_line_source
from meterlake.stages.bill.bills import DraftedBill
from meterlake.stages.usage import aggregate
from meterlake.stages.usage.aggregate import segments
from meterlake.stages.usage.aggregate.statement import (
    average_query,
    inline_parameters,
    quantity_query,
)
from meterlake.stages.usage.aggregate.time_weighted import lasting
from meterlake.stages.usage.statement_rows import (
    ADDITIVE,
    FieldValue,
    RowsQuestion,
    UsageDetail,
    needs_wide_rows,
    read_rows,
    rows_query,
    split_time,
)
from meterlake.stores.lake import quantities
from meterlake.stores.lake.measurements.rows import (
    HOLDS_IN_TIME,
    NEWEST_FIRST,
    MeasurementQuery,
    read_first,
    read_measurements,
    stream_measurements,
)
from meterlake.stores.lake.tables import columns_at

Pools = Mapping[str, list[tuple[str, str, Period]]]

# Which measurements are the quantity, if not all of them together are.
_DECIDING: Final = {
    Reduce.MAX: "the largest value",
    Reduce.MIN: "the smallest value",
    Reduce.LATEST: "the last value",
    Reduce.PERCENTILE: "the value at the rank",
    Reduce.UNIQUE: "the first of each value",
}
_OF_ALL: Final = {
    Reduce.SUM: "all of them together",
    Reduce.COUNT: "each that has a value",
    Reduce.MEAN: "all of them together",
    Reduce.TIME_WEIGHTED_AVERAGE: "each by how long its value holds",
    Reduce.CUSTOM_SQL: "as the SQL says",
}
# Of those with the same value, a few are shown.
_DECIDING_MAX: Final = 3


@dataclass(frozen=True)
class MeasuredQuantities:
    """Looks up what quantities were measured from.

    Attributes:
        connection: Reads the lake.
        rows: How many measurements are shown of each quantity; the SQL alone if 0.
        newest: Whether they are the newest ones; the oldest if not.
        days: The time zone in whose days each quantity is shown, too; by no days if None.
    """

    connection: duckdb.DuckDBPyConnection
    calculation: BillCalculation
    drafted: DraftedBill
    rows: int
    newest: bool = False
    days: tzinfo | None = None
    columns: dict[str, frozenset[str]] = field(default_factory=dict)

    def attach(self, number: ExplainedNumber) -> ExplainedNumber:
        """A number with its SQL and measurements, if it was measured."""
        quantity = number.source
        if quantity is None:
            return number
        usage = self._usage_of(quantity)
        facts = {**number.facts, "statement": self._statement(quantity, usage)}
        number = replace(number, facts=facts, days=self._by_day(usage))
        query = self._query(usage)
        if query is None or not self.rows:
            return number
        facts["decides"] = self._deciding(usage, query, quantity)
        if self.newest:
            query = replace(query, order=NEWEST_FIRST)
        found = read_first(self.connection, query, self.rows + 1, quantity.measurements)
        shown = [_measurement(each) for each in found[: self.rows]]
        return replace(number, measurements=shown, more=len(found) > self.rows)

    def stream(self, quantity: Quantity) -> Iterator[dict[str, Any]]:
        """All measurements of a quantity, the oldest first."""
        query = self._query(self._usage_of(quantity))
        for each in () if query is None else stream_measurements(self.connection, query):
            yield _measurement(each)

    def _by_day(self, usage: LineUsage) -> list[dict[str, Any]]:
        """What its aggregation makes of each day alone, if anybody asks for that."""
        columns = self._columns(usage)
        if self.days is None or not columns:
            return []
        source, column = read_line_source(usage, columns), _column(usage)
        aggregation = usage.aggregation
        present = column if column in columns else None
        times = split_time(usage.period, AggregationFrequency.DAY, self.days)
        question = RowsQuestion(
            source=source.sql,
            where=source.where,
            parameters=source.parameters,
            times=times,
            groups=(),
            values=[FieldValue(present, aggregation.aggregation, aggregation.percentile)],
            most=len(times) + 1,
        )
        rows = quantities.rows(self.connection, *rows_query(question))
        if rows is None or needs_wide_rows(rows):
            rows = quantities.rows(self.connection, *rows_query(question, wide=True))
            assert rows is not None, "wide sums do not overflow"
        found = {each.number: each for each in read_rows(question, rows)}
        nothing = (ZERO if aggregation.aggregation in ADDITIVE else None,)
        empty = UsageDetail(0, (), 0, nothing)
        return [
            _day(time, found.get(number, empty), self.days) for number, time in enumerate(times)
        ]

    @cached_property
    def pools(self) -> Pools:
        """By the ids of usage, whose measurements count when."""
        bill = self.drafted.draft.bill
        found = (each.pool for each in (*bill.plan_periods, *bill.shared))
        return {id_: times for pool in found if pool for id_, times in pool.times()}

    def _usage_of(self, quantity: Quantity) -> LineUsage:
        configuration = self.calculation.maker.inputs.configuration
        aggregation = configuration.get(Aggregation, quantity.aggregation_id).entity
        return LineUsage(
            snapshot=self.calculation.maker.inputs.snapshot,
            meter_id=aggregation.meter_id,
            meter=configuration.get(Meter, aggregation.meter_id).entity,
            aggregation=aggregation,
            account_id=quantity.account_id,
            pool=self.pools.get(quantity.account_id, ()),
            period=quantity.period,
            segment=quantity.segment,
            selection=quantity.selection,
        )

    def _columns(self, usage: LineUsage) -> frozenset[str]:
        found = self.columns.get(usage.meter_id)
        if found is None:
            table = meter_table(usage.meter_id)
            found = frozenset(columns_at(self.connection, table, usage.snapshot) or ())
            self.columns[usage.meter_id] = found
        return found

    def _statement(self, quantity: Quantity, usage: LineUsage) -> str | None:
        """SQL that gives the quantity again."""
        kind = usage.aggregation.aggregation
        if kind is Reduce.CUSTOM_SQL:
            for used in self.calculation.usage.by_meter.get(quantity.meter_id, ()):
                if used.statement is not None and any(each is quantity for each in used.quantities):
                    return inline_parameters(used.statement)
            return None
        if kind is Reduce.TIME_WEIGHTED_AVERAGE:
            return inline_parameters(self._average(quantity, usage))
        columns, column = self._columns(usage), _column(usage)
        if column not in columns:
            return None
        source = read_line_source(usage, columns)
        values = source.parameters
        query = quantity_query(source.sql, source.where, values, usage.aggregation, column)
        return inline_parameters(query)

    def _average(self, quantity: Quantity, usage: LineUsage) -> Query:
        """The query of a time-weighted average: what holds already when the time begins counts."""
        configuration = self.calculation.maker.inputs.configuration
        record = configuration.get(Aggregation, quantity.aggregation_id)
        columns = self._columns(usage)
        selections = [] if usage.selection is None else [usage.selection]
        window = [(usage.account_id, usage.period)]
        scope = aggregate.windows(window, selections=selections, pools=usage.pool)
        source = scope.reading(
            aggregate.table(usage.meter_id, usage.snapshot), usage.meter, columns
        )
        [rollup] = aggregate.rollups(usage.meter, [record], columns)
        return average_query(source, rollup, scope, usage.segment)

    def _query(self, usage: LineUsage) -> MeasurementQuery | None:
        """What reads the measurements of a quantity; None if its meter has none."""
        columns = self._columns(usage)
        if not columns:
            return None
        source = read_line_source(usage, columns)
        column = _column(usage)
        value = f"m.{identifier(column)}" if column in columns else "NULL"
        found = MeasurementQuery(
            source=source.sql, where=source.where, parameters=source.parameters, value=value
        )
        if usage.aggregation.aggregation is Reduce.TIME_WEIGHTED_AVERAGE and column in columns:
            # The measurements of a time-weighted average, with the microseconds that
            # each holds.
            held = (
                "epoch_us(least(m.until1, CAST($end AS TIMESTAMP)))"
                " - epoch_us(greatest(m.ts, CAST($start AS TIMESTAMP)))"
            )
            return replace(
                found,
                source=lasting(found.source, column, source.segment_filter),
                begun=HOLDS_IN_TIME,
                more=f", {held} AS microseconds",
            )
        return found

    def _deciding(
        self, usage: LineUsage, query: MeasurementQuery, quantity: Quantity
    ) -> dict[str, Any]:
        """Which measurements the quantity is."""
        kind = usage.aggregation.aggregation
        if kind not in _DECIDING or query.value == "NULL":
            return {"by": _OF_ALL.get(kind, _DECIDING.get(kind, ""))}
        has_value = f"{query.value} IS NOT NULL"
        if kind is Reduce.LATEST:
            newest = query.restrict(has_value, NEWEST_FIRST)
            found = read_first(self.connection, newest, 1, quantity.measurements)
        elif kind is Reduce.UNIQUE:
            first = f"row_number() OVER (PARTITION BY {query.value} ORDER BY m.ts, m.uid) = 1"
            firsts = query.restrict(f"{has_value} QUALIFY {first}")
            found = read_measurements(self.connection, firsts, self.rows)
        else:
            same = query.restrict(f"{query.value} = $quantity", quantity=quantity.value)
            found = read_measurements(self.connection, same, _DECIDING_MAX)
        return {"by": _DECIDING[kind], "measurements": [_measurement(each) for each in found]}


def _column(usage: LineUsage) -> str:
    return segments.column(usage.meter, usage.aggregation.target_field)


def _day(time: Period, detail: UsageDetail, tz: tzinfo) -> dict[str, Any]:
    [quantity] = detail.values
    day = time.start.astimezone(tz).date()
    return {"day": day, "quantity": quantity, "measurements": detail.measurements}


def _measurement(found: Mapping[str, Any]) -> dict[str, Any]:
    shown = {
        "file": found["file"],
        "row": found["row"],
        "part": found["part"],
        "uid": found["uid"],
        "ts": format_instant(aware(found["ts"])),
        "receivedAt": format_instant(aware(found["received_at"])),
        "value": found["value"],
    }
    if "microseconds" in found:
        shown["microseconds"] = found["microseconds"]
    return shown
