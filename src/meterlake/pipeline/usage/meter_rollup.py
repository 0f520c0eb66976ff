"""Measurements to what accounts used: one scan per meter and scope, or SQL of an aggregation's own.

Only `period_usage` calls it, which is the one road to a quantity; a trial of SQL keeps none.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import duckdb

from meterlake.model.bills.bill import MeterUsage, Quantity, Query, Segment
from meterlake.model.catalog.catalog import Aggregation, Meter, Reduce
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.custom_sql import InvalidSql, columns_of
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import Month, Period, aware, zone
from meterlake.stages.usage import aggregate
from meterlake.stages.usage.aggregate import AggregationScope, SegmentFilter
from meterlake.stages.usage.rows import SqlFailure, SqlUsage
from meterlake.stores import Organization
from meterlake.stores.custom_sql import Checker, Sandbox, SqlLimits, check_query, limits_of
from meterlake.stores.lake import quantities
from meterlake.stores.lake.lake import Lake
from meterlake.stores.lake.measurements.groups import groups
from meterlake.stores.lake.tables import columns_at
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

# The scopes that a meter, by id, is aggregated over.
Scopes = Callable[[str], Iterable[aggregate.AggregationScope]]


class MeterSource(NamedTuple):
    """What is read in the place of a meter's table: SQL of a relation, and its columns."""

    sql: str
    columns: Collection[str]


def aggregate_meters(
    lake: Lake,
    configuration: Configuration,
    snapshot: int,
    scopes: Scopes,
    instead: Mapping[str, MeterSource] | None = None,
    chosen: Callable[[Record[Aggregation]], bool] = lambda _: True,
) -> dict[str, list[MeterUsage]]:
    """Aggregate every meter with all its aggregations, but for those with SQL of their own.

    Args:
        lake: The organization's lake.
        configuration: Its meters and aggregations.
        snapshot: The snapshot to read.
        scopes: What of a meter is aggregated; each scope is one scan.
        instead: By the ids of meters, what is read in the place of their tables.
        chosen: Which aggregations are wanted.

    Returns:
        By the id of the meter, what each account used of it.
    """
    used = {}
    with lake.reader() as connection:
        for meter, aggregations in aggregate.by_meter(configuration, chosen):
            source, columns = (instead or {}).get(meter.id) or MeterSource(
                aggregate.table(meter.id, snapshot),
                columns_at(connection, meter_table(meter.id), snapshot),
            )
            if columns:
                rollups = aggregate.rollups(meter.entity, aggregations, columns)
                used[meter.id] = [
                    each
                    for scope in scopes(meter.id)
                    for each in _aggregate(
                        connection, scope.reading(source, meter.entity, columns), rollups, scope
                    )
                ]
    return used


def _aggregate(
    connection: duckdb.DuckDBPyConnection,
    source: str,
    rollups: list[aggregate.Rollup],
    scope: aggregate.AggregationScope,
) -> Iterable[MeterUsage]:
    rollups = [each for each in rollups if scope.folds(each.aggregation.id)]
    statement = aggregate.query(source, rollups, scope)
    rows = quantities.rows(connection, *statement)
    if rows is None or aggregate.needs_wide(rows):
        statement = aggregate.query(source, rollups, scope, wide=True)
        rows = quantities.rows(connection, *statement)
        assert rows is not None, "wide sums do not overflow"
    return scope.restore(aggregate.decode(rollups, rows, statement))


def aggregate_custom_sql(
    lake: Lake,
    configuration: Configuration,
    snapshot: int,
    scopes: Scopes,
    limits: SqlLimits,
    instead: Mapping[str, MeterSource] | None = None,
) -> SqlUsage:
    """Run the SQL of every aggregation that has some, for everybody with measurements.

    Args:
        lake: The organization's lake.
        configuration: Its meters and aggregations.
        snapshot: The snapshot to read.
        scopes: What of a meter is aggregated.
        limits: What the SQL may take; more is a failure of that account only, or of all accounts
            that are left.
        instead: By the ids of meters, what is read in the place of their tables.
    """
    left_out = {record.id for record, _ in aggregate.not_calculated(configuration, check_query)}
    usage = SqlUsage()
    with Sandbox(limits) as sandbox:
        for meter in sorted(configuration.all(Meter), key=lambda each: each.id):
            own = [
                record
                for record in configuration.where(Aggregation, "meter_id", meter.id)
                if record.entity.aggregation is Reduce.CUSTOM_SQL and record.id not in left_out
            ]
            if own:
                run = _Run(lake, meter, snapshot, sandbox, usage, (instead or {}).get(meter.id))
                run.all(sorted(own, key=lambda each: each.id), scopes(meter.id))
    return usage


def trial(organization: Organization, code: str, month: Month, sql: str | None = None) -> SqlUsage:
    """Evaluate an aggregation, or SQL in its place, and keep nothing.

    Args:
        organization: The organization.
        code: The aggregation: its meter is read, and its segments count.
        month: In the organization's time zone.
        sql: What is run instead of the aggregation.

    Raises:
        NotFound: There is no such organization or aggregation.
        Invalid: The SQL is not allowed.
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        record = reader.find(Aggregation, code)
    if record is None:
        raise NotFound("aggregation", code)
    if sql is None:
        return try_aggregation(organization, record.entity, month)
    changes = {"custom_sql": sql, "aggregation": Reduce.CUSTOM_SQL}
    return try_aggregation(organization, record.entity.model_copy(update=changes), month)


def try_aggregation(
    organization: Organization,
    aggregation: Aggregation,
    month: Month,
    account_ids: Collection[str] | None = None,
) -> SqlUsage:
    """What an aggregation gives, also one that is not stored; nothing is kept.

    Args:
        organization: The organization.
        aggregation: The aggregation; its meter exists.
        month: In the organization's time zone.
        account_ids: Whose usage; everybody's if None.

    Raises:
        Invalid: Its SQL is not allowed.
        Unavailable: A store failed.
    """
    with organization.reading() as reader:
        configuration = StoredConfiguration(reader)
        meter = configuration.get(Meter, aggregation.meter_id)
        tz = zone(configuration.single(OrganizationConfig).entity.timezone)
    now = organization.now()
    record = Record(derived_id(meter.id, "trial"), 1, aggregation, now, SYSTEM, now, SYSTEM)
    scope = aggregate.whole(month.period(tz), account_ids)
    lake = organization.lake
    if aggregation.aggregation is not Reduce.CUSTOM_SQL:
        tried = Configuration([meter, record])
        found = aggregate_meters(lake, tried, lake.snapshot(), lambda _: [scope])
        usage = SqlUsage()
        usage.by_meter.update(found)
        return usage
    return _try_sql(organization, meter, record, scope)


def _try_sql(
    organization: Organization,
    meter: Record[Meter],
    record: Record[Aggregation],
    scope: AggregationScope,
) -> SqlUsage:
    limits, sql = limits_of(organization.settings), record.entity.custom_sql
    if not sql:
        raise Invalid("customSql", sql, "it must be the SQL of the aggregation")
    try:
        with Checker(limits) as checker:
            checker.check(sql, columns_of(meter.entity))
            checker.bind(sql, columns_of(meter.entity))
    except InvalidSql as error:
        raise Invalid("sql", sql, str(error)) from None
    lake, usage = organization.lake, SqlUsage()
    with Sandbox(limits) as sandbox:
        _Run(lake, meter, lake.snapshot(), sandbox, usage).all([record], [scope])
    return usage


_RUN_AGAIN: Final = """\
WITH measurements AS (
SELECT * EXCLUDE (k0, k1, k2, k3) FROM (
{query}
) {only}
)
SELECT * FROM (
{sql}
)"""


@dataclass(frozen=True, slots=True)
class _Run:
    lake: Lake
    meter: Record[Meter]
    snapshot: int
    sandbox: Sandbox
    usage: SqlUsage
    instead: MeterSource | None = None

    def all(
        self, aggregations: list[Record[Aggregation]], scopes: Iterable[AggregationScope]
    ) -> None:
        with self.lake.reader() as connection:
            source = self.instead or MeterSource(
                aggregate.table(self.meter.id, self.snapshot),
                columns_at(connection, meter_table(self.meter.id), self.snapshot),
            )
            if not source.columns:
                return
            alike: Mapping[SegmentFilter | None, list[Record[Aggregation]]] = defaultdict(list)
            for each in aggregations:
                segment_filter = aggregate.segment_filter_of(
                    each.entity, self.meter.entity, source.columns
                )
                alike[segment_filter].append(each)
            for scope in scopes:
                for segment_filter, records in alike.items():
                    needed = [each for each in records if scope.folds(each.id)]
                    if needed:
                        self._scan(connection, source, _Scan(segment_filter, needed, scope))

    def _scan(
        self,
        connection: duckdb.DuckDBPyConnection,
        source: MeterSource,
        scan: "_Scan",
    ) -> None:
        segment_filter, records, scope = scan
        read = source._replace(sql=scope.reading(source.sql, self.meter.entity, source.columns))
        query = self._query(read, segment_filter, scope)
        # Of one account and period; the text is the same for all of them.
        text, values = self._query(read, segment_filter, aggregate.whole(scope.period, [""]))
        values |= {name: each for name, each in scope.parameters.items() if f"${name}" in read.sql}
        for (account_id, start, end, number), rows in groups(connection, *query, aggregate.KEYS):
            self.sandbox.put(rows)
            period = Period(aware(start), aware(end))
            own = Query(text, {**values, "start": start, "end": end, "accounts": [account_id]})
            account = scope.account_of(account_id)
            part = _Part(*account, period, rows.num_rows, segment_filter, number, own)
            for record in records:
                self._one(record, part)

    def _query(
        self, source: MeterSource, segment_filter: SegmentFilter | None, scope: AggregationScope
    ) -> Query:
        return aggregate.measurements(
            source.sql, self.meter.entity, source.columns, segment_filter, scope
        )

    def _one(self, record: Record[Aggregation], part: "_Part") -> None:
        sql = record.entity.custom_sql
        assert sql is not None, record.id
        try:
            value = self.sandbox.value(sql, record.id)
        except InvalidSql as error:
            name = record.entity.code or record.entity.name
            detail = f"aggregation {name!r} of account {part.account_id}: {error}"
            self.usage.failures.append(
                SqlFailure(
                    *(record.id, part.account_id, part.period, part.segment, detail, part.selection)
                )
            )
            return
        used = MeterUsage(
            part.account_id,
            part.period,
            part.measurements,
            statement=part.statement(sql),
            selection=part.selection,
        )
        if value is not None:
            made = Quantity.of(part.account_id, record, part.period, value, part.measurements)
            listed = used.unmatched if part.unmatched else used.quantities
            listed.append(made._replace(segment=part.segment, selection=part.selection))
        self.usage.by_meter[record.entity.meter_id].append(used)


class _Scan(NamedTuple):
    """Aggregations of the same segments, and which measurements they are about."""

    segment_filter: SegmentFilter | None
    aggregations: list[Record[Aggregation]]
    scope: AggregationScope


@dataclass(frozen=True, slots=True)
class _Part:
    """The measurements of one account in one period, and in one segment if there are any.

    Attributes:
        selection: Which of them; all if None.
        query: What reads them, and nothing but them unless there are segments.
    """

    account_id: str
    selection: UsageSelection | None
    period: Period
    measurements: int
    segment_filter: SegmentFilter | None
    number: int | None
    query: Query

    @property
    def segment(self) -> Segment | None:
        return (
            self.segment_filter.segment(self.number)
            if self.segment_filter and self.number is not None
            else None
        )

    @property
    def unmatched(self) -> bool:
        return self.segment_filter is not None and self.segment is None

    def statement(self, sql: str) -> Query:
        """The SQL with what it reads, as it can be run on the lake."""
        segment = {} if self.segment_filter is None else {"segment_number": self.number}
        text = _RUN_AGAIN.format(
            query=self.query.sql,
            only="WHERE k3 IS NOT DISTINCT FROM $segment_number" if segment else "",
            sql=sql.rstrip().rstrip(";"),
        )
        return Query(text, {**self.query.parameters, **segment})
