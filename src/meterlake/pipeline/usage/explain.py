"""The verb `explain`: a quantity down to the measurements that it was made of."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import duckdb

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter, Reduce
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.usage.quantity import SIMPLE, Pooled, quantity_unit
from meterlake.model.values import wire
from meterlake.model.values.entity import Record
from meterlake.model.values.period import Period, aware
from meterlake.model.values.sql import identifier
from meterlake.pipeline.usage.outdated import QuantityNow, identity_of, outdated_quantities
from meterlake.stages.usage import aggregate
from meterlake.stages.usage.aggregate import segments
from meterlake.stages.usage.aggregate.time_weighted import lasting
from meterlake.stores import Organization
from meterlake.stores.lake import quantity_runs
from meterlake.stores.lake.measurements.rows import (
    HOLDS_IN_TIME,
    IN_TIME,
    MeasurementQuery,
    read_measurements,
)
from meterlake.stores.lake.tables import columns_at, newest_snapshot
from meterlake.stores.state import Reader


@dataclass(frozen=True, slots=True)
class Explained:
    """One quantity and what it comes from.

    Attributes:
        row: The row of the lake's table `quantity`, with the statement that gave it.
        account: The account's code.
        aggregation: The aggregation's code.
        quantity_unit: What the quantity is a number of; None if nothing says so.
        snapshot_kept: Whether the statement can be run as it stands. Later on its snapshot can
            be forgotten; then the measurements are those of today without what came after it.
        measurements: The first of them, with file and row.
        more: Whether there are others.
        now: What the quantity would be if it were calculated now; None if it would be the same.
        parts: Of a compound aggregation, the quantities that it was calculated from.
    """

    row: Mapping[str, Any]
    account: str
    aggregation: str
    snapshot_kept: bool
    quantity_unit: str | None = None
    measurements: Sequence[Mapping[str, Any]] = ()
    more: bool = False
    now: QuantityNow | None = None
    parts: Sequence["Explained"] = field(default_factory=tuple)

    def to_wire(self) -> dict[str, Any]:
        """The object of `--json`."""
        row = self.row
        optional = {
            "segment": row["segment"] and wire.loads(row["segment"]),
            "pooled": row["pooled"],
            "quantityUnit": self.quantity_unit,
            "statement": row["sql"],
            "parameters": row["parameters"] if row["sql"] else None,
            "now": self.now and self.now.to_wire(),
        }
        return {
            "account": self.account,
            "aggregation": self.aggregation,
            "kind": row["kind"] or SIMPLE,
            "frequency": row["frequency"],
            "period": row["period"],
            "periodStart": aware(row["period_start"]),
            "periodEnd": aware(row["period_end"]),
            "quantity": Decimal(row["quantity"]),
            "units": Decimal(row["units"]),
            "unit": row["unit"],
            "aggregationVersion": row["aggregation_version"],
            "measurementCount": row["measurements"],
            "snapshot": row["snapshot"],
            "snapshotKept": self.snapshot_kept,
            "runId": row["run_id"],
            "computedAt": aware(row["computed_at"]),
            **{name: value for name, value in optional.items() if value is not None},
            "measurements": [
                {
                    "file": each["file"],
                    "row": each["row"],
                    "part": each["part"],
                    "uid": each["uid"],
                    "ts": aware(each["ts"]),
                    "receivedAt": aware(each["received_at"]),
                    "value": each["value"],
                }
                for each in self.measurements
            ],
            "more": self.more,
            "parts": [each.to_wire() for each in self.parts],
        }


@dataclass(frozen=True, slots=True)
class QuantityFilter:
    """Which quantities are to be explained.

    Attributes:
        account: The account's code.
        aggregation: The code of the aggregation, simple or compound.
        period: The name of the period: `2026`, `2026-10`, `2026-10-05`, `2026-10-05/2026-10-12`.
        frequency: Needed where a day and a week have the same name.
        segment: Values of segmented fields; all segments if empty.
        limit: How many measurements are listed of each.
    """

    account: str
    aggregation: str
    period: str
    frequency: str | None = None
    segment: Mapping[str, str] = field(default_factory=dict)
    limit: int = 20

    def means(self, row: Mapping[str, Any]) -> bool:
        """Whether a row is wanted."""
        segment = wire.loads(row["segment"]) if row["segment"] else {}
        return (
            self.frequency in {None, row["frequency"]} and self.segment.items() <= segment.items()
        )


def explain(organization: Organization, wanted: QuantityFilter) -> list[Explained]:
    """Explain the quantities of an account and an aggregation in the newest run of a period.

    Returns:
        One for each period of the account's own, and for each segment.

    Raises:
        Invalid: Several frequencies have a period of that name.
        NotFound: There is no such account, aggregation or quantity.
        Unavailable: A store failed.
    """
    with (
        organization.reading() as reader,
        organization.lake.reader() as connection,
    ):
        found = _Explaining(reader, connection, wanted).all()
    now = outdated_quantities(organization, [each.row for each in found])
    return [replace(each, now=now.get(identity_of(each.row))) for each in found]


class _Explaining:
    def __init__(
        self, reader: Reader, connection: duckdb.DuckDBPyConnection, wanted: QuantityFilter
    ) -> None:
        self.reader = reader
        self.connection = connection
        self.wanted = wanted

    def all(self) -> list[Explained]:
        account = self.reader.find(Account, self.wanted.account)
        if account is None:
            raise NotFound("account", self.wanted.account)
        record = self._aggregation()
        if record is None:
            raise NotFound("simple or compound aggregation", self.wanted.aggregation)
        rows = [row for row in self._rows(account.id, record.id) if self.wanted.means(row)]
        frequencies = sorted({row["frequency"] for row in rows})
        if not rows:
            name = f"{self.wanted.account} {self.wanted.aggregation} {self.wanted.period}"
            raise NotFound(
                "quantity", name, "; aggregate the period first, unless there was no usage"
            )
        if len(frequencies) > 1:
            raise Invalid("frequency", None, f"it must be one of {', '.join(frequencies)}")
        return [self._explain_row(row, record) for row in rows]

    def _aggregation(self) -> Record[Aggregation] | Record[CompoundAggregation] | None:
        simple = self.reader.find(Aggregation, self.wanted.aggregation)
        if simple is not None:
            return simple
        return self.reader.find(CompoundAggregation, self.wanted.aggregation)

    def _rows(self, account_id: str, aggregation_id: str) -> list[dict[str, Any]]:
        period = self.wanted.period
        return quantity_runs.find_quantities(self.connection, account_id, aggregation_id, period)

    def _explain_row(
        self, row: dict[str, Any], record: Record[Aggregation] | Record[CompoundAggregation]
    ) -> Explained:
        kept = quantity_runs.snapshot_is_kept(self.connection, row["snapshot"])
        name = record.entity.code or record.entity.name
        if isinstance(record.entity, CompoundAggregation):
            parts = tuple(self._parts(row, record.entity))
            unit = quantity_unit(record.entity)
            return Explained(row, self.wanted.account, name, kept, unit, parts=parts)
        found = self._measurements(row, kept)
        more = len(found) > self.wanted.limit
        shown = found[: self.wanted.limit]
        aggregation = self._as_it_was(row["aggregation_id"], row["aggregation_version"])
        unit = quantity_unit(aggregation, self.reader.get(Meter, row["meter_id"]).entity)
        return Explained(row, self.wanted.account, name, kept, unit, shown, more)

    def _parts(self, row: dict[str, Any], compound: CompoundAggregation) -> list[Explained]:
        found = []
        for code in compound.aggregation_codes:
            part = self.reader.find(Aggregation, code)
            for each in self._rows(row["account_id"], part.id) if part else ():
                same = ("run_id", "period_start", "period_end")
                fits = each["segment"] in {None, row["segment"]}
                if part and fits and all(each[name] == row[name] for name in same):
                    found.append(self._explain_row(each, part))
        return found

    def _measurements(self, row: dict[str, Any], kept: bool) -> list[dict[str, Any]]:
        meter, snapshot = self.reader.get(Meter, row["meter_id"]), row["snapshot"]
        table = meter_table(meter.id)
        at = snapshot if kept else newest_snapshot(self.connection)
        columns = columns_at(self.connection, table, at)
        if not columns:
            return []
        source = (
            aggregate.table(meter.id, snapshot)
            if kept
            else quantity_runs.as_it_was(table, snapshot)
        )
        source, parameters = _source_with_pools(source, row)
        aggregation = self._as_it_was(row["aggregation_id"], row["aggregation_version"])
        where, segment_filter = "m.account_id = $account", None
        if row["segment"]:
            segment_filter = segments.segment_filter_of(aggregation, meter.entity, columns)
        if segment_filter is not None:
            segment = tuple(sorted(wire.loads(row["segment"]).items()))
            source = segments.number_segments(source, [segment_filter])
            parameters |= segments.parameters([segment_filter]) | {
                "number": segment_filter.names.index(segment) + 1
            }
            where += " AND m.segment1 = $number"
        column = segments.column(meter.entity, aggregation.target_field)
        value, begun = "NULL", IN_TIME
        if column in columns:
            value = f"m.{identifier(column)}"
            if aggregation.aggregation is Reduce.TIME_WEIGHTED_AVERAGE:
                source, begun = lasting(source, column, segment_filter), HOLDS_IN_TIME
        parameters |= {
            "account": row["account_id"],
            "start": row["period_start"],
            "end": row["period_end"],
        }
        query = MeasurementQuery(
            source=source, where=where, parameters=parameters, value=value, begun=begun
        )
        return read_measurements(self.connection, query, self.wanted.limit + 1)

    def _as_it_was(self, aggregation_id: str, version: int) -> Aggregation:
        """The aggregation of which the quantity is."""
        found = self.reader.at_version(Aggregation, aggregation_id, version)
        return self.reader.get(Aggregation, aggregation_id).entity if found is None else found


def _source_with_pools(source: str, row: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A source with the account's pools, as the statement of its quantity has them."""
    asked = row["parameters"]
    if row["pooled"] != Pooled.PARENT or "pool_parents" not in asked:
        return source, {}
    names = ("pool_parents", "pool_children", "pool_starts", "pool_ends")
    pools = [
        (parent, child, Period(_instant(start), _instant(end)))
        for parent, child, start, end in zip(*(asked[name] for name in names), strict=True)
        if parent == row["account_id"]
    ]
    period = Period(aware(row["period_start"]), aware(row["period_end"]))
    scope = aggregate.pooled_windows([(row["account_id"], period)], pools)
    return scope.wrap(source), {name: scope.parameters[name] for name in names}


def _instant(text: str) -> datetime:
    return aware(datetime.fromisoformat(text))
