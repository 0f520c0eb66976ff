"""Compound aggregations: quantities that are calculated from those of simple ones.

A part counts with its base value, before its own quantityPerUnit and rounding; where an account
used nothing of it, with its defaultValue, else with null. With a null there is no quantity, unless
the compound aggregation evaluates nulls. If parts are segmented, there is a quantity for each of
the segments that all of these have; a part without segments counts the same for each of them.

The custom fields that compound aggregations read of accounts, and of the plans they are on.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from types import MappingProxyType

from meterlake.model.bills.bill import Quantity, Segment, units_of
from meterlake.model.bills.billed_usage import UsageOwners
from meterlake.model.calculation import (
    CalculationError,
    InvalidCalculation,
    Node,
    Value,
    evaluate,
)
from meterlake.model.calculation.types import type_of
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation
from meterlake.model.scopes.compound import AGGREGATION, CompoundScope, names_of, plan_fields_of
from meterlake.model.scopes.plan_fields import PlanFields
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.period import Period
from meterlake.stages.usage.cycles import MeterCycles

# An account in one of its periods.
Group = tuple[str, Period]
# The custom fields that accounts carry themselves, by account id.
AccountFields = Mapping[str, Mapping[str, Value]]


@dataclass(frozen=True, slots=True)
class Uncalculated:
    """A quantity that there is not, because it cannot be calculated."""

    account_id: str
    compound_id: str
    period: Period
    segment: Segment | None
    detail: str


class Used:
    """The quantities of simple aggregations in one run."""

    def __init__(self, quantities: Iterable[Quantity]) -> None:
        self._found: dict[str, dict[Group, dict[Segment | None, Quantity]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        for each in quantities:
            group = (each.account_id, each.period)
            self._found[each.aggregation_id][group][each.segment] = each

    def groups(self, aggregation_id: str) -> Iterator[Group]:
        """Who has a quantity of an aggregation, and when."""
        yield from self._found.get(aggregation_id, ())

    def segments(self, aggregation_id: str, group: Group) -> Mapping[Segment | None, Quantity]:
        """What an account has of an aggregation in a period, by segment."""
        return self._found.get(aggregation_id, {}).get(group, {})


@dataclass(frozen=True, slots=True)
class Compound:
    """A compound aggregation that can be calculated.

    Attributes:
        tree: Its calculation, checked.
        parts: The aggregations that it reads.
        constants: The custom fields that are the same for all accounts, by name.
        own_defaults: The custom fields that depend on the account, as the organization has them.
    """

    record: Record[CompoundAggregation]
    tree: Node
    parts: tuple[Record[Aggregation], ...]
    constants: Mapping[str, Value]
    own_defaults: Mapping[str, Value]

    @property
    def names(self) -> frozenset[str]:
        """What its calculation names."""
        return names_of(self.tree)

    @property
    def needs_no_usage(self) -> bool:
        """Whether it may have a quantity where nothing was used."""
        return self.record.entity.evaluate_null_aggregations or all(
            part.entity.default_value is not None for part in self.parts
        )

    def segments(self) -> list[Segment | None]:
        """The segments of its quantities; None alone if no part is segmented."""
        segmented = [part.entity for part in self.parts if part.entity.segments]
        if not segmented:
            return [None]
        named = [
            dict.fromkeys(tuple(sorted(each.items())) for each in entity.segments)
            for entity in segmented
        ]
        return [each for each in named[0] if all(each in other for other in named[1:])]


def read_compound(
    record: Record[CompoundAggregation],
    configuration: Configuration,
    left_out: Mapping[str, str],
) -> Compound | str:
    """Read a compound aggregation, or say why it cannot be calculated.

    Args:
        record: The compound aggregation.
        configuration: What its calculation may name.
        left_out: By the ids of the aggregations that are not calculated, the reason.
    """
    scope = CompoundScope(record.entity, configuration)
    try:
        tree = scope.check()
    except InvalidCalculation as error:
        return str(error)  # Saved by a version that did not look at it.
    parts = tuple(scope.parts())
    for part in parts:
        if part.id in left_out:
            return left_out[part.id]
    return Compound(record, tree, parts, scope.constants(), scope.own_defaults)


@dataclass(frozen=True, slots=True)
class CompoundQuantity:
    """A quantity, and the values of the custom fields that it was calculated with."""

    quantity: Quantity
    fields: Mapping[str, Value]


def calculate(
    compound: Compound,
    used: Used,
    groups: Iterable[Group],
    own_fields: Callable[[Group], Mapping[str, Value]],
) -> Iterator[CompoundQuantity | Uncalculated]:
    """Calculate a compound aggregation.

    Args:
        compound: The compound aggregation.
        used: The quantities of its parts.
        groups: For whom and when.
        own_fields: The custom fields of an account in a period that are not the organization's;
            raises `CalculationError` if they cannot be told.
    """
    segments = compound.segments()
    names = compound.names
    given = {**compound.constants, **compound.own_defaults}
    defaults = {name: value for name, value in given.items() if name in names}
    for group in groups:
        try:
            own = own_fields(group)
        except CalculationError as error:
            yield Uncalculated(group[0], compound.record.id, group[1], None, error.detail)
            continue
        values = defaults | {name: own[name] for name in defaults.keys() & own.keys()}
        for segment in segments:
            made = _one(compound, used, group, segment, values)
            if isinstance(made, Quantity):
                yield CompoundQuantity(made, values)
            elif made is not None:
                yield made


def _one(
    compound: Compound,
    used: Used,
    group: Group,
    segment: Segment | None,
    values: Mapping[str, Value],
) -> Quantity | Uncalculated | None:
    found = {
        part.entity.code: used.segments(part.id, group).get(
            segment if part.entity.segments else None
        )
        for part in compound.parts
    }
    parts = {
        f"{AGGREGATION}.{part.entity.code}": _base(part, found[part.entity.code])
        for part in compound.parts
    }
    if None in parts.values() and not compound.record.entity.evaluate_null_aggregations:
        return None
    try:
        value = evaluate(compound.tree, {**values, **parts})
    except CalculationError as error:
        return Uncalculated(group[0], compound.record.id, group[1], segment, error.detail)
    if value is None:
        return None
    if not isinstance(value, Decimal):
        # An account's own custom field may be of another type than the organization's.
        detail = f"a {type_of(value)} where a number is needed"
        return Uncalculated(group[0], compound.record.id, group[1], segment, detail)
    return _quantity(compound, group, segment, value, found.values())


def _base(part: Record[Aggregation], found: Quantity | None) -> Decimal | None:
    return found.value if found is not None else part.entity.default_value


def _quantity(
    compound: Compound,
    group: Group,
    segment: Segment | None,
    value: Decimal,
    found: Iterable[Quantity | None],
) -> Quantity:
    counts: dict[str, int] = {}
    for each in found:
        if each is not None:
            known = counts.get(each.meter_id, 0)
            counts[each.meter_id] = max(known, each.measurements)
    entity = compound.record.entity
    return Quantity(
        account_id=group[0],
        meter_id="",
        aggregation_id=compound.record.id,
        aggregation_version=compound.record.version,
        period=group[1],
        value=value,
        units=units_of(value, entity),
        unit=entity.unit,
        measurements=sum(counts.values()),
        segment=segment,
    )


class OwnFields:
    """The custom fields of an account in a period that a compound aggregation names."""

    def __init__(
        self,
        entities: Configuration,
        account_fields: AccountFields,
        compound: Compound,
        cycles: Iterable[MeterCycles] = (),
        owners: UsageOwners = MappingProxyType({}),
    ) -> None:
        self._accounts = account_fields
        self._plan_fields = plan_fields_of(compound.names & compound.own_defaults.keys())
        self._plans = PlanFields(entities, compound.record.entity.product_id)
        self._owners = owners
        self._parents = {pool.child_id: pool.parent_id for each in cycles for pool in each.pools}

    def __call__(self, group: Group) -> Mapping[str, Value]:
        """The custom fields of an account in a period, by name.

        Raises:
            CalculationError: Plans that hold in the period have different values.
        """
        usage_id, period = group
        account_id, planned_id = self._owners.get(usage_id, (usage_id, usage_id))
        found = self._plans.named(self._plan_fields, planned_id, period)
        if not found and account_id in self._parents:
            # Whom the plans of the parent count for.
            found = self._plans.named(self._plan_fields, self._parents[account_id], period)
        return {**self._accounts.get(account_id, {}), **found}
