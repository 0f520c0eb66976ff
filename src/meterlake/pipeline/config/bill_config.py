"""The day up to which bills are closed: set, and checked against the bills that are still open."""

from meterlake.model.entity import Record
from meterlake.model.errors import Invalid
from meterlake.model.organization import BillConfig
from meterlake.model.resources import BY_ENTITY
from meterlake.pipeline.config.entities import Document, parse, shown, update_in, version_of
from meterlake.stores import Stores
from meterlake.stores.state import Transaction
from meterlake.stores.state.billing.bills import pending_until


def update(stores: Stores, org_id: str, author: str, document: Document) -> Document:
    """Set the bill configuration; `version` must be the current one.

    Raises:
        Required: There is no version.
        Invalid: A field is broken, or a bill until the lock date is still PENDING.
        StaleVersion: Someone updated it since the caller read it.
    """
    version = version_of(document)
    entity: BillConfig = parse(BY_ENTITY[BillConfig], document, {})
    with stores.state.transaction(org_id, author) as transaction:
        before = _stored(transaction)
        if version == before.version:
            refuse_pending(transaction, entity)
        return shown(update_in(transaction, stores, before, version, entity), transaction)


def refuse_pending(transaction: Transaction, config: BillConfig) -> None:
    """Refuse a lock date while a bill that it would close waits for approval.

    Raises:
        Invalid: There is such a bill.
    """
    day = config.bill_lock_date
    pending = None if day is None else pending_until(transaction, day)
    if day is not None and pending is not None:
        rule = f"a day before every PENDING bill ends; bill {pending!r} ends on or before it"
        raise Invalid("billLockDate", day.isoformat(), rule)


def _stored(transaction: Transaction) -> Record[BillConfig]:
    found = transaction.all(BillConfig)
    return found[0] if found else transaction.create(BillConfig())
