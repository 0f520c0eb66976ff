"""What entities may say and this version does not calculate: refused when it is used.

Billing an account that uses it fails with a reason; nothing is silently ignored.

A value that means "off" passes. Whoever builds a feature removes its rows here.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from meterlake.model.entity import Entity
from meterlake.model.errors import NotAvailable
from meterlake.model.pricing import BillingFrequency, PlanTemplate


def _without_periods(value: Any) -> bool:
    return value in {BillingFrequency.AD_HOC, BillingFrequency.MIXED}


class NotYet(NamedTuple):
    """A field, when it is in use, and what to do without it."""

    field: str
    detail: str
    in_use: Callable[[Any], bool] = bool


NOT_YET: Final[dict[type[Entity], tuple[NotYet, ...]]] = {
    PlanTemplate: (
        NotYet("bill_frequency", "plans are billed by periods that come again", _without_periods),
    ),
}


def not_available(entity: Entity) -> Iterator[NotAvailable]:
    """Every field of an entity that asks for what this version does not do."""
    for row in NOT_YET.get(type(entity), ()):
        if row.in_use(getattr(entity, row.field)):
            name = type(entity).model_fields[row.field].alias or row.field
            yield NotAvailable(name, row.detail)
