"""What is done to a home between two contents of a bill, and undone again, and how they are compared."""

from datetime import UTC, datetime
from typing import Any

from meterlake.model.bills.differences import BillDiff
from meterlake.model.bills.jobs import BillOrder
from meterlake.model.values.money import plain
from meterlake.model.values.period import Month
from meterlake.model.work.backfill import BackfillSpec, Mode
from meterlake.pipeline import backfill
from meterlake.pipeline.backfill import Order
from meterlake.pipeline.billing.differences.compared_contents import DiffChoice
from meterlake.pipeline.billing.differences.diff import diff_bill
from meterlake.pipeline.billing.jobs.jobs import bill_order
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.memos.memos import line_id

SEPTEMBER = Month(2026, 9)
NOW = DiffChoice(last="now")


def make_bills(home: Any, days: Any = SEPTEMBER) -> dict[str, str]:
    """Make bills; their ids by the codes of accounts."""
    result = bill_order(home.organization, BillOrder(days=days))
    assert result.failures == []
    return {each.account_code: each.bill_id for each in result.bills}


def compare(home: Any, bill_id: str, choice: DiffChoice = NOW) -> BillDiff:
    """Compare two contents, and check what always holds."""
    found = diff_bill(home.organization, bill_id, choice)
    check_sums(found)
    return found


def check_sums(found: BillDiff) -> None:
    """The parts add up to the whole, and the lines of a part to the part."""
    for currency in found.currencies:
        parts = [each for each in found.parts if each.currency == currency]
        assert sum(each.amount for each in parts) == found.whole(currency), found
    for part in found.parts:
        assert sum(each.amount for each in part.lines) == part.amount, part
        if part.if_undone is not None and len(found.currencies) == 1:
            assert part.amount + sum(each.amount for each in part.shared) == part.if_undone, part


def parts_of(found: BillDiff) -> list[tuple[str, str, str]]:
    """Kind, name and amount of every part."""
    return [(each.causes[-1].kind.value, each.name, plain(each.amount)) for each in found.parts]


def identity_of(home: Any, name: str) -> str:
    """The identity of a source."""
    [row] = home.query(f"SELECT DISTINCT identity FROM lake.source WHERE name = '{name}'")
    return str(row[0])


def retract(home: Any, name: str, id: str, author: str = "ann") -> None:
    """Withdraw the measurements of a file."""
    spec = BackfillSpec(Mode.RETRACT, reason="sent twice", source=identity_of(home, name))
    backfill.start(home.organization, Order(spec, author, id))
    backfill.apply(home.organization, id, author)


def revert(home: Any, id: str) -> None:
    """Undo a backfill."""
    backfill.revert(home.organization, id, "ben")


def change(home: Any, kind: Any, code: str | None, **fields: Any) -> None:
    """Write a new version of an entity with other fields, under their wire names."""
    with home.organization.transaction("carl") as transaction:
        found = transaction.all(kind)
        [record] = [each for each in found if code is None or each.entity.code == code]
        entity = kind.from_wire(record.entity.to_wire() | fields)
        transaction.update(record.id, record.version, entity)


def first_line(home: Any, bill_id: str) -> str:
    """The id of the first line of a bill."""
    with home.organization.reading() as reader:
        return line_id(bill_id, bills.get(reader, bill_id).content.lines[0].key)


def instant(text: str) -> datetime:
    """An instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
