"""Families of accounts, and accounts whose periods of usage are not simply the organization's."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, or_, select, union

from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.values.entity import Record
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.many_rows import chunks_of
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import ENTITY, ENTITY_REFERENCE


def accounts_apart(reader: Reader, plan_ids: Sequence[str]) -> list[Record[Any]]:
    """Accounts with an epoch, a parent or children, or on some plans; with all their account plans.

    Args:
        reader: The organization.
        plan_ids: Plans that give their accounts other periods.

    Returns:
        Accounts and account plans, also account plans that have an epoch themselves.
    """
    on_plans = [member_text(ENTITY.c.body, "planId").in_(plan_ids)] if plan_ids else []
    # The accounts that entities of a kind refer to: the parents, if these are accounts.
    parent = ENTITY_REFERENCE.c
    targets = select(parent.target_id).where(
        parent.org == reader.org_id,
        parent.kind == Account.__name__,
        parent.target_kind == Account.__name__,
    )
    apart = union(
        select(ENTITY.c.id).where(
            ENTITY.c.org == reader.org_id,
            ENTITY.c.kind == Account.__name__,
            _has("billEpoch") | _has("parentAccountId"),
        ),
        targets,
        select(member_text(ENTITY.c.body, "accountId")).where(
            ENTITY.c.org == reader.org_id,
            ENTITY.c.kind == AccountPlan.__name__,
            or_(_has("billEpoch"), _has("planGroupId"), *on_plans),
        ),
    )
    # Looked for once: it takes a look at every account.
    found: list[Record[Any]] = []
    reference = ENTITY_REFERENCE.c
    for ids in chunks_of(sorted(filter(None, reader.connection.execute(apart).scalars()))):
        plans = select(reference.id).where(
            reference.org == reader.org_id,
            reference.kind == AccountPlan.__name__,
            reference.target_kind == Account.__name__,
            reference.target_id.in_(ids),
        )
        found += reader.matching(Account, ENTITY.c.id.in_(ids))
        found += reader.matching(AccountPlan, ENTITY.c.id.in_(plans))
    return found


def _has(member: str) -> ColumnElement[bool]:
    # Few have one: their text tells that before it is read as JSON.
    names = ENTITY.c.body.contains(f'"{member}"')
    return and_(names, member_text(ENTITY.c.body, member).is_not(None))


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
