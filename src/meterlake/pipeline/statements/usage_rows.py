"""The usage behind the lines of a bill, by time and dimensions, as a statement definition says."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from decimal import Decimal
from typing import Final, NamedTuple

import duckdb

from meterlake.model.bills.statements import AggregatedUsage, StatementRow
from meterlake.model.catalog.catalog import Meter, Reduce
from meterlake.model.configuration.statements import (
    AggregationFrequency,
    Dimension,
    Measure,
    StatementDefinition,
)
from meterlake.model.errors import Invalid
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.usage.explorer import ACCOUNT, AccountAttribute
from meterlake.model.values.money import ZERO
from meterlake.model.values.period import Period, naive
from meterlake.model.values.sql import identifier
from meterlake.pipeline.billing.line_usage import LineUsage, read_line_source
from meterlake.stages.usage import aggregate
from meterlake.stages.usage.aggregate import segments
from meterlake.stages.usage.statement_rows import (
    ADDITIVE,
    OWN_ACCOUNT,
    FieldValue,
    RowGroup,
    RowsQuestion,
    UsageDetail,
    needs_wide_rows,
    read_rows,
    rows_query,
    split_time,
)
from meterlake.stores.lake import quantities
from meterlake.stores.lake.connection import translate_errors
from meterlake.stores.lake.tables import columns_at
from meterlake.stores.state.core.account_names import AccountName

# A copy costs as much as two or three lines that read the lake.
LINES_MIN: Final = 3
# More are read where they are: a copy of them would take memory.
MEASUREMENTS_MAX: Final = 100_000
_Key = tuple[str, int]


class NearbyUsage:
    """What stands for the tables of meters while the lines of one bill are read."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, usages: Iterable[LineUsage]) -> None:
        self._connection = connection
        self._usages: dict[_Key, list[LineUsage]] = defaultdict(list)
        for each in usages:
            self._usages[each.meter_id, each.snapshot].append(each)
        self._tables: dict[_Key, str] = {}

    def table(self, usage: LineUsage) -> str:
        """The SQL of the measurements among which those of a line are, at the line's snapshot.

        Raises:
            Unavailable: The lake failed.
        """
        key = usage.meter_id, usage.snapshot
        if key not in self._tables:
            self._tables[key] = self._copy(key)
        return self._tables[key]

    def _copy(self, key: _Key) -> str:
        """The table of a meter, or a copy of what lines need of it where that is little."""
        usages, stored = self._usages[key], aggregate.table(*key)
        if len(usages) < LINES_MIN:
            return stored
        name = identifier(f"nearby_{len(self._tables)}")
        periods = [each.period for each in usages]
        bound = {
            "accounts": _accounts(usages),
            "start": naive(min(each.start for each in periods)),
            "end": naive(max(each.end for each in periods)),
        }
        query = f"""CREATE TEMP TABLE {name} AS FROM {stored}
            WHERE account_id IN (SELECT unnest($accounts)) AND ts >= $start AND ts < $end
            LIMIT {MEASUREMENTS_MAX + 1}"""
        with translate_errors():
            self._connection.execute(query, bound)
            [[count]] = self._connection.execute(f"SELECT count(*) FROM {name}").fetchall()
            if count <= MEASUREMENTS_MAX:
                return f"temp.{name}"
            self._connection.execute(f"DROP TABLE temp.{name}")
        return stored


def _accounts(usages: Sequence[LineUsage]) -> list[str]:
    """Whose measurements count for some lines."""
    own = {each.account_id for each in usages if not each.pool}
    pooled = {account_id for each in usages for _, account_id, _ in each.pool}
    return sorted(own | pooled)


ROWS_MAX: Final = 1_000_000
ALL_VALUES: Final = "*"
# What can be made of a number, and of a text.
_OF_NUMBERS: Final = (
    *(Reduce.SUM, Reduce.MIN, Reduce.MAX, Reduce.COUNT),
    *(Reduce.LATEST, Reduce.MEAN, Reduce.UNIQUE),
)
_OF_TEXTS: Final = (Reduce.COUNT, Reduce.UNIQUE)
# Their quantity is no aggregate of a row: it needs what was before it, or all measurements.
_WHOLE_ONLY: Final = {Reduce.CUSTOM_SQL, Reduce.TIME_WEIGHTED_AVERAGE}
_WITH_OWN_ACCOUNT: Final = f"(SELECT *, account_id AS {OWN_ACCOUNT} FROM {{table}})"

Names = Callable[[Collection[str]], dict[str, AccountName]]


class AccountNames(NamedTuple):
    """Looks accounts up: by their ids, and by their codes."""

    by_id: Names
    by_code: Names


class _NamedGroup(NamedTuple):
    dimension: Dimension
    group: RowGroup


class _NamedValue(NamedTuple):
    field: str
    value: FieldValue


@dataclass(frozen=True, slots=True)
class _Shape:
    """What rows have, of a line of one meter."""

    groups: Sequence[_NamedGroup]
    quantity: FieldValue
    measures: Sequence[_NamedValue]


class UsageRows:
    """Reads the usage behind lines; all rows of a statement together have a limit."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        layout: StatementDefinition,
        tz: tzinfo,
        names: AccountNames,
        nearby: NearbyUsage,
    ) -> None:
        self._connection = connection
        self._nearby = nearby
        self._layout = layout
        self._tz = tz
        self._names = names
        self._left = ROWS_MAX
        self._known_columns: dict[tuple[str, int], set[str]] = {}

    def read(self, usage: LineUsage, quantity: Decimal | None) -> AggregatedUsage:
        """What one aggregation reads for a line.

        Args:
            usage: What the line charges for.
            quantity: Of all lines that charge for it; None if no line says so.

        Raises:
            Invalid: The statement has more rows than it may have.
        """
        entity = usage.aggregation
        key = usage.meter_id, usage.snapshot
        if key not in self._known_columns:
            table = meter_table(usage.meter_id)
            self._known_columns[key] = columns_at(self._connection, table, usage.snapshot)
        columns = self._known_columns[key]
        shape = self._shape(usage, columns)
        times = split_time(usage.period, self._layout.aggregation_frequency, self._tz)
        details = self._details(usage, shape, times, columns) if columns else []
        rows = list(self._rows(shape, times, details, entity.aggregation))
        whole = self._layout.aggregation_frequency is AggregationFrequency.WHOLE_PERIOD
        is_whole = whole and not shape.groups
        if is_whole and entity.aggregation in _WHOLE_ONLY and rows:
            rows = [rows[0]._replace(quantity=quantity)]
        return AggregatedUsage(
            meter_id=usage.meter_id,
            meter_code=usage.meter.code,
            aggregation_name=entity.name,
            aggregation_code=entity.code,
            kind=entity.aggregation,
            field=entity.target_field,
            is_additive=entity.aggregation in ADDITIVE,
            quantity=quantity,
            filtered=any(each.group.values is not None for each in shape.groups),
            rows=rows,
        )

    def _details(
        self,
        usage: LineUsage,
        shape: _Shape,
        times: Sequence[Period],
        columns: Collection[str],
    ) -> list[UsageDetail]:
        table = self._nearby.table(usage)
        found = read_line_source(usage, columns, _WITH_OWN_ACCOUNT.replace("{table}", table))
        question = RowsQuestion(
            source=found.sql,
            where=found.where,
            parameters=found.parameters,
            times=times,
            groups=[each.group for each in shape.groups],
            values=[shape.quantity, *(each.value for each in shape.measures)],
            most=self._left + 1,
        )
        rows = quantities.rows(self._connection, *rows_query(question))
        if rows is None or needs_wide_rows(rows):
            rows = quantities.rows(self._connection, *rows_query(question, wide=True))
            assert rows is not None, "wide sums do not overflow"
        return read_rows(question, rows)

    def _rows(
        self,
        shape: _Shape,
        times: Sequence[Period],
        details: Sequence[UsageDetail],
        kind: Reduce,
    ) -> Iterator[StatementRow]:
        places = [n for n, each in enumerate(shape.groups) if each.dimension.name == ACCOUNT]
        ids = {each.groups[place] for each in details for place in places}
        names = self._names.by_id({each for each in ids if each is not None}) if ids else {}
        for each in self._with_empty_times(shape, times, details, kind):
            self._left -= 1
            if self._left < 0:
                rule = f"there may be at most {ROWS_MAX:,}; choose a coarser frequency or fewer dimensions"
                raise Invalid("statement rows", f"more than {ROWS_MAX:,}", rule)
            quantity, *measured = each.values
            measures: dict[str, dict[str, Decimal | None]] = {}
            for (field, value), number in zip(shape.measures, measured, strict=True):
                measures.setdefault(field, {})[value.reduce.value] = number
            yield StatementRow(
                period=times[each.number],
                dimensions=dict(_dimensions(shape.groups, each.groups, names)),
                measurements=each.measurements,
                quantity=quantity,
                measures=measures,
            )

    def _with_empty_times(
        self,
        shape: _Shape,
        times: Sequence[Period],
        details: Sequence[UsageDetail],
        kind: Reduce,
    ) -> Iterator[UsageDetail]:
        """The rows, and one for each time without any, unless the statement is slim."""
        if self._layout.generate_slim_statements:
            yield from details
            return
        reductions = [kind, *(each.value.reduce for each in shape.measures)]
        values = tuple(ZERO if each in ADDITIVE else None for each in reductions)
        by_time: dict[int, list[UsageDetail]] = {}
        for each in details:
            by_time.setdefault(each.number, []).append(each)
        groups = (None,) * len(shape.groups)
        for number in range(len(times)):
            yield from by_time.get(number) or [UsageDetail(number, groups, 0, values)]

    def _shape(self, usage: LineUsage, columns: Collection[str]) -> _Shape:
        entity, meter = usage.aggregation, usage.meter
        target = segments.column(meter, entity.target_field)
        reduce = entity.aggregation
        quantity = FieldValue(target if target in columns else None, reduce, entity.percentile)
        groups: list[_NamedGroup] = []
        mine = {
            each.name: each
            for each in reversed(self._layout.dimensions)
            if each.meter_id in {None, usage.meter_id}
        }
        for each in dict.fromkeys(each.name for each in self._layout.dimensions):
            if each in mine:
                group = self._group(mine[each], usage.meter, columns)
                if group is not None:
                    groups.append(_NamedGroup(mine[each], group))
        return _Shape(
            groups=groups,
            quantity=quantity,
            measures=list(self._measures(usage, columns)),
        )

    def _group(
        self, dimension: Dimension, meter: Meter, columns: Collection[str]
    ) -> RowGroup | None:
        """The rows of a dimension; None if the meter has no such field."""
        values = None if ALL_VALUES in dimension.filter else dimension.filter
        if dimension.name == ACCOUNT:
            if values is not None:
                known = self._names.by_code(values)
                values = tuple(each.id for each in known.values())
            return RowGroup(OWN_ACCOUNT, values)
        category = meter.category(dimension.name)
        if category is None or category.numeric:
            return None
        column = segments.column(meter, dimension.name)
        return RowGroup(column if column in columns else None, values)

    def _measures(self, usage: LineUsage, columns: Collection[str]) -> Iterator[_NamedValue]:
        found: dict[tuple[str, Reduce], _NamedValue] = {}
        for measure in self._layout.measures:
            if measure.meter_id in {None, usage.meter_id}:
                for each in _values_of(measure, usage.meter, columns):
                    found.setdefault((each.field, each.value.reduce), each)
        yield from found.values()


def _values_of(measure: Measure, meter: Meter, columns: Collection[str]) -> Iterator[_NamedValue]:
    """The values of a measure; of one without a name, those of all number fields."""
    for field in meter.all_fields:
        numeric = field.category.numeric
        if field.code != measure.name if measure.name else not numeric:
            continue
        column = segments.column(meter, field.code)
        for reduce in measure.aggregations or (Reduce.SUM,):
            if reduce in (_OF_NUMBERS if numeric else _OF_TEXTS):
                present = column if column in columns else None
                yield _NamedValue(field.code, FieldValue(present, reduce))


def _dimensions(
    groups: Sequence[_NamedGroup],
    values: Sequence[str | None],
    names: dict[str, AccountName],
) -> Iterator[tuple[str, str | None]]:
    """The values of a row by name; of an account, what its attributes ask for, too."""
    for (dimension, _), value in zip(groups, values, strict=True):
        if dimension.name != ACCOUNT:
            yield dimension.name, value
            continue
        account = names.get(value or "")
        yield ACCOUNT, account and account.code
        if AccountAttribute.ID in dimension.attributes:
            yield "accountId", value
        if AccountAttribute.NAME in dimension.attributes:
            yield "accountName", account and account.name
