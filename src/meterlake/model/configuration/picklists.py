"""Lists that an organization keeps for itself and picks from: reasons, types, grouping keys."""

from meterlake.model.values.entity import Entity
from meterlake.model.values.fields import Flag, Ident, Name


class PicklistItem(Entity):
    """One item of a list; an archived one stays where it is used, and is not picked any more."""

    name: Name
    code: Ident | None = None
    archived: Flag = False


class CreditReason(PicklistItem):
    """The reason why a person added a credit line to a bill."""


class DebitReason(PicklistItem):
    """The reason why a person added a debit line to a bill."""


class TransactionType(PicklistItem):
    """A kind of money that comes into a balance, or leaves it."""


class BillGroupingKey(PicklistItem):
    """A key that puts the charges of several contracts on one bill; an exclusive key has one user."""

    exclusive: Flag
