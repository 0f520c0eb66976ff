"""BILL_MEMBERS and LINE_MEMBERS: what a bill and its lines consist of, and where each part is shown.

Answers of the API, events, exports, CSV files, statements, FOCUS, the published file and its
dictionary read these rows: a new member is a row. Its value comes from where bills are made.
"""

import enum
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final

from pydantic.alias_generators import to_snake

from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.requests import BillStatus
from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.configuration.organization import CurrencyConversion
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Day, Flag, Id, Instant, Integer, Number, Text


class ShownIn(enum.Flag):
    """Where a member is shown."""

    BILL = enum.auto()  # a bill of the API, with its lines
    LINE = enum.auto()  # a line of the API that stands alone
    EVENT = enum.auto()  # events of bills
    EXPORT = enum.auto()
    CSV = enum.auto()  # the file of bills for spreadsheets
    STATEMENT = enum.auto()
    PUBLISHED = enum.auto()  # the published file, SQL on the live lake, the dictionary
    MEMO = enum.auto()  # a memo of late usage, which has it from the line that it is about


@dataclass(frozen=True, slots=True)
class BillMember:
    """A member of a bill or of a line.

    Attributes:
        name: Its name on the wire; dotted where it stands deeper.
        type: Its type on the wire.
        shown: Where it is shown.
        meaning: What it means, in the words of the published file.
        csv: Its column in CSV files, if that is not its name.
        statement: Its name in statements, if that is another one.
        column: Its column in the published file, if that is not its name in lower case with `_`.
        focus: The column of FOCUS that shows it as it is.
        required: Every line of a bill has it.
        currency: Of money, the exported column with its currency.
        rounded: It is a rounded amount; other numbers may have more digits.
        sku: Its rank among what FOCUS takes for the thing sold: the first that a line has. 0: it is none.
    """

    name: str
    type: Any
    shown: ShownIn
    meaning: str
    _: KW_ONLY
    csv: str = ""
    statement: str = ""
    column: str = ""
    focus: str = ""
    required: bool = False
    currency: str = ""
    rounded: bool = False
    sku: int = 0

    @property
    def published_column(self) -> str:
        """Its column in the published file."""
        return self.column or to_snake(self.name)


class BillLineItemPricingBandUsage(Value):
    """What one band of a pricing charges for."""

    pricing_band_id: Text | None = None
    lower_limit: Number | None = None
    fixed_price: Number | None = None
    unit_subtotal: Number | None = None
    unit_price: Number | None = None
    band_units: Number | None = None
    band_quantity: Number | None = None
    band_subtotal: Number | None = None
    credit_type_id: Id | None = None
    converted_band_subtotal: Number | None = None


_BILL, _LINE, _EXPORT, _MEMO = ShownIn.BILL, ShownIn.LINE, ShownIn.EXPORT, ShownIn.MEMO
_EVENT, _PUBLISHED = ShownIn.EVENT, ShownIn.PUBLISHED
_API = _BILL | _LINE
_TABLES = _EXPORT | _PUBLISHED
_FILES = _TABLES | ShownIn.CSV | ShownIn.STATEMENT
_ALL = _API | _FILES
_BUT_CSV = _ALL & ~ShownIn.CSV
_BUT_PUBLISHED = _ALL & ~_PUBLISHED
_BANDS = tuple[BillLineItemPricingBandUsage, ...]


def _envelope(instants: ShownIn) -> tuple[BillMember, ...]:
    return (
        BillMember("createdBy", Text, _EXPORT, "Who created it."),
        BillMember(
            "dtCreated", Instant, instants, "The instant of its creation, UTC.", column="created"
        ),
        BillMember("lastModifiedBy", Text, _EXPORT, "Who changed it last."),
        BillMember(
            "dtLastModified",
            Instant,
            instants,
            "The instant of the last change, UTC.",
            column="modified",
        ),
    )


# In the order of exports. What stands alone in the API has its id, version and author from the
# envelope of all answers.
LINE_MEMBERS: Final = (
    BillMember(
        *("id", Id, _ALL & ~_LINE, "Its id, for ever."),
        csv="lineItemId",
        focus="x_BillLineItemId",
    ),
    BillMember("billId", Id, _LINE | _TABLES, "bill.id."),
    BillMember("accountId", Id, _TABLES, "account.id."),
    BillMember("accountCode", Text, _TABLES, "The account's code on the bill.", column="account"),
    BillMember("billDate", Day, _EXPORT, "The date of its bill."),
    BillMember("period", Text, _TABLES, "The billed month, such as 2026-10.", column="month"),
    BillMember("sequenceNumber", Integer, _ALL, "Its place on the bill, from 1."),
    BillMember(
        *("lineItemType", LineItemType, _ALL, f"The type of charge: {', '.join(LineItemType)}."),
        column="type",
        focus="x_LineItemType",
        required=True,
    ),
    BillMember("description", Text, _ALL, "A text for people.", required=True),
    BillMember("productId", Id, _BUT_CSV | _MEMO, "product.id.", sku=9),
    BillMember(
        *("productCode", Text, _ALL | _MEMO, "The product's code on the bill."),
        column="product",
    ),
    BillMember("productName", Text, _BUT_PUBLISHED | _MEMO, "The product's name on the bill."),
    BillMember("accountingProductId", Id, _API | _TABLES | _MEMO, "product.id, for accounting."),
    BillMember(
        "accountingProductCode",
        Text,
        _BUT_PUBLISHED | _MEMO,
        "The code of the product for accounting on the bill.",
    ),
    BillMember(
        "accountingProductName",
        Text,
        _API | _EXPORT | _MEMO,
        "The name of the product for accounting on the bill.",
    ),
    BillMember("planId", Id, _ALL | _MEMO, "plan.id.", focus="x_PlanId", sku=8),
    BillMember("planGroupId", Id, _ALL | _MEMO, "plan_group.id, if a group charges it.", sku=7),
    BillMember("contractId", Id, _ALL | _MEMO, "contract.id.", focus="x_ContractId"),
    BillMember("childAccountId", Id, _BUT_CSV | _MEMO, "account.id of the child it is for."),
    BillMember(
        *("childAccountCode", Text, _BUT_PUBLISHED | _MEMO),
        "The code of the child account on the bill.",
    ),
    BillMember("meterId", Id, _BUT_CSV, "meter.id; NULL if it charges no usage."),
    BillMember("aggregationId", Id, _BUT_CSV, "aggregation.id; NULL if no usage.", sku=1),
    BillMember(
        *("compoundAggregationId", Id, _BUT_CSV),
        "compound_aggregation.id; NULL if it charges none.",
        sku=2,
    ),
    BillMember("counterId", Id, _ALL, "counter.id; NULL if it charges none.", sku=3),
    BillMember("chargeId", Id, _ALL, "charge.id; NULL if it is none.", sku=4),
    BillMember(
        *("commitmentId", Id, _ALL, "commitment.id that it is about."),
        focus="x_CommitmentId",
        sku=5,
    ),
    BillMember("balanceId", Id, _ALL, "balance.id that it is about.", focus="x_BalanceId", sku=6),
    BillMember("pricingId", Id, _BUT_CSV, "pricing.id; NULL if no usage."),
    BillMember("segment", dict[str, Text], _ALL, "The segment by field; NULL without segments."),
    BillMember("group", dict[str, Text], _API | _EXPORT, "Kept for the contract; no line has it."),
    BillMember(
        *("referencedBillId", Id, _ALL, "bill.id of the bill that it corrects."),
        focus="x_ReferencedBillId",
    ),
    BillMember(
        *("referencedLineItemId", Id, _ALL, "bill_line.id of the line that it corrects."),
        column="referenced_line_id",
        focus="x_ReferencedLineItemId",
    ),
    BillMember("reasonId", Id, _ALL, "credit_reason.id or debit_reason.id."),
    BillMember("creditTypeId", Id, _API | _EXPORT, "Kept for the contract; no line has it."),
    BillMember(
        *(
            "servicePeriodStartDate",
            Instant,
            _ALL | _MEMO,
            "The beginning of its service period, UTC.",
        ),
        column="service_start",
    ),
    BillMember(
        *("servicePeriodEndDate", Instant, _ALL | _MEMO, "The end of its service period, UTC."),
        column="service_end",
    ),
    BillMember(
        *("quantity", Number, _ALL, "The quantity, to 12 decimals."),
        focus="x_Quantity",
        required=True,
    ),
    BillMember("units", Number, _ALL, "The priced units, to 12 decimals.", required=True),
    BillMember("unit", Text, _ALL, "The name of one unit.", required=True),
    BillMember(
        *("averageUnitPrice", Number, _ALL, "`subtotal` per unit, to 12 decimals."),
        statement="pricePerUnit",
        required=True,
        currency="currency",
    ),
    BillMember(
        *("subtotal", Number, _ALL, "The amount in `currency`."),
        required=True,
        currency="currency",
        rounded=True,
    ),
    BillMember("currency", Text, _ALL, "The currency of the prices.", required=True),
    BillMember(
        *("conversionRate", Number, _ALL, "`bill_currency` per `currency`."),
        focus="x_ConversionRate",
        required=True,
    ),
    BillMember(
        *("convertedSubtotal", Number, _ALL, "The amount to pay, in `bill_currency`."),
        column="amount",
        required=True,
        currency="billCurrency",
        rounded=True,
    ),
    BillMember("billCurrency", Text, _TABLES, "The currency of the bill."),
    BillMember("usagePerPricingBand", _BANDS, _BILL, "The charge of each band of the pricing."),
    BillMember(
        *("bandUsage", _BANDS, _LINE | _TABLES, "The charge of each band of the pricing."),
        column="bands",
    ),
    BillMember(
        "additional", dict[str, Any], _API | _EXPORT, "Kept for the contract; no line has it."
    ),
    BillMember("madeFrom", dict[str, Any], _TABLES, "The snapshot and the versions behind it."),
    BillMember("jsonUsageGenerated", Flag, _LINE, "Deprecated, and always false."),
    BillMember("version", Integer, _EXPORT, "The version of its bill."),
    *_envelope(_EXPORT),
)

_BILL_ALL = _BILL | _EVENT | _FILES
_BILL_TABLES = _BILL | _EVENT | _TABLES
# In the order of statements; its lines are not among them. Id, version and author are in the
# envelope of all answers and events.
BILL_MEMBERS: Final = (
    BillMember("id", Id, _FILES, "Its id, for ever.", csv="billId"),
    BillMember("version", Integer, _TABLES, "The number of its writes; 1 when new."),
    BillMember(
        *("sequentialInvoiceNumber", Text, _BILL_ALL, "Its sequential number, if it has one."),
        column="invoice_number",
    ),
    BillMember("accountId", Id, _BILL_ALL, "account.id."),
    BillMember("accountCode", Text, _BILL_ALL, "The account's code on the bill.", column="account"),
    BillMember("billDate", Day, _BILL_ALL, "The first day after the period."),
    BillMember("dueDate", Day, _BILL_ALL, "The last day to pay it."),
    BillMember(
        "externalInvoiceDate", Day, _BILL_ALL, "The date of its invoice.", column="invoice_date"
    ),
    BillMember(
        "externalInvoiceReference", Text, _BILL | _EXPORT, "Kept for the contract; no bill has it."
    ),
    BillMember("startDate", Day, _BILL_ALL, "The first day of its period."),
    BillMember("endDate", Day, _BILL_ALL, "The day after the last of its period."),
    BillMember(
        *("startDateTimeUTC", Instant, _BILL | _EVENT | _EXPORT | ShownIn.STATEMENT),
        "Its period begins, UTC.",
    ),
    BillMember(
        *("endDateTimeUTC", Instant, _BILL | _EVENT | _EXPORT | ShownIn.STATEMENT),
        "Its period ends, UTC.",
    ),
    BillMember(
        *("billingFrequency", BillingFrequency, _BILL_ALL),
        "DAILY, WEEKLY, MONTHLY, ANNUALLY, AD_HOC or MIXED.",
        column="frequency",
    ),
    BillMember(
        *("billFrequencyInterval", Integer, _BILL_ALL & ~ShownIn.CSV, "Of how many units of it."),
        column="frequency_interval",
    ),
    BillMember(
        "period", Text, _EVENT | _TABLES, "The billed month, such as 2026-10.", column="month"
    ),
    BillMember("timezone", Text, _BILL_ALL & ~ShownIn.CSV, "The time zone of its days."),
    BillMember(
        *("purchaseOrderNumber", Text, _BILL_ALL, "The number of the account's."),
        column="purchase_order",
    ),
    BillMember(
        *("billTotal", Number, _BILL_ALL & ~ShownIn.STATEMENT),
        "The sum of its lines, in `currency`.",
        column="total",
        currency="currency",
        rounded=True,
    ),
    BillMember("currency", Text, _BILL_ALL, "The currency of its total.", csv="billCurrency"),
    BillMember(
        "currencyConversions",
        tuple[CurrencyConversion, ...],
        _BILL | _EVENT | _EXPORT,
        "The rates that converted its lines.",
    ),
    BillMember("status", BillStatus, _BILL_TABLES | ShownIn.CSV, "PENDING or APPROVED."),
    BillMember("approvedBy", Text, _BILL_TABLES, "The person who approved it last."),
    BillMember(
        "dtApproved", Instant, _BILL_TABLES, "When it was approved last, UTC.", column="approved"
    ),
    BillMember("locked", Flag, _BILL_TABLES | ShownIn.CSV, "Whether it can never change again."),
    BillMember("lockedBy", Text, _BILL_TABLES, "The person who locked it."),
    BillMember("dtLocked", Instant, _BILL_TABLES, "When it was locked, UTC.", column="locked_at"),
    BillMember("billJobId", Id, _BILL | _EVENT, "The job that calculated it last."),
    BillMember("lastCalculatedDate", Instant, _BILL | _EVENT, "When it was calculated last."),
    BillMember("jsonStatementGenerated", Flag, _BILL, "Whether it has a statement in JSON."),
    BillMember("csvStatementGenerated", Flag, _BILL, "Whether it has a statement in CSV."),
    BillMember(
        "statementStale", Flag, _BILL, "Whether the bill changed since one of its statements."
    ),
    BillMember(
        *("recalculationDue", Flag, _BILL),
        "Whether its balances and commitments hold something else since it was calculated.",
    ),
    BillMember(
        *("pins.snapshot", Integer, _PUBLISHED, "The snapshot of the lake behind it."),
        column="snapshot",
    ),
    BillMember("pins", dict[str, Any], _TABLES, "All its inputs, with versions."),
    BillMember(
        "createdDate", Instant, _BILL | _EVENT | _EXPORT, "The instant of its creation, UTC."
    ),
    *_envelope(_TABLES),
)


def members_in(members: Iterable[BillMember], where: ShownIn, *starts: str) -> Sequence[BillMember]:
    """The members that are shown somewhere.

    Args:
        members: Of bills or of lines.
        where: Where they are shown.
        starts: The members with which blocks begin, in the order in which these stand; a block goes on
            until the next one begins. Without them, all stand as in the table.
    """
    shown = [each for each in members if where in each.shown]
    if not starts:
        return shown
    blocks: dict[str, list[BillMember]] = {}
    for each in shown:
        if each.name in starts:
            block = blocks[each.name] = []
        block.append(each)
    return [each for start in starts for each in blocks[start]]
