"""Who and what is in which resource group; groups may hold groups of their type, without circles."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, insert, or_, select

from meterlake.model.configuration.access import ResourceGroup
from meterlake.model.configuration.permissions import GROUP
from meterlake.model.errors import Invalid, NotFound
from meterlake.stores.state.access.access_tables import GROUP_MEMBER
from meterlake.stores.state.core.pages import Page, read
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Member:
    """One entry of a group: an item, or another group."""

    id: str
    group_id: str
    target_id: str
    target_type: str
    created: datetime
    created_by: str


def add_member(transaction: Transaction, group_id: str, target_id: str, target_type: str) -> Member:
    """Put something into a group; what is in it already stays as it is.

    Raises:
        Invalid: The group would hold itself.
    """
    table = GROUP_MEMBER.c
    query = select(GROUP_MEMBER).where(
        table.org == transaction.org_id, table.group_id == group_id, table.target_id == target_id
    )
    former = transaction.connection.execute(query).first()
    known = None if former is None else _of(former)
    if known is not None:
        return known
    if target_type == GROUP and target_id in {group_id, *groups_of(transaction, group_id)}:
        raise Invalid("targetId", target_id, "it must be a group that does not hold this group")
    made = Member(
        transaction.new_id(),
        group_id,
        target_id,
        target_type,
        transaction.now,
        transaction.author,
    )
    row = {name: getattr(made, name) for name in made.__dataclass_fields__}
    transaction.connection.execute(insert(GROUP_MEMBER), row | {"org": transaction.org_id})
    return made


def remove_member(transaction: Transaction, group_id: str, target_id: str) -> None:
    """Take something out of a group.

    Raises:
        NotFound: It is not in the group.
    """
    table = GROUP_MEMBER.c
    query = delete(GROUP_MEMBER).where(
        table.org == transaction.org_id, table.group_id == group_id, table.target_id == target_id
    )
    if transaction.connection.execute(query).rowcount != 1:
        raise NotFound("member of the group", target_id)


def forget(transaction: Transaction, id: str) -> None:
    """Take something that is deleted out of all groups; if it is a group, empty it."""
    table = GROUP_MEMBER.c
    query = delete(GROUP_MEMBER).where(
        table.org == transaction.org_id, or_(table.target_id == id, table.group_id == id)
    )
    transaction.connection.execute(query)


def members(reader: Reader, group_id: str, page: Page) -> tuple[list[Member], str | None]:
    """One page of what is in a group, and the token of the next."""
    table = GROUP_MEMBER.c
    query = select(GROUP_MEMBER).where(table.org == reader.org_id, table.group_id == group_id)
    rows, token = read(reader.connection, query, table.created, table.id, page)
    return [_of(row) for row in rows], token


def parents(reader: Reader, targets: frozenset[str]) -> frozenset[str]:
    """The ids of the groups that hold one of the targets directly."""
    table = GROUP_MEMBER.c
    query = select(table.group_id).where(
        table.org == reader.org_id, table.target_id.in_(sorted(targets))
    )
    return frozenset(reader.connection.execute(query).scalars()) if targets else frozenset()


def groups_of(reader: Reader, target_id: str) -> frozenset[str]:
    """The ids of all groups that hold something, directly or through other groups."""
    found: frozenset[str] = frozenset()
    fresh = frozenset({target_id})
    while fresh:
        fresh = parents(reader, fresh) - found
        found |= fresh
    return found


def group(reader: Reader, type: str, id: str) -> Any:
    """One group of a type.

    Raises:
        NotFound: There is none.
    """
    record = reader.get(ResourceGroup, id)
    if record.entity.type != type:
        raise NotFound(ResourceGroup.__name__, id)
    return record


def _of(row: Row[Any]) -> Member:
    return Member(row.id, row.group_id, row.target_id, row.target_type, row.created, row.created_by)
