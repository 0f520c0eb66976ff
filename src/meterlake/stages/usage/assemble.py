"""What accounts used in one period: simple quantities, defaults where there was no usage, compounds.

Measurements are read elsewhere: the assembler says over which scopes they are aggregated, and takes
what they came to.

Compound aggregations where bills charge for them: of the same parts, calculated in the same way.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from meterlake.model.bills.bill import MeterUsage, Quantity, Query, Segment
from meterlake.model.bills.billed_usage import BilledUsage, MissingQuantity, UsageOwners
from meterlake.model.calculation import Value
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.usage.quantity import Pooled
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Period
from meterlake.stages.usage.aggregate import (
    AggregationScope,
    not_calculated,
    others,
    pooled_windows,
    whole,
    windows,
)
from meterlake.stages.usage.compound import (
    AccountFields,
    Compound,
    Group,
    OwnFields,
    Uncalculated,
    Used,
    calculate,
    read_compound,
)
from meterlake.stages.usage.cycles import Cycles, MeterCycles, UsageConfiguration
from meterlake.stages.usage.rows import SqlFailure, SqlUsage, UsageRow

# Raises InvalidSql if a query over columns is not allowed.
SqlCheck = Callable[[str, Collection[str]], None]
# A compound aggregation by id, and what of the usage counts.
Selected = tuple[str, UsageSelection | None]


class UsageAssembler:
    """The quantities of a period, put together step by step.

    Attributes:
        rows: What there is so far.
        unmatched: What segmented aggregations yield for usage that matches none of their segments.
        left_out: The aggregations that are not calculated, by name, and why.
        failures: What could not be calculated for single accounts.
    """

    def __init__(
        self,
        configuration: UsageConfiguration,
        check_sql: SqlCheck,
        among: Collection[str] | None = None,
    ) -> None:
        """Begin.

        Args:
            configuration: What the run reads of State.
            check_sql: Aggregations whose SQL it refuses are left out.
            among: The ids of the accounts that quantities are wanted of; all if None.
        """
        self.configuration = configuration
        self.among = None if among is None else frozenset(among)
        self.entities = configuration.entities
        self.cycles = Cycles(self.entities, configuration.run)
        self.of_meter = {
            each.id: self.cycles.of_meter(each, self.among) for each in self.entities.all(Meter)
        }
        self.rows: list[UsageRow] = []
        self.unmatched: list[Quantity] = []
        self.failures: list[Uncalculated | SqlFailure] = []
        # Whose SQL gave no number: neither a default nor null stands in for it.
        self._missing: set[tuple[str, str, Period]] = set()
        without = not_calculated(self.entities, check_sql)
        self._without = {record.id: reason for record, reason in without}
        self.left_out = [(_name(record), reason) for record, reason in without]
        # Who has measurements of a meter, and when.
        self._used: dict[str, dict[Group, None]] = defaultdict(dict)

    def scopes(self, meter_id: str) -> Iterator[AggregationScope]:
        """One scan for whoever has the run's period, one for other periods, one for pools."""
        found, period = self.of_meter[meter_id], self.cycles.period
        if self.among is not None:
            yield whole(period, self.among - found.own.keys())
        else:
            yield others(period, found.own) if found.own else whole(period)
        own = [
            (account_id, each)
            for account_id, periods in sorted(found.own.items())
            for each in periods
        ]
        alone = [pair for pair in own if pair[0] not in found.parents]
        together = [pair for pair in own if pair[0] in found.parents]
        if alone:
            yield windows(alone)
        if together:
            yield pooled_windows(together, found.pools)

    def complete(self, simple: Mapping[str, Sequence[MeterUsage]], custom: SqlUsage) -> None:
        """Take all that measurements came to, and what SQL gave, and calculate the rest."""
        self.add_simple(simple)
        self.add_custom(custom)
        self.add_defaults()
        self.add_compounds()

    def add_simple(self, usage: Mapping[str, Sequence[MeterUsage]]) -> None:
        """Take what the measurements of each meter came to."""
        for meter_id, found in usage.items():
            cycles = self.of_meter[meter_id]
            for one in found:
                self._used[meter_id][one.account_id, one.period] = None
                side = _side(one.account_id, [cycles])
                statement = _with_pools(one.statement, one.account_id, cycles)
                self.rows += [UsageRow(each, statement, side) for each in one.quantities]
                if side is not Pooled.CHILD:  # It is in its parent's.
                    self.unmatched += one.unmatched

    def add_custom(self, custom: SqlUsage) -> None:
        """Take what the SQL of aggregations gave, and what it could not give."""
        self.add_simple(custom.by_meter)
        self.failures += custom.failures
        self._missing = {
            (each.aggregation_id, each.account_id, each.period) for each in custom.failures
        }

    def add_defaults(self) -> None:
        """Give the default value to whoever used nothing of an aggregation.

        These are the accounts that at some time of the period are on a plan of its product, of any
        plan if it is global, and those with measurements of its meter. One with segments has no default quantities.
        """
        defaulted = [
            record
            for record in sorted(self.entities.all(Aggregation), key=lambda each: each.id)
            if record.entity.default_value is not None
            and not record.entity.segments
            and record.id not in self._without
        ]
        # Who has a quantity of some aggregations, and when.
        there: dict[str, set[Group]] = {record.id: set() for record in defaulted}
        for row in self.rows if there else ():
            groups = there.get(row.quantity.aggregation_id)
            if groups is not None:
                groups.add((row.quantity.account_id, row.quantity.period))
        for record in defaulted:
            default = record.entity.default_value
            assert default is not None, record.id
            cycles = self.of_meter[record.entity.meter_id]
            for account_id, period in self._may_have(record):
                group = (account_id, period)
                if group not in there[record.id] and (record.id, *group) not in self._missing:
                    quantity = Quantity.of(account_id, record, period, default)
                    self.rows.append(UsageRow(quantity, pooled=_side(account_id, [cycles])))

    def _may_have(self, record: Record[Aggregation]) -> dict[Group, None]:
        meter = self.entities.get(Meter, record.entity.meter_id)
        own, usual = self.of_meter[meter.id].own, [self.cycles.period]
        on_plan = self.cycles.on_plan(
            meter.entity.product_id,
            lambda id_: own.get(id_, usual) if self._is_wanted(id_) else (),
        )
        return dict.fromkeys(on_plan) | self._used[meter.id]

    def _is_wanted(self, account_id: str) -> bool:
        return self.among is None or account_id in self.among

    def add_compounds(self) -> None:
        """Calculate the compound aggregations from all that is there."""
        records = sorted(self.entities.all(CompoundAggregation), key=lambda each: each.id)
        # Where there are none, the quantities of all accounts are not put into order for them.
        used = Used(row.quantity for row in self.rows) if records else Used(())
        for record in records:
            reasons = {
                id_: f"aggregation {_name(self.entities.get(Aggregation, id_))!r}: {reason}"
                for id_, reason in self._without.items()
            }
            found = read_compound(record, self.entities, reasons)
            if isinstance(found, Compound):
                self._add_compound(found, used)
            else:
                self.left_out.append((_name(record), found))

    def _add_compound(self, compound: Compound, used: Used) -> None:
        cycles = [self.of_meter[part.entity.meter_id] for part in compound.parts]
        # One statement for all that are calculated with the same values.
        statements: dict[frozenset[tuple[str, Value]], Query] = {}
        fields = OwnFields(self.entities, self.configuration.account_fields, compound, cycles)
        # Who may have a quantity: whoever used a part, or may have one without any usage.
        found = {group: None for part in compound.parts for group in used.groups(part.id)}
        product_id = compound.record.entity.product_id
        if compound.needs_no_usage:
            on_plan = self.cycles.on_plan(
                product_id,
                lambda id_: self.cycles.periods(id_, product_id) if self._is_wanted(id_) else (),
            )
            found |= dict.fromkeys(on_plan)
        meters = {part.entity.meter_id for part in compound.parts}
        own = self.cycles.of_compound(
            product_id,
            [self.of_meter[each] for each in meters],
            {account_id for account_id, _ in found},
        )
        groups = [
            group
            for group in found
            if group[1] in own.get(group[0], [group[1]])
            and not any((part.id, *group) in self._missing for part in compound.parts)
        ]
        for each in calculate(compound, used, groups, fields):
            if isinstance(each, Uncalculated):
                self.failures.append(each)
                continue
            statement = statements.setdefault(
                frozenset(each.fields.items()),
                Query(compound.record.entity.calculation, dict(each.fields)),
            )
            side = _side(each.quantity.account_id, cycles)
            self.rows.append(UsageRow(each.quantity, statement, side, compound=True))


def _with_pools(statement: Query | None, account_id: str, cycles: MeterCycles) -> Query | None:
    """A statement that says which children's measurements were read as the account's own."""
    if statement is None or account_id not in cycles.parents:
        return statement
    if "pool_parents" in statement.parameters:
        return statement
    own = [pool for pool in cycles.pools if pool.parent_id == account_id]
    parameters = pooled_windows([(account_id, own[0].time)], own).parameters
    pools = {name: value for name, value in parameters.items() if name.startswith("pool_")}
    return Query(statement.sql, {**statement.parameters, **pools})


def _side(account_id: str, cycles: Sequence[MeterCycles]) -> Pooled | None:
    if any(account_id in each.parents for each in cycles):
        return Pooled.PARENT
    return Pooled.CHILD if any(account_id in each.children for each in cycles) else None


def _name(record: Record[Aggregation] | Record[CompoundAggregation]) -> str:
    return record.entity.code or record.entity.name


def add_compounds(
    usage: BilledUsage,
    entities: Configuration,
    account_fields: AccountFields,
    groups: Mapping[Selected, Collection[Group]],
    owners: UsageOwners = MappingProxyType({}),
) -> BilledUsage:
    """Calculate the compound aggregations that bills charge for.

    Args:
        usage: The quantities of their parts.
        entities: All of an organization's entities.
        account_fields: The custom fields of accounts.
        groups: By the id of the compound aggregation and what of the usage counts, for whom and
            when.
        owners: Whose custom fields count for whom that is no account.

    Returns:
        The usage with them.
    """
    left_out = dict(usage.left_out)
    compounds = {}
    for id_ in sorted({id_ for id_, _ in groups}):
        record = entities.get(CompoundAggregation, id_)
        compound = read_compound(record, entities, usage.left_out)
        if isinstance(compound, Compound):
            compounds[id_] = compound
        else:
            left_out[id_] = f"compound aggregation {_name(record)!r}: {compound}"
    parts = {part.id for compound in compounds.values() for part in compound.parts}

    def own_fields(compound: Compound) -> OwnFields:
        return OwnFields(entities, account_fields, compound, owners=owners)

    found: list[Quantity | MissingQuantity] = []
    for selection in {selection: None for _, selection in groups}:
        used = Used(_quantities_of(usage, parts, selection))
        missing = [each for each in usage.missing if each.selection == selection]
        for id_, compound in compounds.items():
            needed = groups.get((id_, selection), ())
            calculated = _calculate(compound, used, missing, needed, own_fields(compound))
            found += [each._replace(selection=selection) for each in calculated]
    lacking = [each for each in found if isinstance(each, MissingQuantity)]
    return BilledUsage(
        by_meter=usage.by_meter,
        compounds=[each for each in found if isinstance(each, Quantity)],
        missing=[*usage.missing, *lacking],
        left_out=left_out,
    )


def _quantities_of(
    usage: BilledUsage, aggregation_ids: Collection[str], selection: UsageSelection | None
) -> Iterator[Quantity]:
    for found in usage.by_meter.values() if aggregation_ids else ():
        for used in found:
            for quantity in used.quantities if used.selection == selection else ():
                if quantity.aggregation_id in aggregation_ids:
                    yield quantity


def _calculate(
    compound: Compound,
    used: Used,
    missing: Iterable[MissingQuantity],
    groups: Collection[Group],
    own_fields: OwnFields,
) -> Iterator[Quantity | MissingQuantity]:
    parts = {part.id for part in compound.parts}
    lacking = {
        (each.account_id, each.period): each.detail
        for each in missing
        if each.aggregation_id in parts
    }
    may_have = set(groups)
    if not compound.needs_no_usage:
        may_have &= {group for part in parts for group in used.groups(part)}
    known = [group for group in groups if group in may_have and group not in lacking]
    for each in calculate(compound, used, known, own_fields):
        if isinstance(each, Uncalculated):
            segments = compound.segments() if each.segment is None else [each.segment]
            group = (each.account_id, each.period)
            yield from _missing(compound, group, segments, each.detail)
        else:
            yield each.quantity
    for group in groups:
        if group in lacking:
            yield from _missing(compound, group, compound.segments(), lacking[group])


def _missing(
    compound: Compound, group: Group, segments: Collection[Segment | None], detail: str
) -> Iterator[MissingQuantity]:
    text = f"compound aggregation {_name(compound.record)!r}: {detail}"
    for segment in segments:
        yield MissingQuantity(group[0], compound.record.id, group[1], segment, text)
