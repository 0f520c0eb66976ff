"""EXPORTS: everything that can be exported. A new kind of configuration is here without a change."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pydantic.alias_generators import to_camel

from meterlake.model.bills.members import (
    BILL_MEMBERS,
    LINE_MEMBERS,
    BillMember,
    ShownIn,
    members_in,
)
from meterlake.model.catalog.catalog import CompoundAggregation
from meterlake.model.catalog.lookups import LookupTableRevision
from meterlake.model.catalog.plans import Plan, PlanGroup, PlanTemplate, Pricing, PricingBand
from meterlake.model.configuration.exports import OperationalDataType
from meterlake.model.configuration.integrations import IntegrationConfig, WebhookDestination
from meterlake.model.customers.accounts import AccountPlan
from meterlake.model.customers.balances import (
    Balance,
    BalanceChargeSchedule,
    BalanceTransaction,
    BalanceTransactionSchedule,
)
from meterlake.model.customers.charges import Charge
from meterlake.model.customers.contracts import Commitment
from meterlake.model.errors import Invalid
from meterlake.model.resources import CONFIG, RESOURCES
from meterlake.model.values.entity import Entity, Value
from meterlake.model.work.export_request import Source
from meterlake.stages.export.column_kinds import (
    ExportColumn,
    Kind,
    kind_of,
    kind_of_member,
    plain_type,
)
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
    columns: tuple[ExportColumn, ...] = ()
    entity: type[Entity] | None = None
    named: bool = False

    def columns_of(self, *, changes: bool) -> tuple[ExportColumn, ...]:
        """The columns of its files; of one that shows only changes also the instant of deletion."""
        return (*self.columns, DELETED) if changes else self.columns


_RUNS: Final = (ExportColumn("nextRun", Kind.INSTANT), ExportColumn("previousRun", Kind.INSTANT))
DELETED: Final = ExportColumn("deleted", Kind.INSTANT)
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
COMPUTED: Final[dict[type[Entity], tuple[ExportColumn, ...]]] = {
    AccountPlan: (ExportColumn("productId"),),
    Balance: (ExportColumn("amount", Kind.EXACT, "currency"),),
    BalanceChargeSchedule: _RUNS,
    BalanceTransactionSchedule: _RUNS,
    Commitment: (ExportColumn("amountSpent", Kind.EXACT, "currency"),),
    CompoundAggregation: (ExportColumn("segments", Kind.JSON),),
    IntegrationConfig: (
        ExportColumn("authorized", Kind.FLAG),
        ExportColumn("enabled", Kind.FLAG),
        ExportColumn("status"),
        ExportColumn("triggerType"),
    ),
    LookupTableRevision: (ExportColumn("status"), ExportColumn("itemCount", Kind.COUNT)),
    Plan: (ExportColumn("productId"),),
    Pricing: (ExportColumn("aggregationType"), ExportColumn("segmentString")),
    WebhookDestination: (ExportColumn("credentials.id"), ExportColumn("credentials.destinationId")),
}


def entity_columns(entity: type[Entity]) -> tuple[ExportColumn, ...]:
    """The columns of a kind of configuration: id, version, its fields, the envelope, the computed."""
    return (
        ExportColumn("id"),
        ExportColumn("version", Kind.INTEGER),
        *_fields(entity, ""),
        ExportColumn("createdBy"),
        ExportColumn("dtCreated", Kind.INSTANT),
        ExportColumn("lastModifiedBy"),
        ExportColumn("dtLastModified", Kind.INSTANT),
        *COMPUTED.get(entity, ()),
    )


def _fields(group: type[Value], prefix: str) -> Iterator[ExportColumn]:
    money = _MONEY.get(group, {})
    for field in group.model_fields.values():
        name = f"{prefix}{field.alias}"
        found = plain_type(field.annotation)
        if isinstance(found, type) and issubclass(found, Value):
            yield from _fields(found, f"{name}.")
        else:
            yield ExportColumn(name, kind_of(found), money.get(str(field.alias), ""))


def _bill_columns(members: Iterable[BillMember], *starts: str) -> tuple[ExportColumn, ...]:
    return tuple(
        ExportColumn(each.name, kind_of_member(each), each.currency)
        for each in members_in(members, ShownIn.EXPORT, *starts)
    )


QUANTITY_COLUMNS: Final = (
    ExportColumn("month"),
    ExportColumn("frequency"),
    ExportColumn("period"),
    ExportColumn("account"),
    ExportColumn("accountId"),
    ExportColumn("meter"),
    ExportColumn("meterId"),
    ExportColumn("aggregation"),
    ExportColumn("aggregationId"),
    ExportColumn("aggregationVersion", Kind.INTEGER),
    ExportColumn("segment"),
    ExportColumn("startDateTimeUTC", Kind.INSTANT),
    ExportColumn("endDateTimeUTC", Kind.INSTANT),
    ExportColumn("quantity", Kind.EXACT),
    ExportColumn("units", Kind.EXACT),
    ExportColumn("unit"),
    ExportColumn("measurements", Kind.COUNT),
    ExportColumn("snapshot", Kind.INTEGER),
    ExportColumn("computedAt", Kind.INSTANT),
)
_ENVELOPE: Final = (
    ExportColumn("createdBy"),
    ExportColumn("dtCreated", Kind.INSTANT),
    ExportColumn("lastModifiedBy"),
    ExportColumn("dtLastModified", Kind.INSTANT),
)
BILL_COLUMNS: Final = _bill_columns(
    BILL_MEMBERS,
    *("id", "accountId", "startDate", "externalInvoiceDate", "sequentialInvoiceNumber"),
    *("billingFrequency", "currency", "purchaseOrderNumber", "status"),
)
LINE_COLUMNS: Final = _bill_columns(LINE_MEMBERS)
BALANCE_TRANSACTION_COLUMNS: Final = (
    ExportColumn("balanceId"),
    ExportColumn("id"),
    ExportColumn("version", Kind.INTEGER),
    *_fields(BalanceTransaction, ""),
    ExportColumn("entityType"),
    ExportColumn("entityId"),
    *_ENVELOPE,
)
BAND_COLUMNS: Final = (
    ExportColumn("pricingId"),
    ExportColumn("overage", Kind.FLAG),
    ExportColumn("sequenceNumber", Kind.INTEGER),
    ExportColumn("id"),
    *(column for column in _fields(PricingBand, "") if column.name != "id"),
    ExportColumn("version", Kind.INTEGER),
    ExportColumn("planId"),
    ExportColumn("planTemplateId"),
    ExportColumn("aggregationId"),
    ExportColumn("compoundAggregationId"),
    ExportColumn("segment", Kind.JSON),
    ExportColumn("type"),
    ExportColumn("startDate", Kind.INSTANT),
    ExportColumn("endDate", Kind.INSTANT),
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
            raise Invalid("export type", name, f"it must be one of {', '.join(known)}")
    return tuple(
        export for name, export in known.items() if (name in names if names else not export.named)
    )


def operational(kind: OperationalDataType) -> Export:
    """The export of a kind of entity, as the API names it."""
    name = _NAMES.get(kind, to_camel(kind.value.lower()))
    return next(export for export in EXPORTS if export.name == name)
