"""EXPORTS: everything that can be exported. A new kind of configuration is here without a change."""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Union, get_args, get_origin

from pydantic.alias_generators import to_camel

from meterlake.model.accounts import AccountPlan
from meterlake.model.balances import (
    Balance,
    BalanceChargeSchedule,
    BalanceTransaction,
    BalanceTransactionSchedule,
)
from meterlake.model.catalog import CompoundAggregation
from meterlake.model.charges import Charge
from meterlake.model.commitments import Commitment
from meterlake.model.entity import Entity, Value
from meterlake.model.errors import Invalid
from meterlake.model.export_request import Source
from meterlake.model.exports import OperationalDataType
from meterlake.model.integrations import IntegrationConfig, WebhookDestination
from meterlake.model.lookups import LookupTableRevision
from meterlake.model.plan_groups import PlanGroup
from meterlake.model.pricing import Plan, PlanTemplate, Pricing, PricingBand
from meterlake.model.resources import CONFIG, RESOURCES
from meterlake.stages.export.columns import Column, Kind
from meterlake.stages.export.focus import FOCUS_COLUMNS


@dataclass(frozen=True, slots=True)
class Export:
    """One type of data that can be exported.

    Attributes:
        name: What people ask for: `accountPlans`.
        key_type: What the key says: `accountplan`.
        columns: The columns of its files; none for measurements, where the meter decides.
        entity: The kind of configuration that it shows, or None.
        named: It is exported only where it is named.
    """

    name: str
    key_type: str
    source: Source
    columns: tuple[Column, ...] = ()
    entity: type[Entity] | None = None
    named: bool = False

    def columns_of(self, *, changes: bool) -> tuple[Column, ...]:
        """The columns of its files; of one that shows only changes also the instant of deletion."""
        return (*self.columns, DELETED) if changes else self.columns


_RUNS: Final = (Column("nextRun", Kind.INSTANT), Column("previousRun", Kind.INSTANT))
DELETED: Final = Column("deleted", Kind.INSTANT)
# Money that people write, and the column that has its currency; None where no column has it.
_MONEY: Final[dict[type[Value], dict[str, str | None]]] = {
    Balance: {"rolloverAmount": "currency"},
    BalanceChargeSchedule: {"amount": "currency", "unitPrice": "currency"},
    BalanceTransaction: {"amount": None, "paid": "currencyPaid"},
    BalanceTransactionSchedule: {"amount": None, "paid": "currencyPaid"},
    Charge: {"amount": "currency", "unitPrice": "currency"},
    Commitment: {
        "amount": "currency",
        "amountPrePaid": "currency",
        "amountFirstBill": "currency",
    },
    Plan: {"standingCharge": None, "minimumSpend": None},
    PlanGroup: {"standingCharge": "currency", "minimumSpend": "currency"},
    PlanTemplate: {"standingCharge": "currency", "minimumSpend": "currency"},
    Pricing: {"minimumSpend": None},
    PricingBand: {"fixedPrice": None, "unitPrice": None},
}
# What the API answers beyond the fields of an entity.
COMPUTED: Final[dict[type[Entity], tuple[Column, ...]]] = {
    AccountPlan: (Column("productId"),),
    Balance: (Column("amount", Kind.EXACT, "currency"),),
    BalanceChargeSchedule: _RUNS,
    BalanceTransactionSchedule: _RUNS,
    Commitment: (Column("amountSpent", Kind.EXACT, "currency"),),
    CompoundAggregation: (Column("segments", Kind.JSON),),
    IntegrationConfig: (
        Column("authorized", Kind.FLAG),
        Column("enabled", Kind.FLAG),
        Column("status"),
        Column("triggerType"),
    ),
    LookupTableRevision: (Column("status"), Column("itemCount", Kind.COUNT)),
    Plan: (Column("productId"),),
    Pricing: (Column("aggregationType"), Column("segmentString")),
    WebhookDestination: (Column("credentials.id"), Column("credentials.destinationId")),
}
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
    """The columns of a kind of configuration: id, version, its fields, the envelope, the computed."""
    return (
        Column("id"),
        Column("version", Kind.INTEGER),
        *_fields(entity, ""),
        Column("createdBy"),
        Column("dtCreated", Kind.INSTANT),
        Column("lastModifiedBy"),
        Column("dtLastModified", Kind.INSTANT),
        *COMPUTED.get(entity, ()),
    )


def _fields(group: type[Value], prefix: str) -> Iterator[Column]:
    money = _MONEY.get(group, {})
    for field in group.model_fields.values():
        name = f"{prefix}{field.alias}"
        found = _plain_type(field.annotation)
        if isinstance(found, type) and issubclass(found, Value):
            yield from _fields(found, f"{name}.")
        else:
            yield Column(name, _kind(found), money.get(str(field.alias), ""))


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
    Column("measurements", Kind.COUNT),
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
    Column("period"),
    Column("timezone"),
    Column("currency"),
    Column("currencyConversions", Kind.JSON),
    Column("purchaseOrderNumber"),
    Column("billTotal", Kind.NUMBER, "currency"),
    Column("status"),
    Column("locked", Kind.FLAG),
    Column("pins", Kind.JSON),
    Column("createdBy"),
    Column("dtCreated", Kind.INSTANT),
    Column("lastModifiedBy"),
    Column("dtLastModified", Kind.INSTANT),
)
LINE_COLUMNS: Final = (
    Column("id"),
    Column("billId"),
    Column("accountId"),
    Column("accountCode"),
    Column("billDate", Kind.DAY),
    Column("period"),
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
    Column("averageUnitPrice", Kind.EXACT, "currency"),
    Column("subtotal", Kind.NUMBER, "currency"),
    Column("currency"),
    Column("conversionRate", Kind.EXACT),
    Column("convertedSubtotal", Kind.NUMBER, "billCurrency"),
    Column("billCurrency"),
    Column("bandUsage", Kind.JSON),
    Column("madeFrom", Kind.JSON),
)
_ENVELOPE: Final = (
    Column("createdBy"),
    Column("dtCreated", Kind.INSTANT),
    Column("lastModifiedBy"),
    Column("dtLastModified", Kind.INSTANT),
)
BALANCE_TRANSACTION_COLUMNS: Final = (
    Column("balanceId"),
    Column("id"),
    Column("version", Kind.INTEGER),
    *_fields(BalanceTransaction, ""),
    Column("entityType"),
    Column("entityId"),
    *_ENVELOPE,
)
BAND_COLUMNS: Final = (
    Column("pricingId"),
    Column("overage", Kind.FLAG),
    Column("sequenceNumber", Kind.INTEGER),
    Column("id"),
    *(column for column in _fields(PricingBand, "") if column.name != "id"),
    Column("version", Kind.INTEGER),
    Column("planId"),
    Column("planTemplateId"),
    Column("aggregationId"),
    Column("compoundAggregationId"),
    Column("segment", Kind.JSON),
    Column("type"),
    Column("startDate", Kind.INSTANT),
    Column("endDate", Kind.INSTANT),
    *_ENVELOPE,
)

MEASUREMENTS: Final = Export("measurements", "measurements", Source.USAGE)
QUANTITIES: Final = Export("quantities", "quantities", Source.USAGE, QUANTITY_COLUMNS)
BILLS: Final = Export("bills", "bill", Source.OPERATIONAL, BILL_COLUMNS)
LINES: Final = Export("billLineItems", "billlineitem", Source.OPERATIONAL, LINE_COLUMNS)
BANDS: Final = Export("pricingBands", "pricingband", Source.OPERATIONAL, BAND_COLUMNS)
BALANCE_TRANSACTIONS: Final = Export(
    "balanceTransactions",
    "balancetransaction",
    Source.OPERATIONAL,
    BALANCE_TRANSACTION_COLUMNS,
)
FOCUS: Final = Export("focus", "focus", Source.OPERATIONAL, FOCUS_COLUMNS, named=True)

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
    BANDS,
    BALANCE_TRANSACTIONS,
    BILLS,
    LINES,
    FOCUS,
)
assert len({export.key_type for export in EXPORTS}) == len(EXPORTS)


_NAMES: Final = {OperationalDataType.PRICING: "pricings"}


def exports_of(source: Source, names: tuple[str, ...] = ()) -> tuple[Export, ...]:
    """The types of a source that are named; if none is, all but those that have to be.

    Raises:
        Invalid: The source has no type of that name.
    """
    known = {export.name: export for export in EXPORTS if export.source is source}
    for name in names:
        if name not in known:
            raise Invalid("export type", name, f"one of {', '.join(known)}")
    return tuple(
        export for name, export in known.items() if (name in names if names else not export.named)
    )


def operational(kind: OperationalDataType) -> Export:
    """The export of a kind of entity, as the API names it."""
    name = _NAMES.get(kind, to_camel(kind.value.lower()))
    return next(export for export in EXPORTS if export.name == name)
