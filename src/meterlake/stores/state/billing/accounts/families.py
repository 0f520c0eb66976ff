"""Accounts with their relatives: parents and children, and those of these."""

from collections.abc import Iterable

from sqlalchemy import or_, select

from meterlake.model.customers.accounts import Account
from meterlake.stores.state.core.chunks import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import ENTITY_REFERENCE


def read_families(reader: Reader, account_ids: Iterable[str]) -> dict[str, frozenset[str]]:
    """Accounts with all that are related to them, by the id of each of these."""
    found: dict[str, frozenset[str]] = {}
    for id_ in account_ids:
        if id_ not in found:
            family = frozenset(read_relatives(reader, [id_]))
            found |= dict.fromkeys(family, family)
    return found


def read_relatives(reader: Reader, account_ids: Iterable[str]) -> set[str]:
    """The ids of accounts, and of all that are related to them."""
    found = set(account_ids)
    fresh = sorted(found)
    table = ENTITY_REFERENCE.c
    while fresh:
        near: set[str] = set()
        for ids in chunks_of(fresh):
            query = select(table.id, table.target_id).where(
                *(table.org == reader.org_id, table.kind == Account.__name__),
                table.target_kind == Account.__name__,
                or_(table.id.in_(ids), table.target_id.in_(ids)),
            )
            near |= {each for pair in reader.connection.execute(query) for each in pair}
        fresh = sorted(near - found)
        found |= near
    return found
