"""Compound aggregations where bills charge for them: of the same parts, calculated in the same way."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType

from meterlake.model.bills.bill import Quantity, Segment
from meterlake.model.bills.billed_usage import BilledUsage, MissingQuantity, UsageOwners
from meterlake.model.catalog.catalog import CompoundAggregation
from meterlake.model.customers.usage_selection import UsageSelection
from meterlake.model.values.entity import Configuration, Record
from meterlake.stages.usage.compound import (
    Compound,
    Group,
    Uncalculated,
    Used,
    calculate,
    read_compound,
)
from meterlake.stages.usage.own_fields import AccountFields, OwnFields

# A compound aggregation by id, and what of the usage counts.
Selected = tuple[str, UsageSelection | None]


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


def _name(record: Record[CompoundAggregation]) -> str:
    return record.entity.code or record.entity.name
