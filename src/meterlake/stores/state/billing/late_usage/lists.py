"""Lists of late usage: what is undecided, what an id means, and pages of all of it."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Row, select

from meterlake.model.bills.late_usage import LateUsage, LateUsageStatus
from meterlake.stores.state.billing.late_usage.rows import (
    LATE_USAGE,
    UNDECIDED_STATUSES,
    from_rows,
    read_readable,
    read_undecided_rows,
)
from meterlake.stores.state.core import account_names, pages
from meterlake.stores.state.core.reader import DamagedRow, Reader


def undecided_late_usage(
    reader: Reader, account_ids: Collection[str] | None = None
) -> tuple[list[LateUsage], dict[str, DamagedRow]]:
    """The late usage that something may still be done about, by bill date.

    And, by account, a row that cannot be read: then there is none of that account.
    """
    rows = _rows(reader, LATE_USAGE.c.status.in_(UNDECIDED_STATUSES))
    return read_readable(
        reader, [each for each in rows if account_ids is None or each.account_id in account_ids]
    )


def count_undecided(reader: Reader, bill_ids: Collection[str]) -> int:
    """How many of some bills have late usage about which nothing was done for good."""
    rows = read_undecided_rows(reader, bill_ids)
    return len({row.bill_id for row in rows})


def bills_with_undecided(reader: Reader, bill_ids: Collection[str]) -> set[str]:
    """The bills, of some, that have late usage about which nothing was done for good."""
    found = from_rows(reader, list(read_undecided_rows(reader, list(bill_ids))))
    return {each.bill_id for each in found if not each.is_correction}


def find_late_usage(reader: Reader, id: str) -> LateUsage | None:
    """The late usage of a bill, as it is now."""
    found = _read(reader, LATE_USAGE.c.id == id)
    return found[0] if found else None


def find_correction(reader: Reader, bill_id: str) -> LateUsage | None:
    """What takes memos of a bill back, as long as it is undecided."""
    found = from_rows(reader, list(read_undecided_rows(reader, [bill_id])))
    return next((each for each in found if each.is_correction), None)


def _read(reader: Reader, *conditions: Any) -> list[LateUsage]:
    return from_rows(reader, _rows(reader, *conditions))


def _rows(reader: Reader, *conditions: Any) -> Sequence[Row[Any]]:
    query = select(LATE_USAGE).where(LATE_USAGE.c.org == reader.org_id, *conditions)
    order = (LATE_USAGE.c.bill_date, LATE_USAGE.c.found, LATE_USAGE.c.id)
    return reader.connection.execute(query.order_by(*order)).all()


def all_late_usage(reader: Reader) -> list[LateUsage]:
    """All late usage of bills, by bill date."""
    return _with_names(reader, _read(reader))


def list_late_usage(
    reader: Reader,
    page: pages.Page,
    *,
    period: str | None = None,
    account_ids: Collection[str] | None = None,
    status: LateUsageStatus | None = None,
) -> tuple[list[LateUsage], str | None]:
    """One page of late usage, the newest first, and the token of the next page.

    Raises:
        Invalid: The token is none that a list gave.
    """
    table = LATE_USAGE.c
    query = select(LATE_USAGE).where(table.org == reader.org_id)
    if period is not None:
        query = query.where(table.period == period)
    if account_ids is not None:
        query = query.where(table.account_id.in_(account_ids))
    if status is not None:
        query = query.where(table.status == status.value)
    rows, token = pages.read(reader.connection, query, table.found, table.id, page)
    return _with_names(reader, from_rows(reader, rows)), token


def _with_names(reader: Reader, found: Sequence[LateUsage]) -> list[LateUsage]:
    names = account_names.by_id(reader, {each.account_id for each in found})
    codes = {id_: each.code for id_, each in names.items()}
    return [replace(each, account_code=codes.get(each.account_id, "")) for each in found]
