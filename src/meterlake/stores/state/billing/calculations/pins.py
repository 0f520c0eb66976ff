"""What bills were calculated from: one row for all bills of one reading, written with the first."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, insert, select

from meterlake.stores.state.core.chunks import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL_CALCULATION, ENTITY_HISTORY, ORGANIZATION
from meterlake.stores.state.core.transaction import Transaction


@dataclass(frozen=True, slots=True)
class CalculationPins:
    """What the bills of one reading were calculated from.

    Attributes:
        at: The last transaction of the organization that the reading saw.
        snapshot: Of the lake.
        selection: Which bills, as JSON.
        code: The version of meterlake.
        digest: Of the sources that calculate.
    """

    id: str
    at: int
    snapshot: int
    selection: str
    code: str
    digest: str


def last_transaction(reader: Reader) -> int:
    """The number of the last transaction that wrote what bills are made of, as a reader sees it."""
    query = select(ORGANIZATION.c.transactions).where(ORGANIZATION.c.id == reader.org_id)
    return int(reader.connection.execute(query).scalar_one())


def transactions_at(reader: Reader, instants: Collection[datetime]) -> dict[datetime, int]:
    """The last transaction that had changed the configuration at some instants."""
    table = ENTITY_HISTORY.c
    newest = func.max(table.began)
    return {
        each: int(reader.connection.scalar(query) or 0)
        for each in instants
        for query in [select(newest).where(table.org == reader.org_id, table.valid_from <= each)]
    }


def note_calculation(transaction: Transaction, pins: CalculationPins) -> None:
    """Write down what bills were calculated from, unless that was done with others of them."""
    known = select(BILL_CALCULATION.c.id).where(BILL_CALCULATION.c.id == pins.id)
    if transaction.connection.execute(known).first() is None:
        row = {
            **{name: getattr(pins, name) for name in CalculationPins.__slots__},
            "org": transaction.org_id,
            "created": transaction.now,
            "created_by": transaction.author,
        }
        transaction.connection.execute(insert(BILL_CALCULATION), row)


def read_calculations(reader: Reader, ids: Collection[str]) -> dict[str, CalculationPins]:
    """What calculations were made from, by their ids."""
    table = BILL_CALCULATION.c
    found: dict[str, CalculationPins] = {}
    columns = [table[name] for name in CalculationPins.__slots__]
    for chunk in chunks_of(ids):
        query = select(*columns).where(table.org == reader.org_id, table.id.in_(chunk))
        found |= {row.id: CalculationPins(*row) for row in reader.connection.execute(query)}
    return found
