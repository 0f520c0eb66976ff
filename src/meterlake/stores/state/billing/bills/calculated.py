"""Bills with what they were calculated from: those that come out the same stay as they are."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import func, select, update

from meterlake.model.bills.requests import BillStatus
from meterlake.stores.state.billing.stored_bills import BillKey
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE
from meterlake.stores.state.core.transaction import Transaction

# What tells whether a bill still is what it was when it was read.
_STATE: Final = ("id", "version", "status", "locked", "outdated_by", "inputs")


class CalculatedBill(NamedTuple):
    """A stored bill as far as it tells whether it would come out the same.

    Attributes:
        state: What its row says, to be compared with the row later.
        inputs: What it was calculated from at its version; None if nobody knows.
        lines: How many it has.
    """

    state: tuple[Any, ...]
    id: str
    key: BillKey
    status: BillStatus
    currency: str
    total: Decimal
    inputs: str | None
    lines: int

    @property
    def version(self) -> int:
        """Its version when it was read."""
        version: int = self.state[_STATE.index("version")]
        return version

    def keeps(self, digest: str, status: BillStatus) -> bool:
        """Whether it stays as it is in a run with these inputs.

        Args:
            digest: Of all that it is calculated from now.
            status: That of bills that change; APPROVED approves the others, too.
        """
        return self.inputs == digest and status in {self.status, BillStatus.PENDING}


def inputs_column(version: int, digest: str | None) -> str | None:
    """What a bill was calculated from, as it is stored: it holds for one version only."""
    return None if digest is None else f"{version}/{digest}"


def read_calculated_bills(
    reader: Reader, account_ids: Iterable[str], bill_dates: tuple[date, date]
) -> dict[str, list[CalculatedBill]]:
    """The bills of accounts, by the ids of these.

    Args:
        reader: Where from.
        account_ids: The accounts.
        bill_dates: The first and the last bill date.
    """
    lines = select(func.count()).where(BILL_LINE.c.bill_id == BILL.c.id).scalar_subquery()
    found: dict[str, list[CalculatedBill]] = defaultdict(list)
    for ids in chunks_of(account_ids):
        query = select(BILL, lines.label("lines")).where(
            BILL.c.org == reader.org_id,
            BILL.c.account_id.in_(ids),
            BILL.c.bill_date.between(*bill_dates),
        )
        for row in reader.connection.execute(query):
            version, _, digest = (row.inputs or "").partition("/")
            is_current = version == str(row.version) and not row.locked and row.outdated_by is None
            calculated_bill = CalculatedBill(
                state=tuple(getattr(row, name) for name in _STATE),
                id=row.id,
                key=BillKey.of_row(row),
                status=BillStatus(row.status),
                currency=row.currency,
                total=Decimal(row.total),
                inputs=digest if is_current else None,
                lines=row.lines,
            )
            found[row.account_id].append(calculated_bill)
    return found


def changed_bills(reader: Reader, bills: Sequence[CalculatedBill]) -> set[str]:
    """The ids of those bills that are not what they were, or are gone."""
    columns = [BILL.c[name] for name in _STATE]
    now: dict[str, tuple[Any, ...]] = {}
    for ids in chunks_of(each.id for each in bills):
        query = select(*columns).where(BILL.c.org == reader.org_id, BILL.c.id.in_(ids))
        now |= {row.id: tuple(row) for row in reader.connection.execute(query)}
    return {each.id for each in bills if now.get(each.id) != each.state}


def keep_bills(transaction: Transaction, ids: Collection[str], job_id: str | None) -> None:
    """Note that a job calculated bills, of which nothing changed."""
    values = {"calculated": transaction.now, "job_id": job_id}
    for some in chunks_of(ids):
        statement = update(BILL).where(BILL.c.id.in_(some)).values(values)
        transaction.connection.execute(statement)
