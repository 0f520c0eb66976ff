"""Where charges come from and go to: the schedule that made one, and the bill that has its line."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, or_, select

from meterlake.model.customers.charges import ChargeLineItemType
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE, ENTITY, SCHEDULED_CHARGE

_MADE = SCHEDULED_CHARGE.c


def bill_of_charge(
    reader: Reader, account_id: str, charge_id: str, at: datetime | None = None
) -> str | None:
    """The id of the bill that has the line of a charge; None while no bill has it.

    Args:
        reader: Where from.
        account_id: The account that is charged.
        charge_id: The charge.
        at: Leave out bills that were made later.
    """
    # A line of no plan: its key is type, nothing, what is charged, and when.
    keys = (BILL_LINE.c.key.startswith(f"{kind}//{charge_id}/") for kind in ChargeLineItemType)
    query = (
        select(BILL.c.id)
        .join(BILL_LINE, BILL_LINE.c.bill_id == BILL.c.id)
        .where(BILL.c.org == reader.org_id, BILL.c.account_id == account_id, or_(*keys))
        .order_by(BILL.c.created.desc(), BILL.c.id)
        .limit(1)
    )
    if at is not None:
        query = query.where(BILL.c.created <= at)
    return reader.connection.execute(query).scalar()


def schedule_of_charge(reader: Reader, charge_id: str) -> str | None:
    """The id of the schedule that made a charge; None if people did."""
    query = select(_MADE.schedule_id).where(
        _MADE.org == reader.org_id, _MADE.charge_id == charge_id
    )
    return reader.connection.execute(query).scalar()


def newest_charge_due(
    reader: Reader, schedule_id: str, at: datetime | None = None
) -> datetime | None:
    """When the newest charge was due that a schedule made; None if it made none.

    Args:
        reader: Where from.
        schedule_id: Of a schedule of charges.
        at: Leave out what was made later.
    """
    return reader.connection.execute(_newest(reader, schedule_id, _MADE.due, at)).scalar()


def charged_until(reader: Reader, schedule_id: str, at: datetime | None = None) -> datetime | None:
    """The end of the service that a schedule has charged for; see `newest_charge_due`."""
    return reader.connection.execute(_newest(reader, schedule_id, _MADE.service_end, at)).scalar()


def _newest(
    reader: Reader, schedule_id: str, column: ColumnElement[Any], at: datetime | None
) -> Select[Any]:
    query = select(column).where(_MADE.org == reader.org_id, _MADE.schedule_id == schedule_id)
    if at is not None:
        query = query.where(_MADE.created <= at)
    return query.order_by(column.desc()).limit(1)


def made_by_schedules(reader: Reader, schedule_ids: Sequence[str]) -> ColumnElement[bool]:
    """The condition that an entity is a charge that one of some schedules made."""
    made = select(_MADE.charge_id).where(
        _MADE.org == reader.org_id, _MADE.schedule_id.in_(schedule_ids)
    )
    return ENTITY.c.id.in_(made)
