"""Runs of which only some meters and accounts are calculated again: the rest is carried over."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

import polars as pl

from meterlake.model.bills.bill import Quantity, Segment
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation
from meterlake.model.customers.accounts import Account
from meterlake.model.usage.quantity import COMPOUND, SIMPLE
from meterlake.model.values import wire
from meterlake.model.values.entity import Configuration
from meterlake.model.values.period import Period, aware
from meterlake.pipeline.usage.aggregate import frames
from meterlake.stages.usage.rows import UsageRow
from meterlake.stores.lake.quantities import SCHEMA, STATEMENT_SCHEMA


@dataclass(frozen=True, slots=True)
class Chosen:
    """Which quantities are calculated again.

    Attributes:
        meters: Ids; all if empty. A compound aggregation is chosen with any meter that it reads.
        accounts: Ids; all if empty.
        reads: By the ids of compound aggregations, the meters that they read.
    """

    meters: frozenset[str]
    accounts: frozenset[str]
    reads: Mapping[str, frozenset[str]]

    @property
    def everything(self) -> bool:
        """Whether nothing is carried over."""
        return not self.meters and not self.accounts

    def has(self, account_id: str, aggregation_id: str, meter_id: str | None) -> bool:
        """Whether a quantity is chosen."""
        if self.accounts and account_id not in self.accounts:
            return False
        meters = {meter_id} if meter_id else self.reads.get(aggregation_id, frozenset())
        return not self.meters or not self.meters.isdisjoint(meters)

    def has_row(self, row: UsageRow) -> bool:
        """The same of a quantity that was calculated."""
        each = row.quantity
        return self.has(each.account_id, each.aggregation_id, each.meter_id or None)

    def measured_accounts(self, configuration: Configuration) -> tuple[str, ...]:
        """The accounts whose measurements are read: also children of chosen ones; all if empty."""
        if not self.accounts:
            return ()
        children = (
            each.id
            for each in configuration.all(Account)
            if each.entity.parent_account_id in self.accounts
        )
        return tuple(sorted({*self.accounts, *children}))

    def rest(self, stored: pl.DataFrame) -> pl.DataFrame:
        """What of a run is carried over."""
        columns = ("account_id", "aggregation_id", "meter_id")
        kept = [not self.has(*row) for row in stored.select(columns).iter_rows()]
        return stored.filter(pl.Series(kept, dtype=pl.Boolean))


def meters_read(configuration: Configuration) -> dict[str, frozenset[str]]:
    """By the ids of compound aggregations, the meters of the aggregations that they name."""
    found = {}
    for compound in configuration.all(CompoundAggregation):
        parts = (
            configuration.find(Aggregation, code) for code in compound.entity.aggregation_codes
        )
        found[compound.id] = frozenset(part.entity.meter_id for part in parts if part is not None)
    return found


def parts_of(kept_rows: pl.DataFrame, chosen: Chosen) -> list[UsageRow]:
    """The simple quantities that are carried over, for compound ones of the chosen accounts."""
    return [
        UsageRow(
            Quantity(
                account_id=row["account_id"],
                meter_id=row["meter_id"] or "",
                aggregation_id=row["aggregation_id"],
                aggregation_version=row["aggregation_version"],
                period=Period(aware(row["period_start"]), aware(row["period_end"])),
                value=Decimal(row["quantity"]),
                units=Decimal(row["units"]),
                unit=row["unit"],
                measurements=row["measurements"],
                segment=segment_of(row["segment"]),
            )
        )
        for row in kept_rows.iter_rows(named=True)
        if row["kind"] != COMPOUND and (not chosen.accounts or row["account_id"] in chosen.accounts)
    ]


def segment_of(text: str | None) -> Segment | None:
    """A segment as it is calculated, of the text that is stored."""
    return None if text is None else tuple(sorted(wire.loads(text).items()))


def together(
    fresh: Iterable[UsageRow], kept_rows: pl.DataFrame, statements_before: pl.DataFrame | None
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The rows of a run and its statements; what is carried over keeps its snapshot.

    Args:
        fresh: What was calculated.
        kept_rows: The rows that are carried over, in the columns of the lake.
        statements_before: The statements of their run; None if nothing is carried over.
    """
    rows, statements = frames(fresh)
    if statements_before is None:
        return rows, statements
    # Statements that are carried over get names that are still free.
    carried = kept_rows["statement_id"].drop_nulls().unique().sort().to_list()
    names = {name: str(number) for number, name in enumerate(carried, len(statements) + 1)}
    old = statements_before.filter(pl.col("id").is_in(list(names)))
    new_rows = kept_rows.select(
        *(pl.col(name).cast(kind) for name, kind in SCHEMA.items()), pl.col("snapshot")
    ).with_columns(
        pl.col("statement_id").replace(names),
        pl.col("kind").fill_null(SIMPLE),
    )
    new_statements = old.select(
        *(pl.col(name).cast(kind) for name, kind in STATEMENT_SCHEMA.items()), pl.col("snapshot")
    ).with_columns(pl.col("id").replace(names))
    return (
        pl.concat([rows, new_rows], how="diagonal"),
        pl.concat([statements, new_statements], how="diagonal"),
    )
