"""Rules of accounts: parents and children."""

from typing import Final

from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Invalid
from meterlake.model.rules.proposed import Proposed

CHILDREN_MAX: Final = 999


def parent_is_no_child(new: Proposed[Account]) -> None:
    """A parent is another account, one without a parent of its own: there are no grandparents."""
    parent_id = new.entity.parent_account_id
    if parent_id is None:
        return
    if parent_id == new.id:
        raise Invalid(
            "parentAccountId",
            parent_id,
            "an account cannot be its own parent; choose another account",
        )
    parent = new.configuration.get(Account, parent_id).entity
    if parent.parent_account_id is not None:
        rule = f"{parent.code!r} has a parent itself; choose an account without one"
        raise Invalid("parentAccountId", parent_id, rule)


def child_has_no_children(new: Proposed[Account]) -> None:
    """An account with children gets no parent."""
    parent_id = new.entity.parent_account_id
    if parent_id is None:
        return
    for child in new.configuration.where(Account, "parent_account_id", new.id):
        rule = f"the account has children, such as {child.entity.code!r}; leave it out"
        raise Invalid("parentAccountId", parent_id, rule)


def children_fit(new: Proposed[Account]) -> None:
    """An account has at most 999 children."""
    parent_id = new.entity.parent_account_id
    if parent_id is None or (new.before and new.before.parent_account_id == parent_id):
        return
    if len(new.configuration.where(Account, "parent_account_id", parent_id)) > CHILDREN_MAX:
        rule = f"it has {CHILDREN_MAX} children, and may have no more; choose another account"
        raise Invalid("parentAccountId", parent_id, rule)
