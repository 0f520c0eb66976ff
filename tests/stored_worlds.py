"""Worlds of the billing oracle in real stores: entities in State, measurements in the lake."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from meterlake.model.bills.jobs import BillOrder
from meterlake.model.bills.ledger import Posting
from meterlake.model.calendar.recurrence import DayRange
from meterlake.model.configuration.organization import Currency, OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.balances import Balance, BalanceTransaction, EntityType
from meterlake.model.measurements.receipt import Delivery
from meterlake.model.values.entity import Entity
from meterlake.model.values.period import Month
from meterlake.pipeline.billing.balances.balances import BookingCause, book
from meterlake.pipeline.billing.balances.ended_balances import settle_ended_balances
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.pipeline.billing.run import Billed
from meterlake.pipeline.ingest.run import ingest_file
from meterlake.stores import Organization, Stores, open_stores
from meterlake.stores.state import Transaction
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.credits.ledger import all_postings
from meterlake.stores.state.billing.stored_bills import BillContent, BillKey
from tests import billing_oracle
from tests.billing_oracle.world import World
from tests.compared_bills import KINDS
from tests.homes import initialized_home, settings
from tests.organizations import Clock

CREATED: Final = datetime(2021, 6, 1, tzinfo=UTC)
BillName = tuple[str, date, str, int]
# All that happens in a world of 120 days is billed in these; later, only what is left of it.
MONTHS: Final = (
    *(Month(2021, number) for number in (11, 12)),
    *(Month(2022, n) for n in range(1, 6)),
)
_HEADER: Final = "meter,account,uid,ts,measure.n,what.s,where.r"


class StoredWorld:
    """A world in stores of its own, with a clock that tests turn."""

    def __init__(self, stores: Stores, org_id: str, clock: Clock, world: World) -> None:
        self.stores, self.org_id, self.clock = stores, org_id, clock
        self._store_entities(world)
        self._ingest(world)

    @property
    def organization(self) -> Organization:
        """The organization, with its stores."""
        return self.stores.organization(self.org_id)

    def bill(self, days: Month | DayRange) -> list[Billed]:
        """Make the bills whose periods end on some days."""
        result = bill_order(self.organization, BillOrder(days=days))
        assert result.failures == []
        return result.bills

    def settle(self) -> None:
        """Post what is left of all balances that ended."""
        while settle_ended_balances(self.organization):
            pass

    def bill_on_time(self, *spans: Month | DayRange) -> list[Billed]:
        """Bill spans of days one after the other, each soon after its end if that is still to come."""
        found = []
        for days in spans:
            soon = datetime.combine(days.after, datetime.min.time(), UTC) + timedelta(days=2)
            self.clock.time = max(self.clock.time, soon)
            self.settle()
            found += self.bill(days)
        self.settle()
        return found

    def postings(self) -> list[Posting]:
        """The ledger, in its order."""
        with self.organization.reading() as reader:
            return list(all_postings(reader))

    def amounts(self) -> dict[BillName, tuple[Decimal, list[tuple[str, Decimal]]]]:
        """Total and lines of every bill with lines, by its account's code and what else names it."""
        with self.organization.reading() as reader:
            codes = {each.id: each.entity.code for each in reader.all(Account)}
            stored = [bill for month in MONTHS for bill in bills.of_period(reader, str(month))]
        return {
            _name_of(each.content.key, codes): (each.content.total, _lines_of(each.content))
            for each in stored
            if each.content.lines
        }

    def _store_entities(self, world: World) -> None:
        """Each in a transaction of its own, so that one is created after the other."""
        # Charges last: some are for balances.
        for name, kind in sorted(KINDS.items(), key=lambda each: each[0] == "charges"):
            if name == "products":
                # It names currencies.
                self._change(OrganizationConfig, None, world.organization)
            for row in getattr(world, name):
                fields = {name: value for name, value in row.items() if name != "transactions"}
                if kind is Currency and row["code"] == "USD":
                    self._change(Currency, "USD", fields)
                else:
                    with self._transaction() as transaction:
                        transaction.create(kind.from_wire(fields), row["id"])
        for row in world.balances:
            for each in row["transactions"]:
                self._book(row["id"], each)

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        self.clock.advance(seconds=1)
        with self.organization.transaction("test") as transaction:
            yield transaction

    def _change(self, kind: type[Entity], code: str | None, fields: Any) -> None:
        """Change an entity that every organization has."""
        with self._transaction() as transaction:
            found = transaction.all(kind) if code is None else [transaction.find(kind, code)]
            [record] = [each for each in found if each]
            wire = record.entity.to_wire() | {k: v for k, v in fields.items() if k != "id"}
            transaction.update(record.id, record.version, kind.from_wire(wire))

    def _book(self, balance_id: str, fields: Any) -> None:
        entity = BalanceTransaction.from_wire(fields)
        with self._transaction() as transaction:
            cause = BookingCause(EntityType.USER, "test")
            book(transaction, transaction.get(Balance, balance_id), entity, cause)

    def _ingest(self, world: World) -> None:
        rows = [
            f"{row['meter']},{row['account']},{row['uid']},{row['ts']}"
            f",{row['measure']['n']},{row['what']['s']},{row['where']['r']}"
            for row in world.measurements
        ]
        # Measurements of the future are refused.
        self.clock.time = datetime(2022, 12, 1, tzinfo=UTC)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "measurements.csv")
            path.write_text("\n".join([_HEADER, *rows, ""]))
            arrival = Delivery("measurements", path.name, self.clock())
            receipt = ingest_file(self.organization, path, arrival, None)
        assert receipt.accepted == len(rows), receipt
        self.clock.time = CREATED


def _name_of(key: BillKey, codes: Mapping[str, str]) -> BillName:
    return codes[key.account_id], key.bill_date, key.frequency, key.interval


def _lines_of(content: BillContent) -> list[tuple[str, Decimal]]:
    bodies = [line.body for line in content.lines]
    return [(body["lineItemType"], Decimal(body["convertedSubtotal"])) for body in bodies]


def amounts_of_oracle(world: World) -> dict[BillName, tuple[Decimal, list[tuple[str, Decimal]]]]:
    """The same as the billing oracle has it."""
    made = billing_oracle.bills(world, MONTHS[0].first, MONTHS[-1].after).bills
    return {
        (each.account_code, each.date, each.frequency, each.interval or 1): (
            each.total,
            [(line.type, line.converted_subtotal) for line in each.lines],
        )
        for each in made
        if each.lines
    }


@contextmanager
def store_world(world: World, folder: Path, **changes: Any) -> Iterator[StoredWorld]:
    """A world in a new home; the clock is before all that happens in it."""
    clock = Clock()
    clock.time = CREATED
    made = initialized_home(folder / "home", "World")
    with open_stores(settings(folder / "home", **changes), clock) as stores:
        yield StoredWorld(stores, made.org_id, clock, world)
