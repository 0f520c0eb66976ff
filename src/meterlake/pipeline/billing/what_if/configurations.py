"""What would be configured: files as entities, the accounts that they concern, and what is open."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from meterlake.model.configuration.organization import BillConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.customers.owned_entities import ACCOUNT_ENTITIES
from meterlake.model.errors import NotFound
from meterlake.model.resources.proposal import Document
from meterlake.model.values.entity import Record
from meterlake.model.values.ids import is_id
from meterlake.model.values.period import Month
from meterlake.pipeline.config.apply_configuration import ApplyOptions, propose_changes
from meterlake.pipeline.config.webhook_addresses import address_policy
from meterlake.stores import Stores
from meterlake.stores.custom_sql import limits_of
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.accounts.usage_accounts import read_relatives

_OF_FAMILIES: Final = frozenset({Account, *ACCOUNT_ENTITIES})
_ONE_DAY: Final = timedelta(days=1)


def propose_records(
    stores: Stores, reader: Reader, documents: Sequence[Document], *, allow_unknown: bool = False
) -> list[Record[Any]]:
    """The entities that applying documents would write, as they would be.

    Raises:
        Invalid: Something is wrong, as `apply` says.
    """
    options = ApplyOptions(
        allow_unknown=allow_unknown,
        limits=limits_of(stores.settings),
        addresses=address_policy(stores.settings),
    )
    now = stores.now()
    records = propose_changes(stores.state, reader, documents, options)
    return [
        replace(each, created=now if each.version == 1 else each.created, modified=now)
        for each in records
    ]


def accounts_named(reader: Reader, names: Iterable[str]) -> dict[str, str]:
    """The ids of accounts that are named by code or id, with their codes.

    Raises:
        NotFound: There is no such account.
    """
    found = {}
    for name in names:
        record = reader.find(Account, name)
        if record is None and is_id(name):
            record = reader.get(Account, name.lower())
        if record is None:
            raise NotFound("account", name)
        found[record.id] = record.entity.code
    return found


def parents_of(reader: Reader, account_ids: Iterable[str]) -> dict[str, str]:
    """The ids and codes of the accounts above some accounts, but for these.

    They may pay for them, or have the plan that prices what they use.
    """
    chosen = set(account_ids)
    found: dict[str, str] = {}
    open_ids = sorted(chosen)
    while open_ids:
        parent_id = reader.get(Account, open_ids.pop()).entity.parent_account_id
        if parent_id is not None and parent_id not in chosen and parent_id not in found:
            found[parent_id] = reader.get(Account, parent_id).entity.code
            open_ids.append(parent_id)
    return found


def unlock_months(reader: Reader, first: Month) -> list[Record[BillConfig]]:
    """The bill configuration without a lock of the months from one on: they are priced anew."""
    last = first.first - _ONE_DAY
    return [
        replace(record, entity=record.entity.model_copy(update={"bill_lock_date": last}))
        for record in reader.all(BillConfig)
        if record.entity.bill_lock_date is not None and record.entity.bill_lock_date > last
    ]


def is_of_accounts(record: Record[Any]) -> bool:
    """Whether an entity is an account, or belongs to one."""
    return type(record.entity) in _OF_FAMILIES


def concerned_accounts(reader: Reader, records: Iterable[Record[Any]]) -> set[str] | None:
    """The accounts whose bills may come out otherwise with some entities; all if None.

    What belongs to one account concerns its relatives; all else may concern everybody.
    """
    ids = set()
    for each in records:
        if not is_of_accounts(each):
            return None
        ids.add(each.id if isinstance(each.entity, Account) else each.entity.account_id)
    return read_relatives(reader, ids) if ids else ids
