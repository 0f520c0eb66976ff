"""Lists that an organization keeps for itself and picks from: reasons, types, grouping keys."""

from meterlake.model.entity import Entity
from meterlake.model.fields import Flag, Ident, Name


class PicklistItem(Entity):
    """One item of a list; an archived one stays where it is used, and is not picked any more."""

    name: Name
    code: Ident | None = None
    archived: Flag = False


class CreditReason(PicklistItem):
    """Why a bill has a credit line that a person added."""


class DebitReason(PicklistItem):
    """Why a bill has a debit line that a person added."""


class TransactionType(PicklistItem):
    """What kind of money comes into a balance, or leaves it."""


class BillGroupingKey(PicklistItem):
    """What contracts have in common whose charges stand on one bill; an exclusive key has one user."""

    exclusive: Flag
