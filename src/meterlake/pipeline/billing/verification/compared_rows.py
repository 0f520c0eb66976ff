"""Bills as their rows have them against what their calculation gives now."""

from collections.abc import Iterator

from meterlake.model.bills.verification import BillDifference, DifferenceSubject
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.stages.bill.verification import BillTexts, LineTexts, compare_bills
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills.batch import BillColumns
from meterlake.stores.state.billing.bills.bills import with_memos
from meterlake.stores.state.billing.calculations.verified import BillRow
from meterlake.stores.state.billing.credits.ledger import (
    BillConsumption,
    consumption_of,
    corrections,
)
from meterlake.stores.state.billing.memos.memos import KEY_PREFIX, MemoLine, memo_lines
from meterlake.stores.state.billing.stored_bills import BillContent


def compare_rows(
    reader: Reader,
    rows: dict[str, BillRow],
    contents: dict[str, BillContent],
    *,
    is_same_code: bool,
) -> Iterator[BillDifference]:
    """What differs of bills, and of what they draw.

    Args:
        reader: Of the organization.
        rows: The bills as they are stored, by their ids.
        contents: The same as they come out.
        is_same_code: Whether every byte counts.
    """
    memos = memo_lines(reader, [*contents])
    standing = consumption_of(reader, contents)
    for id_, content in contents.items():
        calculated = BillColumns(with_memos(content, memos.get(id_, ())))
        stored = _stored_texts(id_, rows[id_])
        found = _calculated_texts(id_, calculated)
        yield from compare_bills(stored, found, is_same_code=is_same_code)
        wanted = BillConsumption(id_, rows[id_].head.version, content.draws)
        for each in corrections(wanted, standing.get(id_, ())):
            amount = plain(each.amount)
            yield BillDifference(
                subject=DifferenceSubject.POSTING,
                name=each.reverses or each.source_id,
                field="amount",
                stored=amount if each.reverses else None,
                calculated=None if each.reverses else amount,
                bill_id=id_,
            )


def compare_former_rows(
    rows: dict[str, BillRow], contents: dict[str, BillContent], *, is_same_code: bool
) -> Iterator[BillDifference]:
    """The same of former contents: the ledger has gone on, and lines of people are their own."""
    for id_, content in contents.items():
        memos = [
            MemoLine(key, {**wire.loads(body), "sequenceNumber": 0})
            for key, body, _ in rows[id_].lines
            if key.startswith(KEY_PREFIX)
        ]
        found = _calculated_texts(id_, BillColumns(with_memos(content, memos)))
        stored = _stored_texts(id_, rows[id_])
        yield from compare_bills(stored, found, is_same_code=is_same_code)


def _stored_texts(id_: str, row: BillRow) -> BillTexts:
    head, lines = row.head, [LineTexts(*each) for each in row.lines]
    return BillTexts(id_, head.period, head.currency, head.total, head.body, head.pins, lines)


def _calculated_texts(id_: str, bill: BillColumns) -> BillTexts:
    shown = bill.shown
    lines = [
        LineTexts(key, body, pins)
        for (key, body), pins in zip(bill.lines, bill.line_pins, strict=True)
    ]
    head = (shown["period"], shown["currency"], shown["total"], shown["body"])
    return BillTexts(id_, *head, str(bill.made_from["pins"]), lines)
