"""EXPORTS: everything that can be exported. A new kind of configuration is here without a change."""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Final, Union, get_args, get_origin

from meterlake.model.entity import Entity, Value
from meterlake.model.errors import Invalid
from meterlake.model.resources import CONFIG, RESOURCES
from meterlake.stages.export.columns import Column, Kind


class Source(StrEnum):
    """The two families of exports; one export has types of one family."""

    USAGE = "usage"
    OPERATIONAL = "operational"


@dataclass(frozen=True, slots=True)
class Export:
    """One type of data that can be exported.

    Attributes:
        name: What people ask for: `accountPlans`.
        key_type: What the key says: `accountplan`.
        columns: The columns of its files; none for measurements, where the meter decides.
        entity: The kind of configuration that it shows, or None.
    """

    name: str
    key_type: str
    source: Source
    columns: tuple[Column, ...] = ()
    entity: type[Entity] | None = None


_KINDS: Final[tuple[tuple[type, Kind], ...]] = (
    # The order matters: True is an int, an instant is a date.
    (bool, Kind.FLAG),
    (int, Kind.INTEGER),
    (Decimal, Kind.EXACT),
    (datetime, Kind.INSTANT),
    (date, Kind.DAY),
    (str, Kind.TEXT),
)


def entity_columns(entity: type[Entity]) -> tuple[Column, ...]:
    """The columns of a kind of configuration: id, version, its fields, the envelope."""
    return (
        Column("id"),
        Column("version", Kind.INTEGER),
        *_fields(entity, ""),
        Column("createdBy"),
        Column("dtCreated", Kind.INSTANT),
        Column("lastModifiedBy"),
        Column("dtLastModified", Kind.INSTANT),
    )


def _fields(group: type[Value], prefix: str) -> Iterator[Column]:
    for field in group.model_fields.values():
        name = f"{prefix}{field.alias}"
        found = _plain_type(field.annotation)
        if isinstance(found, type) and issubclass(found, Value):
            yield from _fields(found, f"{name}.")
        else:
            yield Column(name, _kind(found))


def _plain_type(annotation: Any) -> Any:
    """A type without its annotations, and without None."""
    if get_origin(annotation) is Annotated:
        return _plain_type(get_args(annotation)[0])
    if get_origin(annotation) in {Union, types.UnionType}:
        inner = [each for each in get_args(annotation) if each is not type(None)]
        return _plain_type(inner[0]) if len(inner) == 1 else object
    return annotation


def _kind(found: Any) -> Kind:
    if not isinstance(found, type):
        return Kind.JSON
    return next((kind for base, kind in _KINDS if issubclass(found, base)), Kind.JSON)


QUANTITY_COLUMNS: Final = (
    Column("month"),
    Column("frequency"),
    Column("period"),
    Column("account"),
    Column("accountId"),
    Column("meter"),
    Column("meterId"),
    Column("aggregation"),
    Column("aggregationId"),
    Column("aggregationVersion", Kind.INTEGER),
    Column("segment"),
    Column("startDateTimeUTC", Kind.INSTANT),
    Column("endDateTimeUTC", Kind.INSTANT),
    Column("quantity", Kind.EXACT),
    Column("units", Kind.EXACT),
    Column("unit"),
    Column("measurements", Kind.INTEGER),
    Column("snapshot", Kind.INTEGER),
    Column("computedAt", Kind.INSTANT),
)
BILL_COLUMNS: Final = (
    Column("id"),
    Column("version", Kind.INTEGER),
    Column("accountId"),
    Column("accountCode"),
    Column("billDate", Kind.DAY),
    Column("dueDate", Kind.DAY),
    Column("startDate", Kind.DAY),
    Column("endDate", Kind.DAY),
    Column("startDateTimeUTC", Kind.INSTANT),
    Column("endDateTimeUTC", Kind.INSTANT),
    Column("externalInvoiceDate", Kind.DAY),
    Column("billingFrequency"),
    Column("billFrequencyInterval", Kind.INTEGER),
    Column("timezone"),
    Column("currency"),
    Column("currencyConversions", Kind.JSON),
    Column("purchaseOrderNumber"),
    Column("billTotal", Kind.NUMBER),
    Column("status"),
    Column("locked", Kind.FLAG),
    Column("pins", Kind.JSON),
    Column("createdBy"),
    Column("dtCreated", Kind.INSTANT),
    Column("lastModifiedBy"),
    Column("dtLastModified", Kind.INSTANT),
)
LINE_COLUMNS: Final = (
    Column("billId"),
    Column("accountId"),
    Column("accountCode"),
    Column("billDate", Kind.DAY),
    Column("sequenceNumber", Kind.INTEGER),
    Column("lineItemType"),
    Column("description"),
    Column("productId"),
    Column("productCode"),
    Column("productName"),
    Column("accountingProductId"),
    Column("accountingProductCode"),
    Column("accountingProductName"),
    Column("planId"),
    Column("meterId"),
    Column("aggregationId"),
    Column("pricingId"),
    Column("servicePeriodStartDate", Kind.INSTANT),
    Column("servicePeriodEndDate", Kind.INSTANT),
    Column("quantity", Kind.EXACT),
    Column("units", Kind.EXACT),
    Column("unit"),
    Column("averageUnitPrice", Kind.EXACT),
    Column("subtotal", Kind.NUMBER),
    Column("currency"),
    Column("conversionRate", Kind.EXACT),
    Column("convertedSubtotal", Kind.NUMBER),
    Column("billCurrency"),
    Column("bandUsage", Kind.JSON),
    Column("madeFrom", Kind.JSON),
)

MEASUREMENTS: Final = Export("measurements", "measurements", Source.USAGE)
QUANTITIES: Final = Export("quantities", "quantities", Source.USAGE, QUANTITY_COLUMNS)
BILLS: Final = Export("bills", "bill", Source.OPERATIONAL, BILL_COLUMNS)
LINES: Final = Export("billLineItems", "billlineitem", Source.OPERATIONAL, LINE_COLUMNS)

EXPORTS: Final = (
    MEASUREMENTS,
    QUANTITIES,
    *(
        Export(
            row.name,
            row.kind.lower(),
            Source.OPERATIONAL,
            entity_columns(row.entity),
            row.entity,
        )
        for row in RESOURCES
        if row.area == CONFIG
    ),
    BILLS,
    LINES,
)
assert len({export.key_type for export in EXPORTS}) == len(EXPORTS)


def exports_of(source: Source, names: tuple[str, ...] = ()) -> tuple[Export, ...]:
    """The types of a source that are named, or all of them if none is.

    Raises:
        Invalid: The source has no type of that name.
    """
    known = {export.name: export for export in EXPORTS if export.source is source}
    for name in names:
        if name not in known:
            raise Invalid("export type", name, f"one of {', '.join(known)}")
    return tuple(export for name, export in known.items() if not names or name in names)
