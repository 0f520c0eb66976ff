"""What entities may say and nothing reads yet: it is told when it is saved, and in `status`.

`availability` has what changes bills: billing refuses it. What stands here is stored, shown and
exported, and changes nothing. Whoever builds a feature removes its rows.
"""

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Any, Final

from meterlake.model.accounts import Account
from meterlake.model.availability import NotYet, not_available
from meterlake.model.commitments import Commitment
from meterlake.model.contracts import Contract
from meterlake.model.counters import CounterAdjustment
from meterlake.model.entity import Entity
from meterlake.model.lookups import LookupTableRevision
from meterlake.model.organization import OrganizationConfig, StatementAutoGenerateMode
from meterlake.model.pricing import Pricing, PricingBand
from meterlake.model.statements import StatementDefinition


def _is_given(value: Any) -> bool:
    return value is not None


def _credits(bands: Sequence[PricingBand]) -> bool:
    return any(band.credit_type_id for band in bands)


def _not(default: StrEnum) -> Any:
    return lambda value: value not in {None, default}


_STATEMENTS: Final = "no statements are made"
_MODE: Final = NotYet(
    "auto_generate_statement_mode", _STATEMENTS, _not(StatementAutoGenerateMode.NONE)
)

# Fields that are stored and shown, and read by nothing.
UNUSED: Final[dict[type[Entity], tuple[NotYet, ...]]] = {
    OrganizationConfig: (
        NotYet("default_statement_definition_id", _STATEMENTS),
        _MODE,
    ),
    Pricing: (
        NotYet("pricing_bands", "credit types of bands: usage is not priced as a credit", _credits),
        NotYet(
            "overage_pricing_bands",
            "credit types of bands: usage is not priced as a credit",
            _credits,
        ),
    ),
    Account: (
        NotYet("statement_definition_id", _STATEMENTS),
        _MODE,
    ),
    Contract: (NotYet("purchase_order_number", "bills have that of the account"),),
    Commitment: (
        NotYet(
            "child_billing_mode", "fees and draws stand on the bill of its own account", _is_given
        ),
    ),
    CounterAdjustment: (
        NotYet("purchase_order_number", "lines of counters have no purchase order number"),
    ),
    LookupTableRevision: (
        NotYet("start_date", "a revision holds from its publication until that of the next one"),
    ),
}

# Kinds that are stored and shown, and of which nothing comes.
IDLE: Final[dict[type[Entity], str]] = {
    StatementDefinition: _STATEMENTS,
}


def without_effect(entity: Entity) -> Iterator[str]:
    """What an entity says and this version does not do, in sentences for whoever saves it."""
    kind = type(entity)
    if kind in IDLE:
        yield f"{kind.__name__} is stored and has no effect in this version: {IDLE[kind]}"
        return
    yield from (f"{error}; no bill is made with it" for error in not_available(entity))
    for row in UNUSED.get(kind, ()):
        if row.in_use(getattr(entity, row.field)):
            name = kind.model_fields[row.field].alias or row.field
            yield f"{name} is stored and has no effect in this version: {row.detail}"
