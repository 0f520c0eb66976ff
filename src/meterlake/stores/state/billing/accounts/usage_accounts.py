"""Accounts whose periods of usage are not simply the organization's, without reading the others."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, select, union

from meterlake.model.customers.accounts import Account, AccountPlan
from meterlake.model.values.entity import Record
from meterlake.stores.state.core.json_columns import member_text
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
    apart = union(
        _ids(reader, Account, _has("billEpoch") | _has("parentAccountId")),
        _targets(reader, Account),
        _accounts_on(reader, _has("billEpoch") | _has("planGroupId") | _plan_in(plan_ids)),
    ).subquery()
    chosen = select(apart.c[0])
    reference = ENTITY_REFERENCE.c
    plans = select(reference.id).where(
        reference.org == reader.org_id,
        reference.kind == AccountPlan.__name__,
        reference.target_kind == Account.__name__,
        reference.target_id.in_(chosen),
    )
    return [
        *reader.matching(Account, ENTITY.c.id.in_(chosen)),
        *reader.matching(AccountPlan, ENTITY.c.id.in_(plans)),
    ]


def _has(member: str) -> ColumnElement[bool]:
    return member_text(ENTITY.c.body, member).is_not(None)


def _plan_in(plan_ids: Iterable[str]) -> ColumnElement[bool]:
    return member_text(ENTITY.c.body, "planId").in_(list(plan_ids))


def _ids(reader: Reader, kind: type[Any], condition: ColumnElement[bool]) -> Select[Any]:
    return select(ENTITY.c.id).where(
        ENTITY.c.org == reader.org_id, ENTITY.c.kind == kind.__name__, condition
    )


def _accounts_on(reader: Reader, condition: ColumnElement[bool]) -> Select[Any]:
    return select(member_text(ENTITY.c.body, "accountId")).where(
        ENTITY.c.org == reader.org_id, ENTITY.c.kind == AccountPlan.__name__, condition
    )


def _targets(reader: Reader, kind: type[Any]) -> Select[Any]:
    """The accounts that entities of a kind refer to: the parents, if these are accounts."""
    reference = ENTITY_REFERENCE.c
    return select(reference.target_id).where(
        reference.org == reader.org_id,
        reference.kind == kind.__name__,
        reference.target_kind == Account.__name__,
    )
