"""The engine's bills of a world of the billing oracle, and where the two calculations differ.

Nothing of the world is translated: its entities are read as the wire's documents, its measurements
go into a real DuckDB. A comparison shows each line as one text, so that a difference can be read.
"""

import difflib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, Final

from meterlake.model.bills.bill import Bill, Failure, Line, MeterUsage
from meterlake.model.bills.billed_usage import BilledUsage
from meterlake.model.bills.ledger import LedgerAccount, LedgerAccountType, Movement, PostingKind
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter, Product
from meterlake.model.catalog.counters import Counter, CounterAdjustment, CounterPricing
from meterlake.model.catalog.plans import Plan, PlanGroup, PlanGroupLink, PlanTemplate, Pricing
from meterlake.model.configuration.organization import BillGroupingKey, Currency, OrganizationConfig
from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.customers.balances import Balance
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.contracts import Commitment, Contract
from meterlake.model.values.entity import Configuration, Entity, Record
from meterlake.stages.bill import (
    BillingTerms,
    BillSelection,
    Provenance,
    billing_terms,
    make_bills,
)
from meterlake.stages.usage import aggregate
from meterlake.stages.usage.assemble import add_compounds
from tests import billing_oracle
from tests.billing_oracle.worlds import random_world
from tests.billing_world import COLUMNS, note_draws, open_measurements, read_usage

# What the engine reads of a world, by the world's name for it.
KINDS: dict[str, type[Entity]] = {
    "currencies": Currency,
    "products": Product,
    "meters": Meter,
    "aggregations": Aggregation,
    "compounds": CompoundAggregation,
    "plan_templates": PlanTemplate,
    "plans": Plan,
    "plan_groups": PlanGroup,
    "plan_group_links": PlanGroupLink,
    "pricings": Pricing,
    "counters": Counter,
    "counter_pricings": CounterPricing,
    "accounts": Account,
    "grouping_keys": BillGroupingKey,
    "contracts": Contract,
    "account_plans": AccountPlan,
    "counter_adjustments": CounterAdjustment,
    "charges": Charge,
    "commitments": Commitment,
    "balances": Balance,
}
_CREATED = datetime(2019, 1, 1, tzinfo=UTC)
# A quotient that does not end is divided to 20 digits by the engine, exactly by the oracle.
_DIGITS = Decimal("1E-12")


def read_configuration(world: billing_oracle.World) -> Configuration:
    """The entities of a world as the engine reads them; created one after the other."""
    organization = OrganizationConfig.from_wire(world.organization)
    records = [_record("organization", organization, 0)]
    for name, kind in KINDS.items():
        for number, row in enumerate(getattr(world, name)):
            fields = {name: value for name, value in row.items() if name != "transactions"}
            records.append(_record(row["id"], kind.from_wire(fields), number))
    return Configuration(records)


def _record(entity_id: str, entity: Entity, number: int) -> Record[Any]:
    created = _CREATED + timedelta(seconds=number)
    return Record(entity_id, 1, entity, created, "test", created, "test")


def read_transactions(world: billing_oracle.World) -> dict[str, list[Movement]]:
    """What comes into the balances of a world."""
    return {
        row["id"]: [_transaction(row["id"], each) for each in row["transactions"]]
        for row in world.balances
    }


def _transaction(balance_id: str, row: Any) -> Movement:
    amount = Decimal(str(row["amount"]))
    kind = PostingKind.CREDIT if amount >= 0 else PostingKind.MANUAL
    applied = datetime.fromisoformat(row["appliedDate"]) if row.get("appliedDate") else None
    return Movement(LedgerAccount(LedgerAccountType.BALANCE, balance_id), kind, amount, applied)


class Engine:
    """The engine with the configuration and the measurements of a world, and what its bills draw."""

    def __init__(self, world: billing_oracle.World) -> None:
        self.configuration = read_configuration(world)
        self.movements = read_transactions(world)
        self.tables = {row["id"]: row["code"] for row in world.meters}
        self.db = open_measurements(*self.tables.values())
        accounts = {row["code"]: row["id"] for row in world.accounts}
        for table in self.tables.values():
            self._load(
                table, [row for row in world.measurements if row["meter"] == table], accounts
            )

    def bills(self, first: date, after: date) -> list[Bill | Failure]:
        """The bills whose periods end on some days."""
        terms = billing_terms(self.configuration, BillSelection(DayRange(first, after)))
        provenance = Provenance(1, "1.0")
        made = list(make_bills(terms, self.usage(terms), provenance, movements=self.movements))
        note_draws(self.movements, self.configuration, made)
        return made

    def _load(self, table: str, rows: Sequence[Any], accounts: dict[str, str]) -> None:
        if not rows:
            return
        values = [
            value
            for row in rows
            for value in (
                row["uid"],
                accounts[row["account"]],
                datetime.fromisoformat(row["ts"]).astimezone(UTC).replace(tzinfo=None),
                row["measure"]["n"],
                row["what"]["s"],
                row["where"]["r"],
            )
        ]
        marks = ", ".join(["(?, ?, ?, NULL, ?, ?, ?)"] * len(rows))
        self.db.execute(f"INSERT INTO {table} VALUES {marks}", values)

    def usage(self, terms: BillingTerms) -> BilledUsage:
        by_meter = {
            meter.id: list(self._usage_of(terms, meter, aggregations))
            for meter, aggregations in aggregate.by_meter(self.configuration)
        }
        compounds = terms.compound_windows()
        return add_compounds(
            BilledUsage(by_meter), self.configuration, {}, compounds, terms.usage_owners
        )

    def _usage_of(
        self, terms: BillingTerms, meter: Record[Meter], aggregations: list[Record[Aggregation]]
    ) -> Iterator[MeterUsage]:
        rollups = aggregate.rollups(meter.entity, aggregations, COLUMNS)
        windows = [aggregate.windows(*each) for each in terms.windows.get(meter.id, ())]
        for scope in (aggregate.whole(terms.period), *windows):
            yield from read_usage(self.db, self.tables[meter.id], meter.entity, rollups, scope)


@dataclass(frozen=True)
class Comparison:
    """The bills of both, each as one text with a row for each line."""

    engine: list[str]
    oracle: list[str]

    def differences(self) -> str:
        """The rows of both, marked where they differ; empty where all are the same."""
        if self.engine == self.oracle:
            return ""
        left, right = (
            [line for bill in bills for line in bill.splitlines()]
            for bills in (self.engine, self.oracle)
        )
        return "\n".join(_mark(left, right))


def _mark(left: list[str], right: list[str]) -> Iterator[str]:
    yield "- only of the engine, + only of the oracle"
    yield from (row for row in difflib.ndiff(left, right) if not row.startswith("?"))


def compare(
    world: billing_oracle.World, first: date, after: date, cuts: Collection[date] = ()
) -> Comparison:
    """Both calculations of the bills of some days.

    Args:
        world: Who is billed for what.
        first: The first of the days.
        after: The day after the last one.
        cuts: Where one run of the engine ends and another begins.
    """
    edges = [first, *sorted(cuts), after]
    engine = Engine(world)
    return Comparison(
        sorted(
            text for begin, end in pairwise(edges) for text in _texts_of_engine(engine, begin, end)
        ),
        sorted(_texts_of_oracle(world, first, after)),
    )


def compare_seed(
    seed: int, features: Collection[str], *, days: int = 120, rows: int = 40
) -> Comparison:
    """Both calculations of the bills of a random world until half a month after its last day."""
    world = random_world(seed, features, days=days, rows=rows)
    first = date(2021, 11, 1)
    after = date(2022, 1, 15) + timedelta(days=days)
    return compare(world, first, after, [date(2022, 1, 1) + timedelta(days=seed % (days + 1))])


def _texts_of_engine(engine: Engine, first: date, after: date) -> Iterator[str]:
    for made in engine.bills(first, after):
        if isinstance(made, Failure):
            yield f"FAILURE {made.account_code}: {made.reason}"
        else:
            yield _text_of_bill(made, engine.configuration)


def _texts_of_oracle(world: billing_oracle.World, first: date, after: date) -> Iterator[str]:
    for bill in billing_oracle.bills(world, first, after).bills:
        head = _head(bill.account_code, bill.date, bill.frequency, bill.interval, bill.currency)
        yield "\n".join(
            [f"{head} {bill.total.normalize():f}", *map(_text_of_oracle_line, bill.lines)]
        )


def _head(code: str, day: date, frequency: str, interval: int | None, currency: str) -> str:
    return f"{code} {day} {frequency} {interval or 1} {currency}"


def _text_of_bill(bill: Bill, configuration: Configuration) -> str:
    frequency, interval = bill.billing_frequency.value, bill.bill_frequency_interval
    head = _head(bill.account_code, bill.bill_date, frequency, interval, bill.currency)
    total = sum((line.converted_subtotal for line in bill.lines), Decimal(0))
    lines = [_text_of_engine_line(line, configuration) for line in bill.lines]
    return "\n".join([f"{head} {total.normalize():f}", *lines])


def _text_of_engine_line(line: Line, configuration: Configuration) -> str:
    plan = configuration.get(Plan, line.plan_id).entity.code if line.plan_id else None
    return _text_of_line(
        (line.type.value, plan, _item_code(line, configuration), dict(line.segment or ())),
        line.members.get("childAccountCode"),
        (Fraction(line.quantity), Fraction(line.units)),
        (line.currency, line.subtotal, Fraction(line.conversion_rate), line.converted_subtotal),
        (line.service_period.start, line.service_period.end),
    )


def _item_code(line: Line, configuration: Configuration) -> str | None:
    members = line.to_wire()
    for field, kind in _ITEMS.items():
        if field in members:
            return configuration.get(kind, members[field]).entity.code
    return None


_ITEMS: Final = {
    "aggregationId": Aggregation,
    "compoundAggregationId": CompoundAggregation,
    "counterId": Counter,
    "chargeId": Charge,
}


def _text_of_oracle_line(line: billing_oracle.Line) -> str:
    return _text_of_line(
        (line.type, line.plan_code, line.item_code, dict(line.segment)),
        line.child_code,
        (line.quantity, line.units),
        (line.currency, line.subtotal, line.conversion_rate, line.converted_subtotal),
        (line.start, line.end),
    )


def _text_of_line(
    what: tuple[str, str | None, str | None, dict[str, str]],
    child: str | None,
    numbers: tuple[Fraction, Fraction],
    money: tuple[str, Decimal, Fraction, Decimal],
    times: tuple[datetime, datetime],
) -> str:
    kind, plan, item, segment = what
    quantity, units = (_short(number) for number in numbers)
    currency, subtotal, rate, converted = money
    amounts = f"{subtotal.normalize():f} {currency} x{_short(rate)} = {converted.normalize():f}"
    values = "".join(segment[name] for name in sorted(segment))
    start, end = (time.astimezone(UTC).strftime("%m-%dT%H:%M:%S") for time in times)
    of_child = "" if child is None else f"of {child} "
    return f"  {of_child}{kind} {plan} {item} {values} [{quantity} {units}] {amounts} {start} {end}"


def _short(number: Fraction) -> str:
    value = (Decimal(number.numerator) / number.denominator).quantize(_DIGITS)
    return f"{value.normalize():f}"
