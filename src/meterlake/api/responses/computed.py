"""Members of responses that no caller writes."""

from enum import StrEnum
from typing import Annotated, Any, Final

from meterlake.api.responses.envelope import response_of
from meterlake.model.catalog.lookups import LookupTableRevisionStatus
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Flag, Id, Instant, Integer, Number, Text


class _ManagedPolicy(Value):
    managed_policy: Flag | None = None


class _ProductOfPlan(Value):
    product_id: Id | None = None


class AggregationType(StrEnum):
    """Which kind of aggregation a pricing prices."""

    SIMPLE = "SIMPLE"
    COMPOUND = "COMPOUND"


class _PricingMore(Value):
    aggregation_type: AggregationType | None = None
    segment_string: Text | None = None


class _SegmentsOfCompound(Value):
    segments: tuple[dict[str, Text], ...] = ()


class _AmountLeft(Value):
    amount: Number | None = None


class _AmountSpent(Value):
    amount_spent: Number | None = None


class _OfBill(Value):
    bill_id: Id | None = None
    schedule_id: Id | None = None


class _Runs(Value):
    next_run: Instant | None = None
    previous_run: Instant | None = None


class _RevisionMore(Value):
    status: LookupTableRevisionStatus | None = None
    item_count: Integer | None = None


class _ActiveRevision(Value):
    active_revision: (
        Annotated[dict[str, Any], response_of("LookupTableRevisionResponse")] | None
    ) = None


class _InvitationMore(Value):
    inviting_principal_id: Text | None = None
    accepted: Flag | None = None
    link: Text | None = None


class TriggerType(StrEnum):
    """What starts an integration."""

    EVENT = "EVENT"
    SCHEDULE = "SCHEDULE"


class _IntegrationMore(Value):
    authorized: Flag | None = None
    enabled: Flag | None = None
    trigger_type: TriggerType | None = None


# By the schema of the resource.
COMPUTED: Final[dict[str, type[Value]]] = {
    "AccountPlan": _ProductOfPlan,
    "Balance": _AmountLeft,
    "BalanceChargeSchedule": _Runs,
    "BalanceTransactionSchedule": _Runs,
    "Charge": _OfBill,
    "Commitment": _AmountSpent,
    "CompoundAggregation": _SegmentsOfCompound,
    "IntegrationConfig": _IntegrationMore,
    "LookupTable": _ActiveRevision,
    "LookupTableRevision": _RevisionMore,
    "OrgUserInvitation": _InvitationMore,
    "PermissionPolicy": _ManagedPolicy,
    "Plan": _ProductOfPlan,
    "Pricing": _PricingMore,
}
