"""What a change of stored measurements does to quantities and bills, before it is made."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final

from meterlake.model.billing import Folded, Quantity, Segment
from meterlake.model.catalog import Aggregation, CompoundAggregation, Meter, Reduce
from meterlake.model.entity import Configuration
from meterlake.model.errors import NotFound
from meterlake.model.measurement import meter_table
from meterlake.model.money import plain
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Month, Period, zone
from meterlake.pipeline.backfill.priced import World, account_code, touched_bills
from meterlake.pipeline.backfill.reach import Change, Reach, reach
from meterlake.pipeline.custom_sql import fold_custom, limits_of
from meterlake.pipeline.folding import Scopes, Source, fold
from meterlake.stages.aggregate import whole
from meterlake.stores import Stores, quantities
from meterlake.stores.backfill_rows import rows_at

# What State keeps of a difference; the numbers of all entries are kept beside them.
KEPT_MAX: Final = 1_000
_PLACE: Final = "source, row, part"

# By meter, what is read in the place of its measurements.
Instead = Mapping[str, Source]
Quantities = dict[tuple[str, str, Segment | None], Quantity]


def difference(
    stores: Stores, org_id: str, snapshot: int, changes: Sequence[Change]
) -> dict[str, Any]:
    """The quantities and bills that changes touch, as they are and as they would be.

    Args:
        stores: The home's stores.
        org_id: The organization.
        snapshot: The lake's snapshot that is changed.
        changes: What changes, meter by meter.

    Returns:
        Plain data: `quantities` and `bills` with `before` and `after`, and how many there are.
    """
    with stores.state.reading(org_id) as reader:
        configuration = reader.configuration()
    world = World(stores, org_id, configuration, snapshot)
    touched = reach(world, changes)
    instead = _sources(world, changes)
    found = sorted(_quantities(world, touched, instead), key=_order)
    months = _months(touched, found)
    billed = list(touched_bills(world, months, instead))
    return {
        "months": [str(month) for month in sorted(months)],
        "accounts": len({account for each in months.values() for account in each}),
        "quantities": found[:KEPT_MAX],
        "quantitiesChanged": len(found),
        "bills": billed[:KEPT_MAX],
        "billsTouched": len(billed),
    }


def _months(touched: Reach, found: Sequence[dict[str, Any]]) -> dict[Month, set[str]]:
    """The touched months and accounts; of values that are carried on, those that they change."""
    months = {month: set(accounts) for month, accounts in touched.months.items()}
    for entry in found:
        months.setdefault(Month.parse(entry["month"]), set()).add(entry["accountId"])
    return months


def _order(entry: dict[str, Any]) -> tuple[str, ...]:
    names = ("month", "account", "meter", "aggregation", "aggregationId")
    return (*(str(entry[name]) for name in names), str(entry.get("segment", "")))


def _sources(world: World, changes: Sequence[Change]) -> dict[str, Source]:
    """By meter, its measurements as they would be."""
    found = {}
    with world.lake.reader() as connection:
        for each in changes:
            columns = quantities.columns(connection, meter_table(each.meter_id), world.snapshot)
            parts = []
            if columns:
                left = f" ANTI JOIN {each.gone} AS g USING ({_PLACE})" if each.gone else ""
                parts.append(f"SELECT o.* FROM {rows_at(each.meter_id, world.snapshot)} AS o{left}")
            if each.came:
                parts.append(f"SELECT * FROM {each.came}")
            if parts:
                sql = f"({' UNION ALL BY NAME '.join(parts)})"
                found[each.meter_id] = Source(sql, columns | set(each.columns))
    return found


def _quantities(world: World, touched: Reach, instead: Instead) -> Iterator[dict[str, Any]]:
    for month, accounts in touched.months.items():
        scopes = _scopes(world, month, accounts, instead)
        before, after = (
            {**_folded(world, scopes, using), **_custom(world, scopes, using)}
            for using in (None, instead)
        )
        yield from _differing(world, month, before, after)
    for month, accounts in touched.carried.items():
        scopes = _scopes(world, month, accounts, instead.keys() & touched.held)
        before, after = (_folded(world, scopes, using, _is_held) for using in (None, instead))
        yield from _differing(world, month, before, after)


def _scopes(
    world: World, month: Month, accounts: Collection[str], meters: Collection[str]
) -> Scopes:
    period = _period(world, month)
    return lambda meter_id: [whole(period, accounts)] if meter_id in meters else []


def _is_held(aggregation: Aggregation) -> bool:
    return aggregation.aggregation is Reduce.TIME_WEIGHTED_AVERAGE


def _folded(
    world: World,
    scopes: Scopes,
    instead: Instead | None,
    chosen: Callable[[Aggregation], bool] = lambda _: True,
) -> Quantities:
    lake, configuration = world.lake, world.configuration
    return _placed(fold(lake, configuration, world.snapshot, scopes, instead, chosen))


def _custom(world: World, scopes: Scopes, instead: Instead | None) -> Quantities:
    """What the SQL of aggregations gives; nothing where it fails."""
    lake, configuration = world.lake, world.configuration
    limits = limits_of(world.stores.settings)
    return _placed(fold_custom(lake, configuration, world.snapshot, scopes, limits, instead).folded)


def _placed(found: Mapping[str, Sequence[Folded]]) -> Quantities:
    return {
        (each.account_id, each.aggregation_id, each.segment): each
        for folded in found.values()
        for one in folded
        for each in one.quantities
    }


def _differing(
    world: World, month: Month, before: Quantities, after: Quantities
) -> Iterator[dict[str, Any]]:
    for place in before.keys() | after.keys():
        old, new = before.get(place), after.get(place)
        if _number(old) != _number(new):
            yield _entry(world.configuration, month, old, new)


def _period(world: World, month: Month) -> Period:
    return month.period(zone(world.configuration.single(OrganizationConfig).entity.timezone))


def _number(quantity: Quantity | None) -> tuple[Decimal, Decimal] | None:
    return None if quantity is None else (quantity.value, quantity.units)


def entry(
    configuration: Configuration,
    about: tuple[str, str, str],
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> dict[str, Any]:
    """One quantity before and after.

    Args:
        configuration: Has the codes.
        about: The period's name, the account's id and the aggregation's id.
        before: The quantity, its units; None if there was none.
        after: The same as it will be.
    """
    period, account_id, aggregation_id = about
    meter, aggregation = _names(configuration, aggregation_id)
    return {
        "month": period,
        "account": account_code(configuration, account_id),
        "accountId": account_id,
        "meter": meter,
        "aggregation": aggregation,
        "aggregationId": aggregation_id,
        "before": before,
        "after": after,
    }


def _names(configuration: Configuration, id: str) -> tuple[str | None, str]:
    """The codes of an aggregation and its meter; a compound one has none, one that is gone an id."""
    with suppress(NotFound):
        simple = configuration.get(Aggregation, id).entity
        meter = configuration.get(Meter, simple.meter_id).entity
        return meter.code, simple.code or simple.name
    with suppress(NotFound):
        compound = configuration.get(CompoundAggregation, id).entity
        return None, compound.code or compound.name
    return None, id


def _entry(
    configuration: Configuration, month: Month, old: Quantity | None, new: Quantity | None
) -> dict[str, Any]:
    one = new or old
    assert one is not None
    about = (str(month), one.account_id, one.aggregation_id)
    found = entry(configuration, about, _shown(old), _shown(new))
    return found if one.segment is None else {**found, "segment": dict(one.segment)}


def _shown(quantity: Quantity | None) -> dict[str, Any] | None:
    if quantity is None:
        return None
    return {
        "quantity": plain(quantity.value),
        "units": plain(quantity.units),
        "unit": quantity.unit,
        "measurements": quantity.measurements,
    }
