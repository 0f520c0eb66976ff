"""What entities may say and nothing reads yet: it is told when it is saved, and in `status`.

What stands here is stored, shown and exported, and changes nothing. A value that means "off"
passes. Whoever builds a feature removes its rows.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from meterlake.model.catalog.counters import CounterAdjustment
from meterlake.model.catalog.lookups import LookupTableRevision
from meterlake.model.catalog.plans import PlanTemplate, Pricing, PricingBand
from meterlake.model.customers.contracts import Commitment, Contract
from meterlake.model.customers.recurring_period import RECURRING
from meterlake.model.values.entity import Entity


class UnusedField(NamedTuple):
    """A field that nothing reads, when it is in use, and what is done without it."""

    field: str
    detail: str
    in_use: Callable[[Any], bool] = bool


def _is_given(value: Any) -> bool:
    return value is not None


def _credits(bands: Sequence[PricingBand]) -> bool:
    return any(band.credit_type_id for band in bands)


def _without_periods(value: Any) -> bool:
    return value not in RECURRING


# Fields that are stored and shown, and read by nothing.
UNUSED: Final[dict[type[Entity], tuple[UnusedField, ...]]] = {
    PlanTemplate: (
        UnusedField(
            "bill_frequency",
            "plans of AD_HOC and MIXED have no billing periods, and charge nothing by themselves",
            _without_periods,
        ),
    ),
    Pricing: (
        UnusedField(
            "pricing_bands", "credit types of bands: usage is not priced as a credit", _credits
        ),
        UnusedField(
            "overage_pricing_bands",
            "credit types of bands: usage is not priced as a credit",
            _credits,
        ),
    ),
    Contract: (UnusedField("purchase_order_number", "bills have that of the account"),),
    Commitment: (
        UnusedField(
            "child_billing_mode", "fees and draws stand on the bill of its own account", _is_given
        ),
    ),
    CounterAdjustment: (
        UnusedField("purchase_order_number", "lines of counters have no purchase order number"),
    ),
    LookupTableRevision: (
        UnusedField(
            "start_date", "a revision holds from its publication until that of the next one"
        ),
    ),
}


def without_effect(entity: Entity) -> Iterator[str]:
    """What an entity says and this version does not do, in sentences for whoever saves it."""
    kind = type(entity)
    for row in UNUSED.get(kind, ()):
        if row.in_use(getattr(entity, row.field)):
            name = kind.model_fields[row.field].alias or row.field
            yield f"{name} is stored and has no effect in this version: {row.detail}"
