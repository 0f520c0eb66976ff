"""What operational exports show beside entities as they are: changes, and the bands of pricings."""

from collections.abc import Iterator
from typing import Any, Final

from meterlake.model.catalog.pricing import Pricing
from meterlake.model.errors import NotFound
from meterlake.model.resources import resource_of
from meterlake.model.values.entity import Configuration, Deletion, Record
from meterlake.stages.export.documents import Document

# What tells one band from another.
_OF_BAND: Final = ("pricingId", "overage", "sequenceNumber", "id")
# What a band shows of its pricing.
_OF_PRICING: Final = (
    "planId",
    "planTemplateId",
    "aggregationId",
    "compoundAggregationId",
    "segment",
    "type",
    "startDate",
    "endDate",
)


def computed_differs(record: Record[Any], now: Configuration, before: Configuration) -> bool:
    """Whether what is computed of an entity has changed, because what it refers to has."""
    computed = resource_of(record.entity).computed
    if computed is None:
        return False
    try:
        return computed(record, now) != computed(record, before)
    except NotFound:
        return True  # Something that it refers to is younger.


def band_documents(record: Record[Pricing]) -> Iterator[Document]:
    """The bands of a pricing, each with what is priced and when; those of the overage last."""
    pricing = record.entity.to_wire()
    shared: Document = {
        "version": record.version,
        **{name: pricing[name] for name in _OF_PRICING if name in pricing},
        "createdBy": record.created_by,
        "dtCreated": record.created,
        "lastModifiedBy": record.modified_by,
        "dtLastModified": record.modified,
    }
    for band in _bands(record):
        yield {**band, **shared}


def band_deletions(
    before: Record[Pricing], after: Record[Pricing] | Deletion
) -> Iterator[Document]:
    """The bands that a pricing had and has no more."""
    left: set[tuple[bool, int]] = set()
    gone = after
    if isinstance(gone, Record):
        left = {_key(band) for band in _bands(gone)}
        gone = Deletion(gone.id, gone.version, gone.modified, gone.modified_by)
    envelope = {name: value for name, value in gone.to_wire().items() if name != "id"}
    for band in _bands(before):
        if _key(band) not in left:
            yield {**{name: band[name] for name in _OF_BAND if name in band}, **envelope}


def _bands(record: Record[Pricing]) -> Iterator[Document]:
    """The bands as the wire has them, each with its place in the pricing."""
    pricing = record.entity.to_wire()
    for overage, name in ((False, "pricingBands"), (True, "overagePricingBands")):
        for number, band in enumerate(pricing[name], start=1):
            yield {
                "pricingId": record.id,
                "overage": overage,
                "sequenceNumber": number,
                **band,
            }


def _key(band: Document) -> tuple[bool, int]:
    return band["overage"], band["sequenceNumber"]
