"""Lines that people put on a bill: credits and debits, each with what it is about."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from meterlake.model.bills.bill import LineItemType
from meterlake.model.values.entity import Entity
from meterlake.model.values.fields import Id, Instant, Integer, NonNegative, Positive, Text


class MemoKind(StrEnum):
    """Whether a line lowers a bill or raises it."""

    CREDIT = "CREDIT"
    DEBIT = "DEBIT"


class MemoLineItem(Entity):
    """A line of a person, about another line.

    Attributes:
        kind: Whether it lowers the bill or raises it.
        default_type: What it is on the bill unless `lineItemType` says MANUAL_ADJUSTMENT.
        amount: How much the line is about, in the currency of the bill.
        amount_to_apply_on_bill: How much of it stands on this bill; all of it if absent.
    """

    kind: ClassVar[MemoKind]
    default_type: ClassVar[LineItemType]

    product_id: Id
    accounting_product_id: Id
    description: Annotated[Text, Field(min_length=1, max_length=1000)]
    amount: Positive
    referenced_bill_id: Id
    referenced_line_item_id: Id
    service_period_start_date: Instant
    service_period_end_date: Instant
    reason_id: Id | None = None
    line_item_type: LineItemType | None = None
    amount_to_apply_on_bill: NonNegative | None = None
    # The version that an update replaces; it is no field of the line.
    version: Annotated[Integer | None, Field(exclude=True)] = None

    @property
    def type(self) -> LineItemType:
        """What it is on the bill."""
        return self.line_item_type or self.default_type


class CreditLineItem(MemoLineItem):
    """A line that lowers a bill."""

    kind = MemoKind.CREDIT
    default_type = LineItemType.CREDIT_MEMO

    credit_reason_id: Id | None = None


class DebitLineItem(MemoLineItem):
    """A line that raises a bill."""

    kind = MemoKind.DEBIT
    default_type = LineItemType.DEBIT_MEMO

    debit_reason_id: Id | None = None


class CarriedCredit(CreditLineItem):
    """A credit by which late usage is carried forward: its line may have no product, and be gone."""

    product_id: Id | None = None  # type: ignore[assignment]
    accounting_product_id: Id | None = None  # type: ignore[assignment]
    referenced_line_item_id: Id | None = None  # type: ignore[assignment]


class CarriedDebit(DebitLineItem):
    """A debit by which late usage is carried forward: its line may have no product, or be new."""

    product_id: Id | None = None  # type: ignore[assignment]
    accounting_product_id: Id | None = None  # type: ignore[assignment]
    referenced_line_item_id: Id | None = None  # type: ignore[assignment]
