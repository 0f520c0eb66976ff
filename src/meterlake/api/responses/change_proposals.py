"""Bodies and answers about changes of the configuration that wait for a review."""

from typing import Annotated, Any, Literal

from pydantic import Field

from meterlake.api.responses.envelope import ToldBody
from meterlake.model.catalog.plans import PriceChange, PriceScale
from meterlake.model.resources.change_proposals import NAME_MAX, TEXT_MAX, ProposalStatus
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Id, Instant, Integer, Number, Text

_Comment = Annotated[Text, Field(max_length=TEXT_MAX)]


class ProposedPrice(PriceChange):
    """Other bands of one price, from an instant on."""

    pricing_id: Id


class ChangeProposalRequest(Value):
    """What is proposed, and why: exactly one of `configuration`, `scale` and `price`."""

    name: Annotated[Text, Field(min_length=1, max_length=NAME_MAX)]
    reason: Annotated[Text, Field(min_length=1, max_length=TEXT_MAX)]
    configuration: dict[str, Any] | None = None
    scale: PriceScale | None = None
    price: ProposedPrice | None = None


class ProposalCommentRequest(ToldBody):
    """What the person says about it, if anything."""

    comment: _Comment = ""


class ProposalRejectRequest(ToldBody):
    """Why a proposal is rejected."""

    comment: Annotated[Text, Field(min_length=1, max_length=TEXT_MAX, pattern=r"\S")]


class ProposalActResponse(Value):
    """What somebody did with a proposal; the comment of the first act is its reason."""

    status: ProposalStatus
    at: Instant
    by: Text
    by_name: Text | None = None
    comment: Text | None = None


class ChangeProposalResponse(Value):
    """A proposal: who made it why, where it stands, and what was done with it."""

    id: Id
    name: Text
    reason: Text
    status: ProposalStatus
    created_by: Text
    created_by_name: Text | None = None
    dt_created: Instant
    entities: Integer
    price_count: Integer
    other_count: Integer
    acts: tuple[ProposalActResponse, ...]


class ProposedDifference(Value):
    """A field before and after; a side without a value has no member."""

    field: Text
    old: Any = None
    new: Any = None


class ProposedChange(Value):
    """An entity that is created, updated or deleted, and its fields that differ."""

    kind: Text
    id: Id
    name: Text
    action: Literal["created", "updated", "deleted"]
    differences: tuple[ProposedDifference, ...]
    notes: tuple[Text, ...]


class ProposedOldAndNew(Value):
    """A price before and after; a band that comes or goes has one of them."""

    old: Number | None = None
    new: Number | None = None


class ProposedBand(Value):
    """A band of a price before and after."""

    lower_limit: Number
    fixed_price: ProposedOldAndNew
    unit_price: ProposedOldAndNew


class ProposedPriceResponse(Value):
    """A price that changes: of what, from when on, band by band."""

    kind: Text
    id: Id | None = None
    plan: Text
    priced: Text
    name: Text
    segment: dict[str, Text] | None = None
    currency: Text
    start: Annotated[Instant, Field(alias="from")]
    bands: tuple[ProposedBand, ...]
    overage_bands: tuple[ProposedBand, ...]


class StaleEntity(Value):
    """An entity that is not as the author of a proposal saw it: since when, and by whom."""

    kind: Text
    id: Id
    name: Text
    what: Literal["changed", "created", "deleted"]
    at: Instant | None = None
    by: Text | None = None


class ChangeProposalDetailResponse(ChangeProposalResponse):
    """A proposal with what it changes, and with what stands against applying it."""

    changes: tuple[ProposedChange, ...]
    prices: tuple[ProposedPriceResponse, ...]
    stale: tuple[StaleEntity, ...]
    problems: tuple[Text, ...]
