"""What a change of stored measurements does to quantities and bills, before it is made."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, NamedTuple

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.errors import NotFound
from meterlake.model.measurements.measurement import meter_table
from meterlake.model.usage.quantity import quantity_unit
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration
from meterlake.model.values.money import plain
from meterlake.model.values.period import Month, aware, format_instant, naive
from meterlake.pipeline.backfill.impact import affected_months, affected_runs
from meterlake.pipeline.backfill.period_usage import before_and_after
from meterlake.pipeline.backfill.priced import World, account_code, affected_bills
from meterlake.pipeline.usage.aggregate import segment_text
from meterlake.pipeline.usage.meter_rollup import MeterSource
from meterlake.pipeline.usage.usage_configuration import read
from meterlake.stages.usage.rows import UsageRow
from meterlake.stores import Organization
from meterlake.stores.lake.backfill.changes import MeterChange
from meterlake.stores.lake.quantity_runs import RunKey
from meterlake.stores.lake.tables import columns_at

# What State keeps of a difference; the numbers of all entries are kept beside them.
KEPT_MAX: Final = 1_000
_PLACE: Final = "source, row, part"
# What of a quantity is a number; that more measurements gave the same one is no difference.
_NUMBERS: Final = ("quantity", "units")


class QuantityKey(NamedTuple):
    """What tells a quantity from the others of its run; instants are naive UTC."""

    account_id: str
    aggregation_id: str
    segment: str | None
    start: datetime
    end: datetime


# By place: `quantity`, `units`, `unit`, `measurements`, and `pooled` beside them.
Shown = Mapping[QuantityKey, dict[str, Any]]


def difference(
    organization: Organization, snapshot: int, changes: Sequence[MeterChange]
) -> dict[str, Any]:
    """The quantities and bills that changes touch, as they are and as they would be.

    Args:
        organization: The organization.
        snapshot: The lake's snapshot that is changed.
        changes: What changes, meter by meter.

    Returns:
        Plain data: `quantities` and `bills` with `before` and `after`, and how many there are.
    """
    with organization.reading() as reader:
        configuration = reader.configuration()
    world = World(organization, configuration, snapshot)
    instead = changed_sources(world, changes)
    found = list(_quantities(world, changes, instead))
    months = {month: set(ids) for month, ids in affected_months(world, changes).items()}
    accounts = {each for ids in months.values() for each in ids}
    for month, ids in billed_months(found).items():
        months.setdefault(month, set()).update(ids)
    billed = list(affected_bills(world, months, instead))
    return {
        "months": sorted({*map(str, months), *(each["month"] for each in found)}),
        "accounts": len(accounts | {each["accountId"] for each in found}),
        "quantities": found[:KEPT_MAX],
        "quantitiesChanged": len(found),
        "bills": billed[:KEPT_MAX],
        "billsTouched": len(billed),
    }


def billed_months(found: Iterable[Mapping[str, Any]]) -> dict[Month, set[str]]:
    """The months whose quantities differ, and the accounts in each: bills are monthly."""
    months: dict[Month, set[str]] = {}
    for each in found:
        if each["frequency"] == BillingFrequency.MONTHLY:
            months.setdefault(Month.parse(each["month"]), set()).add(each["accountId"])
    return months


def changed_sources(world: World, changes: Sequence[MeterChange]) -> dict[str, MeterSource]:
    """By meter, its measurements as they would be."""
    found = {}
    with world.lake.reader() as connection:
        for each in changes:
            columns = columns_at(connection, meter_table(each.meter_id), world.snapshot)
            sql = each.rows_after(world.snapshot, has_table=bool(columns))
            if sql is not None:
                found[each.meter_id] = MeterSource(sql, columns | set(each.columns))
    return found


def _quantities(
    world: World, changes: Sequence[MeterChange], instead: Mapping[str, MeterSource]
) -> Iterator[dict[str, Any]]:
    for affected in affected_runs(world, changes):
        configuration = read(world.organization.state, world.organization.id, affected.asked)
        before, after = map(
            plain_quantities, before_and_after(world, configuration, affected.accounts, instead)
        )
        run = affected.run
        key = RunKey(run.frequency.value, run.name)
        yield from differing(world.configuration, key, before, after, _NUMBERS)


def plain_quantities(rows: Iterable[UsageRow]) -> Shown:
    """Quantities as plain data, by their places."""
    return {
        QuantityKey(
            row.quantity.account_id,
            row.quantity.aggregation_id,
            segment_text(row.quantity.segment),
            naive(row.quantity.period.start),
            naive(row.quantity.period.end),
        ): {
            "quantity": plain(row.quantity.value),
            "units": plain(row.quantity.units),
            "unit": row.quantity.unit,
            "measurements": row.quantity.measurements,
            "pooled": row.pooled and row.pooled.value,
        }
        for row in rows
    }


def stored_quantities(rows: Iterable[Mapping[str, Any]]) -> Shown:
    """The same of rows of a stored run."""
    names = ("quantity", "units", "unit", "measurements", "pooled")
    return {
        QuantityKey(
            row["account_id"],
            row["aggregation_id"],
            row["segment"],
            row["period_start"],
            row["period_end"],
        ): {name: row[name] for name in names}
        for row in rows
    }


def differing(
    configuration: Configuration,
    key: RunKey,
    before: Shown,
    after: Shown,
    compared: Sequence[str] = (*_NUMBERS, "unit", "measurements", "pooled"),
) -> list[dict[str, Any]]:
    """The quantities of a run that differ, by meter and by account.

    Args:
        configuration: Has the codes.
        key: The run.
        before: Its quantities.
        after: The same as they will be.
        compared: What of a quantity makes a difference.
    """
    found = []
    for place in before.keys() | after.keys():
        old, new = before.get(place), after.get(place)
        if old is None or new is None or any(old[name] != new[name] for name in compared):
            found.append(_entry(configuration, key, place, (old, new)))
    return sorted(found, key=_order)


def _entry(
    configuration: Configuration,
    key: RunKey,
    place: QuantityKey,
    sides: tuple[dict[str, Any] | None, dict[str, Any] | None],
) -> dict[str, Any]:
    meter, aggregation = _names(configuration, place.aggregation_id)
    unit = _quantity_unit(configuration, place.aggregation_id)
    pooled = [each["pooled"] for each in sides if each is not None][-1]
    before, after = (
        each and {name: value for name, value in each.items() if name != "pooled"} for each in sides
    )
    return {
        "month": key.period,
        "frequency": key.frequency,
        "start": format_instant(aware(place.start)),
        "end": format_instant(aware(place.end)),
        "account": account_code(configuration, place.account_id),
        "accountId": place.account_id,
        "meter": meter,
        "aggregation": aggregation,
        "aggregationId": place.aggregation_id,
        **({} if unit is None else {"quantityUnit": unit}),
        **({} if place.segment is None else {"segment": wire.loads(place.segment)}),
        **({} if pooled is None else {"pooled": pooled}),
        "before": before,
        "after": after,
    }


def _order(entry: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("account", "meter", "aggregation", "aggregationId", "start")
    return (*(str(entry[name]) for name in names), str(entry.get("segment", "")))


def _quantity_unit(configuration: Configuration, id: str) -> str | None:
    with suppress(NotFound):
        simple = configuration.get(Aggregation, id).entity
        return quantity_unit(simple, configuration.get(Meter, simple.meter_id).entity)
    with suppress(NotFound):
        return quantity_unit(configuration.get(CompoundAggregation, id).entity)
    return None


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
