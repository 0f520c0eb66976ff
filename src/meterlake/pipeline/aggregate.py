"""The verb `aggregate`: the quantities of a month, kept in the lake."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import polars as pl

from meterlake.model.billing import Quantity
from meterlake.model.catalog import Aggregation, Meter
from meterlake.model.entity import Configuration
from meterlake.model.money import plain, to_lake
from meterlake.model.organization import OrganizationConfig
from meterlake.model.period import Month, Period, zone
from meterlake.pipeline.folding import fold
from meterlake.stages.aggregate import not_calculated, whole
from meterlake.stores import Stores, quantities


@dataclass(frozen=True, slots=True)
class AggregateResult:
    """What aggregating a month came to.

    Attributes:
        period: The month in the organization's time zone.
        snapshot: The lake's snapshot that was read.
        run_id: The run that holds the quantities; None if there are none and never were.
        appended: Whether the run is new; else the newest one had the same quantities already.
        quantities: All quantities that could be stored.
        overflows: Quantities with more integer digits than the lake keeps; they are not stored.
        left_out: The aggregations that this version does not calculate, by name, and why.
    """

    month: Month
    period: Period
    snapshot: int
    run_id: str | None
    appended: bool
    quantities: list[Quantity]
    overflows: list[Quantity]
    left_out: list[tuple[str, str]]

    @property
    def counts(self) -> dict[str, int]:
        """How many accounts have a quantity, by aggregation id."""
        return dict(Counter(each.aggregation_id for each in self.quantities))


def aggregate(stores: Stores, org_id: str, month: Month) -> AggregateResult:
    """Aggregate a month of an organization and keep the quantities.

    Aggregating again appends nothing, unless measurements or aggregations have changed since.

    Raises:
        NotFound: There is no such organization.
        Unavailable: A store failed.
    """
    lake, configuration = stores.lake(org_id), _configuration(stores, org_id)
    period = month.period(zone(configuration.single(OrganizationConfig).entity.timezone))
    snapshot = lake.snapshot()
    used = fold(lake, configuration, snapshot, lambda _: [whole(period)])
    found = [each for folded in used.values() for one in folded for each in one.quantities]
    kept = [each for each in found if not each.overflows]
    now = stores.now().astimezone(UTC).replace(tzinfo=None)
    run = quantities.append(lake, str(month), _frame(kept, period), snapshot, now)
    return AggregateResult(
        month=month,
        period=period,
        snapshot=snapshot,
        run_id=run.id,
        appended=run.appended,
        quantities=kept,
        overflows=[each for each in found if each.overflows],
        left_out=[
            (record.entity.code or record.entity.name, reason)
            for record, reason in not_calculated(configuration)
        ],
    )


def _configuration(stores: Stores, org_id: str) -> Configuration:
    """What quantities depend on: without the accounts, which are by far the most."""
    with stores.state.reading(org_id) as reader:
        return Configuration(
            [
                *reader.all(OrganizationConfig),
                *reader.all(Meter),
                *reader.all(Aggregation),
            ]
        )


def _frame(found: list[Quantity], period: Period) -> pl.DataFrame:
    start, end = (instant.replace(tzinfo=None) for instant in (period.start, period.end))
    rows = [(start, end, *_row(each)) for each in found]
    return pl.DataFrame(rows, schema=quantities.SCHEMA, orient="row")


def _row(quantity: Quantity) -> tuple[Any, ...]:
    total, count = quantity.mean or (None, None)
    return (
        quantity.account_id,
        quantity.meter_id,
        quantity.aggregation_id,
        quantity.aggregation_version,
        to_lake(quantity.value),
        total,
        count,
        plain(quantity.value),
        plain(quantity.units),
        quantity.unit,
        quantity.measurements,
    )
