"""Answers about bills with their lines, jobs and statements, and about what accounts are on."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, create_model

from meterlake.api.responses.envelope import response_of
from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.differences import CauseKind
from meterlake.model.bills.document import BundleFormat
from meterlake.model.bills.explanation import DerivationRule
from meterlake.model.bills.jobs import BillJobBillingFrequency, BillJobType, BillRelation
from meterlake.model.bills.members import LINE_MEMBERS, ShownIn
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.response import response_fields
from meterlake.model.bills.statements import StatementJobFilters, StatementStatus
from meterlake.model.bills.verification import DifferenceSubject
from meterlake.model.configuration.organization import CurrencyConversion
from meterlake.model.customers.balances import EntityType
from meterlake.model.values.entity import Envelope, Value
from meterlake.model.values.fields import Day, Flag, Id, Instant, Integer, Number, Text

BillLineItemResponse = create_model(
    "BillLineItemResponse",
    __base__=Envelope,
    __doc__="A line that stands alone.",
    **response_fields(LINE_MEMBERS, ShownIn.LINE),
)


class BillApprovalResponse(Value):
    """How many bills were approved, in words."""

    message: Text | None = None


class RefusedApprovalResponse(Value):
    """A bill that whoever asks may not approve, and why."""

    bill_id: Id
    account_code: Text
    reason: Text


class OpenPointResponse(Value):
    """How often something of a kind is open about bills, and in which month."""

    kind: Text
    count: Integer
    month: Text


class ApprovalCheckResponse(Value):
    """What an approval would be refused for, and what is open: in words, and by kind."""

    refused: tuple[RefusedApprovalResponse, ...]
    open: Text | None = None
    points: tuple[OpenPointResponse, ...] | None = None


class ObjectUrlResponse(Value):
    """A link to a file."""

    download_url: Text | None = None


class _MemoResponse(Envelope):
    line_item_type: LineItemType | None = None
    product_id: Id | None = None
    accounting_product_id: Id | None = None
    description: Text | None = None
    service_period_start_date: Instant | None = None
    service_period_end_date: Instant | None = None
    bill_id: Id | None = None
    referenced_bill_id: Id | None = None
    referenced_line_item_id: Id | None = None
    amount: Number | None = None
    amount_to_apply_on_bill: Number | None = None
    reason_id: Id | None = None


class CreditLineItemResponse(_MemoResponse):
    """A line of a person that lowers a bill."""

    credit_reason_id: Id | None = None


class DebitLineItemResponse(_MemoResponse):
    """A line of a person that raises a bill."""

    debit_reason_id: Id | None = None


class BillDifferenceResponse(Value):
    """One thing of a bill, or that it was made from, that is not what it was."""

    subject: DifferenceSubject
    name: Text
    bill_id: Text | None = None
    version: Integer | None = None
    line_item_id: Text | None = None
    field: Text | None = None
    stored: Any = None
    calculated: Any = None


class BillLetterStatus(StrEnum):
    """What became of a letter."""

    WAITING = "WAITING"
    SENT = "SENT"
    FAILED = "FAILED"


class BillLetterResponse(Value):
    """A bill that goes to somebody by e-mail; `error` says why it failed, or why it waits still."""

    id: Id
    bill_id: Id
    to: Text
    status: BillLetterStatus
    error: Text | None = None
    created_by: Text | None = None
    dt_created: Instant
    dt_sent: Instant | None = None


class LetterPreviewResponse(Value):
    """What the e-mail of a bill says."""

    to: Text
    subject: Text
    text: Text


class BillLettersResponse(Value):
    """The letters of a bill."""

    data: tuple[BillLetterResponse, ...]
    to: Text
    available: bool


class FoundBillsResponse(Value):
    """What bills of one currency come to, and how many there are."""

    currency: Text
    bills: Integer
    total: Number
    pending: Integer
    approved: Integer
    locked: Integer


class BillTotalsResponse(Value):
    """What bills come to, by currency."""

    data: tuple[FoundBillsResponse, ...]


class BillVersionResponse(Value):
    """What a bill came to from one version on, until another took its place."""

    version: Integer
    currency: Text
    bill_total: Number
    dt_last_modified: Instant
    last_modified_by: Text
    dt_replaced: Instant | None = None
    replaced_by: Text | None = None


class BillVersionsResponse(Value):
    """The versions of a bill."""

    data: tuple[BillVersionResponse, ...]


class ComparedThingResponse(Value):
    """What one thing costs on two bills."""

    line_item_type: LineItemType
    description: Text
    product_name: Text | None = None
    child_account_code: Text | None = None
    segment: dict[str, str] | None = None
    unit: Text | None = None
    units_before: Number | None = None
    units_after: Number | None = None
    before: Number
    after: Number
    difference: Number
    by_quantity: Number | None = None
    by_price: Number | None = None


class BillComparisonResponse(Value):
    """A bill beside an earlier one."""

    bill_id: Id
    bill_date: Day
    former_bill_id: Id
    former_bill_date: Day
    account_code: Text
    currency: Text
    before: Number
    after: Number
    difference: Number
    lines: tuple[ComparedThingResponse, ...]


class BillVerificationResponse(Value):
    """What a bill is against what it was made from."""

    verified: Integer
    unpinned: tuple[Text, ...]
    other_code: Integer
    same: bool
    differences: tuple[BillDifferenceResponse, ...]
    former: Integer | None = None
    expired: Integer | None = None


class ComparedContentResponse(Value):
    """A content of a bill that is compared; its version is a number, or `now`."""

    version: Any
    snapshot: Integer
    at: Instant


class ComparedTotalResponse(Value):
    """What both contents come to in a currency."""

    currency: Text
    from_: Number = Field(alias="from")
    to: Number
    difference: Number


class LinePartResponse(Value):
    """What a cause does to a line; an amount is absent where the line is."""

    line_item_id: Id
    line_item_type: LineItemType
    description: Text
    from_: Number | None = Field(default=None, alias="from")
    to: Number | None = None
    amount: Number


class SharedAmountResponse(Value):
    """How much of a later cause's part goes with the cause."""

    name: Text
    amount: Number


class DifferenceCauseResponse(Value):
    """One thing that changed between two contents of a bill."""

    cause: CauseKind
    name: Text
    id: Text | None = None
    what: Text | None = None
    from_: Text | None = Field(default=None, alias="from")
    to: Text | None = None
    author: Text | None = None
    at: Instant | None = None


class DifferencePartResponse(DifferenceCauseResponse):
    """What a cause adds to a bill, and what goes if it alone is undone."""

    together: tuple[DifferenceCauseResponse, ...] | None = None
    currency: Text
    amount: Number
    if_undone: Number | None = None
    shared: tuple[SharedAmountResponse, ...] | None = None
    header: tuple[Text, ...] | None = None
    lines: tuple[LinePartResponse, ...]


class BillDiffResponse(Value):
    """The difference of two contents of a bill, by causes whose parts add up to the whole."""

    bill_id: Id
    account_code: Text
    bill_date: Day
    from_: ComparedContentResponse = Field(alias="from")
    to: ComparedContentResponse
    same: bool
    totals: tuple[ComparedTotalResponse, ...]
    differences: tuple[DifferencePartResponse, ...]


class ExplainedNumberResponse(Value):
    """A number of a bill, and the numbers that it follows from."""

    name: Text
    value: Text | None = None
    exact: Text | None = None
    unit: Text
    rule: DerivationRule
    options: dict[str, Any] | None = None
    key: Text | None = None
    facts: dict[str, Any] | None = None
    children: tuple["ExplainedNumberResponse", ...] = ()
    beside: tuple["ExplainedNumberResponse", ...] = ()
    measurements: tuple[dict[str, Any], ...] = ()
    more: bool | None = None
    days: tuple["ExplainedDayResponse", ...] = ()


class ExplainedDayResponse(Value):
    """What a quantity is of one day alone; absent where the day says nothing of it."""

    day: Day
    quantity: Text | None = None
    measurements: Integer


class BillExplanationResponse(Value):
    """What the total of a bill follows from."""

    bill: dict[str, Any]
    same: bool
    differences: tuple[BillDifferenceResponse, ...]
    tree: ExplainedNumberResponse


class StatementJobStatus(StrEnum):
    """Where a statement job stands."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


class StatementJobResponse(Envelope):
    """The job of a statement, and links to the files that it made while its bill has them."""

    statement_job_status: StatementJobStatus | None = None
    bill_id: Id | None = None
    org_id: Id | None = None
    include_csv_format: Flag | None = None
    filters: StatementJobFilters | None = None
    presigned_json_statement_url: Text | None = None
    json_statement_status: StatementStatus | None = None
    presigned_csv_statement_url: Text | None = None
    csv_statement_status: StatementStatus | None = None
    error: Text | None = None


class BillJobStatus(StrEnum):
    """Where a bill job stands; one that failed is CANCELLED and has an `error`."""

    PENDING = "PENDING"
    INITIALIZING = "INITIALIZING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    CANCELLED = "CANCELLED"


class BillJobFailure(Value):
    """An account that a job could not bill."""

    account: Text
    reason: Text


class BillJobOutcome(StrEnum):
    """How a job of bills ended; one that failed and one that was cancelled have one `status`."""

    COMPLETE = "COMPLETE"
    PARTLY_FAILED = "PARTLY_FAILED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class BillJobResponse(Envelope):
    """The job of bills: what was asked for, how far it is, and which bills it made."""

    last_date_in_billing_period: Day | None = None
    billing_frequency: BillJobBillingFrequency | None = None
    bill_frequency_interval: Integer | None = None
    bill_date: Day | None = None
    external_invoice_date: Day | None = None
    due_date: Day | None = None
    account_ids: tuple[Id, ...] | None = None
    bill_ids: tuple[Id, ...] | None = None
    target_currency: Text | None = None
    currency_conversions: tuple[CurrencyConversion, ...] | None = None
    timezone: Text | None = None
    year_epoch: Day | None = None
    month_epoch: Day | None = None
    week_epoch: Day | None = None
    day_epoch: Day | None = None
    status: BillJobStatus | None = None
    outcome: BillJobOutcome | None = None
    total: Integer | None = None
    pending: Integer | None = None
    type: BillJobType | None = None
    error: Text | None = None
    failures: tuple[BillJobFailure, ...] | None = None
    failure_count: Integer | None = None
    message: Text | None = None


class RelatedBillResponse(Value):
    """Another bill that a calculation of bills has to do with."""

    bill_id: Id
    account_id: Id
    account_code: Text
    bill_date: Day
    currency: Text
    bill_total: Number
    status: BillStatus
    locked: bool
    relation: BillRelation
    recalculated: bool


class RelatedBillsResponse(Value):
    """The other bills that a calculation of bills has to do with."""

    data: tuple[RelatedBillResponse, ...]


class ChangedBillResponse(Value):
    """A bill that a job changed, with its total before and after."""

    bill_id: Id
    account_id: Id
    account_code: Text
    bill_date: Day
    currency: Text
    before: Number | None = None
    bill_total: Number
    version: Integer
    chosen: bool


class ChangedBillsResponse(Value):
    """The bills that a job changed."""

    data: tuple[ChangedBillResponse, ...]


class DocumentsJobResponse(Value):
    """The job of a file with the documents of many bills; the link works for a while."""

    id: Id
    status: StatementStatus
    format: BundleFormat
    bills: Integer
    done: Integer
    error: Text | None = None
    created_by: Text | None = None
    dt_created: Instant
    dt_expires: Instant | None = None
    download_url: Text | None = None


class EndDatedEntities(Value):
    """Ids of entities by kind."""

    contract: Annotated[tuple[Id, ...], Field(alias="CONTRACT")] = ()
    accountplan: Annotated[tuple[Id, ...], Field(alias="ACCOUNTPLAN")] = ()
    prepayment: Annotated[tuple[Id, ...], Field(alias="PREPAYMENT")] = ()
    pricings: Annotated[tuple[Id, ...], Field(alias="PRICINGS")] = ()
    counter_pricings: Annotated[tuple[Id, ...], Field(alias="COUNTER_PRICINGS")] = ()


class EndDateBillingEntitiesResponse(Value):
    """What was ended and what could not be."""

    status_message: Text | None = None
    updated_entities: EndDatedEntities | None = None
    failed_entities: EndDatedEntities | None = None


class ReplaceAccountPlanResponse(Value):
    """The account plan that ended and the one that began."""

    original_account_plan: Annotated[dict[str, Any], response_of("AccountPlanResponse")]
    new_account_plan: Annotated[dict[str, Any], response_of("AccountPlanResponse")]


class BalanceTransactionResponse(Envelope):
    """One movement of a balance."""

    description: Text | None = None
    amount: Number | None = None
    paid: Number | None = None
    currency_paid: Text | None = None
    entity_type: EntityType | None = None
    entity_id: Id | None = None
    reverses: Id | None = None
    transaction_type_id: Id | None = None
    applied_date: Instant | None = None
    transaction_date: Instant | None = None


class BalanceTransactionsSummary(Value):
    """What went in and out of a balance."""

    total_credit_amount: Number | None = None
    total_debit_amount: Number | None = None
    initial_credit_amount: Number | None = None
    expired_balance_amount: Number | None = None
    rollover_consumed: Number | None = None
    balance_consumed: Number | None = None
