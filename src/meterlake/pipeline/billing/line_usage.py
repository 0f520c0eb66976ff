"""The measurements that a line of a bill charges for, as the bill's snapshot of the lake has them."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

from meterlake.model.bills.bill import LineItemType, Query, Segment
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter, Reduce
from meterlake.model.configuration.queries import ROWS_MAX
from meterlake.model.customers.accounts import AccountPlan, ChildBillingMode
from meterlake.model.customers.contracts import Contract
from meterlake.model.customers.usage_selection import UsageSelection, select_usage
from meterlake.model.errors import NotFound
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.scopes.compound import CompoundScope
from meterlake.model.values.entity import Entity
from meterlake.model.values.period import Period, naive, parse_instant
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.explorer.explore import answer
from meterlake.pipeline.explorer.usage_questions import stored_fields
from meterlake.stages.bill.hierarchies import Hierarchies, bills_child
from meterlake.stages.usage import aggregate
from meterlake.stages.usage.aggregate import segments
from meterlake.stages.usage.aggregate.filters import SelectedUsage
from meterlake.stages.usage.aggregate.segments import SegmentFilter
from meterlake.stages.usage.aggregate.time_weighted import lasting
from meterlake.stages.usage.explore import ExplorerScope, Question
from meterlake.stores import Organization
from meterlake.stores.lake.measurements.rows import HOLDS_IN_TIME, IN_TIME
from meterlake.stores.lake.tables import columns_at
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.stored_bills import LineContent, StoredBill
from meterlake.stores.state.core.entity_history import PastConfiguration

_E = TypeVar("_E", bound=Entity)
_NOTHING: Final[Document] = {"data": [], "hasMoreData": False}
# Other lines are about quantities that these have.
OF_USAGE: Final = {LineItemType.USAGE, LineItemType.USAGE_CREDIT, LineItemType.OVERAGE_USAGE}

_POOL: Final = ("pool_parents", "pool_children", "pool_starts", "pool_ends")


@dataclass(frozen=True, slots=True)
class LineUsage:
    """What a line charges for, as it was when the line was made.

    Attributes:
        account_id: Whose usage it is, or the name of that of several.
        pool: Under which name whose measurements count when, if that is not of one account.
        selection: Which measurements count by the filters of its contract; all if None.
    """

    snapshot: int
    meter_id: str
    meter: Meter
    aggregation: Aggregation
    account_id: str
    pool: Sequence[tuple[str, str, Period]]
    period: Period
    segment: Segment | None
    selection: UsageSelection | None


def line_usage(organization: Organization, bill: StoredBill, line: LineContent) -> Document:
    """The newest measurements behind a line: `{data, hasMoreData}`; none if it charges no usage.

    They are those of the snapshot that the bill pins, in the line's own time, of its segment, and
    those that pass the usage filters of its contract: what came later is not there. A line of a
    compound aggregation has those of all the aggregations that its calculation reads, each once.

    Raises:
        Unavailable: The store failed.
    """
    if line.body["lineItemType"] not in OF_USAGE:
        return _NOTHING
    with organization.reading() as reader:
        usages = list(read_line_usages(reader, bill, line))
    found = [_read_measurements(organization, each) for each in usages]
    if len(found) == 1:
        return found[0]
    # A measurement that several aggregations read is one.
    rows = {(row["meter"], row["uid"]): row for each in found for row in each["data"]}
    by_uid = sorted(rows.values(), key=lambda row: str(row["uid"]))
    newest = sorted(
        by_uid, key=lambda row: (_instant(row["receivedAt"]), _instant(row["ts"])), reverse=True
    )
    more = len(newest) > ROWS_MAX or any(each["hasMoreData"] for each in found)
    return {"data": newest[:ROWS_MAX], "hasMoreData": more}


def _read_measurements(organization: Organization, usage: LineUsage) -> Document:
    with organization.lake.reader() as connection:
        columns = columns_at(connection, meter_table(usage.meter_id), usage.snapshot)
    if not columns:
        return _NOTHING
    fields = tuple(stored_fields(usage.meter).values())
    question = Question(usage.meter_id, usage.meter.code, fields)
    # The uids of the measurements that the quantity of the line was made of.
    line_source = read_line_source(usage, columns)
    source, begun = line_source.sql, IN_TIME
    if usage.aggregation.aggregation is Reduce.TIME_WEIGHTED_AVERAGE:
        column = segments.column(usage.meter, usage.aggregation.target_field)
        if column in columns:
            # What holds already when the time begins counts, too.
            source, begun = lasting(source, column, line_source.segment_filter), HOLDS_IN_TIME
    sql = f"SELECT m.uid FROM (FROM {source}) AS m WHERE {line_source.where} AND ({begun}) AND m.ts < $end"
    uids = Query(sql, line_source.parameters)
    scope = ExplorerScope(None, ROWS_MAX + 1, snapshot=usage.snapshot, uids=uids)
    found = answer(organization, [question], scope)
    return {"data": found.documents(), "hasMoreData": found.more}


def read_line_usages(reader: Reader, bill: StoredBill, line: LineContent) -> Iterator[LineUsage]:
    """What a line charges for; of a compound aggregation, what each of its aggregations reads."""
    return LineUsageReader(reader, bill).read(line)


class LineUsageReader:
    """Reads what lines of one bill charge for; what they have in common is read once."""

    def __init__(self, reader: Reader, bill: StoredBill) -> None:
        self._reader = reader
        self._bill = bill
        # As the configuration was when the bill came out like this the last time.
        self._configuration = PastConfiguration(reader, bill.calculated or bill.created)
        self._hierarchies = Hierarchies(self._configuration)
        self._known: dict[tuple[type[Entity], str, int | None], Entity] = {}

    def read(self, line: LineContent) -> Iterator[LineUsage]:
        """What a line charges for."""
        body, versions = line.body, self._bill.content.pins["versions"]
        contract_id, selection = body.get("contractId"), None
        if contract_id is not None:
            contract = self._at_version(Contract, contract_id, versions.get(contract_id))
            selection = select_usage(contract.usage_filters)
        segment = body.get("segment")
        period = Period(*(_instant(body[f"servicePeriod{name}Date"]) for name in ("Start", "End")))
        account_id, pool = self._find_accounts(line, period)
        for meter_id, meter, aggregation in self._find_aggregations(line):
            is_segmented = segment is not None and aggregation.segmented_fields
            yield LineUsage(
                snapshot=self._bill.content.pins["snapshot"],
                meter_id=meter_id,
                meter=meter,
                aggregation=aggregation,
                account_id=account_id,
                pool=pool,
                period=period,
                segment=tuple(sorted(segment.items())) if is_segmented else None,
                selection=selection,
            )

    def _find_aggregations(self, line: LineContent) -> Iterator[tuple[str, Meter, Aggregation]]:
        """The aggregation of a line with its meter, or those that its compound one reads."""
        body, version = line.body, line.pins.get("aggregationVersion")
        versions = self._bill.content.pins["versions"]
        if "aggregationId" in body:
            meter_id = body["meterId"]
            meter = self._at_version(Meter, meter_id, line.pins.get("meterVersion"))
            yield meter_id, meter, self._at_version(Aggregation, body["aggregationId"], version)
            return
        compound = self._at_version(CompoundAggregation, body["compoundAggregationId"], version)
        for part in CompoundScope(compound, self._configuration).parts():
            meter_id = part.entity.meter_id
            yield (
                meter_id,
                self._at_version(Meter, meter_id, versions.get(meter_id)),
                part.entity,
            )

    def _find_accounts(
        self, line: LineContent, period: Period
    ) -> tuple[str, Sequence[tuple[str, str, Period]]]:
        """Whose usage a line is, and of what is charged together, whose measurements count when."""
        billed_id, child_id = self._bill.content.key.account_id, line.body.get("childAccountId")
        plan_id = line.pins.get("accountPlanId")
        if plan_id is None:
            return child_id or billed_id, ()
        plan = self._at_version(AccountPlan, plan_id, line.pins.get("accountPlanVersion"))
        pool = None
        # Where clocks differ between machines, an account may be younger than its bill.
        with suppress(NotFound):
            found = self._hierarchies.pool(plan.account_id, line.body["productId"])
            pool = found and found.within(period)
        if pool is None:
            return plan.account_id, ()
        times = dict(pool.times())
        is_credit = line.body["lineItemType"] == LineItemType.USAGE_CREDIT
        if is_credit or plan.child_billing_mode is ChildBillingMode.PARENT_SUMMARY:
            return pool.usage_id, times[pool.usage_id]
        account_id = child_id or (billed_id if bills_child(plan) else plan.account_id)
        member = pool.member(account_id)
        return (account_id, ()) if member is None else (member.usage_id, times[member.usage_id])

    def _at_version(self, kind: type[_E], id: str, version: int | None) -> _E:
        """An entity at a version, also a deleted one; as it is if no version is known."""
        key = (kind, id, version)
        if key not in self._known:
            past = self._reader.at_version(kind, id, version)
            self._known[key] = self._reader.get(kind, id).entity if past is None else past
        found = self._known[key]
        assert isinstance(found, kind)
        return found


@dataclass(frozen=True, slots=True)
class LineSource:
    """Where the measurements of a line are read from.

    Attributes:
        sql: What is read, with the accounts and segments of the line.
        where: Which of its measurements `m` are the line's, whenever they are.
        parameters: The values of both, and the `start` and the `end` of the line's time.
    """

    sql: str
    where: str
    parameters: dict[str, Any]
    segment_filter: SegmentFilter | None


def read_line_source(
    usage: LineUsage, columns: Collection[str], table: str | None = None
) -> LineSource:
    """The measurements of a line in SQL: of its pool, its contract's filters and its segment.

    Args:
        usage: What the line charges for.
        columns: The columns that the meter's table has at the snapshot.
        table: What stands for the meter's table; the table itself if None.
    """
    source, account = table or aggregate.table(usage.meter_id, usage.snapshot), usage.account_id
    period = usage.period
    parameters: dict[str, Any] = {"start": naive(period.start), "end": naive(period.end)}
    if usage.pool:
        scope = aggregate.pooled_windows([(account, period)], usage.pool)
        source = scope.wrap(source)
        parameters |= {name: scope.parameters[name] for name in _POOL}
    if usage.selection is not None:
        selected = SelectedUsage([(account, usage.selection)])
        source = selected.reading(source, usage.meter, columns)
        parameters |= selected.parameters()
        account = selected.name(account, usage.selection)
    where, segment_filter = "m.account_id = $account", None
    if usage.segment is not None:
        segment_filter = segments.segment_filter_of(usage.aggregation, usage.meter, columns)
    if segment_filter is not None:
        source = segments.number_segments(source, [segment_filter])
        parameters |= segments.parameters([segment_filter])
        parameters["segment_number"] = segment_filter.names.index(usage.segment) + 1
        where += " AND m.segment1 = $segment_number"
    return LineSource(source, where, parameters | {"account": account}, segment_filter)


def _instant(text: str) -> datetime:
    found = parse_instant(text)
    assert found is not None, text
    return found
