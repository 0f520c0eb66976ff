"""SHAPES: what operations that are no standard verb take and give, by the operation's id."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import BaseModel

from meterlake.api.openapi.schemas import (
    ADDITIONAL,
    NARROWED,
    SEARCHED,
    Parameter,
    flag,
    instant,
    ordered,
    paging,
    text,
    texts,
    whole,
)
from meterlake.api.responses import (
    backfills,
    bills,
    change_proposals,
    closings,
    customer_links,
    data_in,
    explorer,
    exports,
    integrations,
    mappings,
    people,
    prices,
    rejected,
    relations,
    revenue,
    runs,
    usage,
)
from meterlake.model.bills.bill import LineItemType
from meterlake.model.bills.document import AppendixDetail, DocumentFormat
from meterlake.model.bills.explanation import ROWS_SHOWN_MAX
from meterlake.model.bills.jobs import BillJobRecalculateRequest, BillJobRequest
from meterlake.model.bills.late_usage import LateUsageStatus
from meterlake.model.bills.memos import CreditLineItem, DebitLineItem, MemoLineItem
from meterlake.model.bills.requests import (
    ApproveBillsRequest,
    BillStatus,
    DownloadCsvRequest,
    DownloadDocumentsRequest,
    PreviewLetterRequest,
    SendBillRequest,
    UpdateBillStatusRequest,
)
from meterlake.model.bills.response import BillResponse
from meterlake.model.bills.statements import StatementJobRequest, StatementsBatchJobRequest
from meterlake.model.catalog.lookups import (
    LookupTableDataArchivedRequest,
    LookupTableDataDownloadJobRequest,
    LookupTableDataUploadRequest,
)
from meterlake.model.catalog.plans import PriceChange, PriceChangePreview
from meterlake.model.configuration.access import GroupTarget, KeyChange, PrincipalChoice, UserChange
from meterlake.model.configuration.exports import AdHocExport
from meterlake.model.configuration.integrations import RunStatus
from meterlake.model.configuration.queries import UsageExplainRequest, UsageQueryRequest
from meterlake.model.customers.accounts import EndDateBillingEntities
from meterlake.model.customers.balances import BalanceTransaction, EntityType
from meterlake.model.measurements.receipt import UploadRequest
from meterlake.model.resources.change_proposals import ProposalStatus
from meterlake.model.usage.explorer import (
    QueryBillDataRequest,
    QueryCommitmentsRequest,
    QueryDimensionValuesRequest,
    QueryMeterDimensionsRequest,
    QueryMetersRequest,
    QueryUsageDataRequest,
)
from meterlake.model.work.backfill import BackfillStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What an operation takes and gives.

    Attributes:
        takes: The body: a class, or the name of a component that follows from a resource.
        gives: The answer in the same way; None is an answer without a document.
        page: The answer is a list with pages of at most so many.
        several: The answer is an array.
        query: Its query parameters besides those of pages.
        optional: The body may be absent.
        form: The body may also be sent as a form.
        file: The body is a file of any type.
        sends_file: The answer is a file of any type.
        errors: What errors of this operation mean, by status.
    """

    takes: type[BaseModel] | str | None = None
    gives: type[BaseModel] | str | None = None
    page: int | None = None
    several: bool = False
    query: tuple[Parameter, ...] = ()
    optional: bool = False
    form: bool = False
    file: bool = False
    sends_file: bool = False
    errors: Mapping[str, str] = field(default_factory=dict)


_GRANT: Final = Shape(takes=PrincipalChoice, gives=people.PrincipalPermissionResponse)
_RUNS_QUERY: Final = (
    instant("startDate"),
    instant("endDate"),
    text("status", *RunStatus),
    text("order", "ASC", "DESC"),
)
_OF_LINKS: Final = {"401": "The link is unknown, has ended, or was revoked."}
_ROWS_QUERY: Final = (whole("limit", minimum=1, maximum=2000), ADDITIONAL)

# The first Data Explorer: bodies and answers, and which answers are files, too.
_QUESTIONS: Final[dict[str, tuple[type[BaseModel], type[BaseModel], bool]]] = {
    "PostQueryUsageData": (QueryUsageDataRequest, explorer.UsageDataResponse, True),
    "PostQueryMeterDimensions": (
        QueryMeterDimensionsRequest,
        explorer.MeterDimensionsResponse,
        False,
    ),
    "PostQueryDimensionValues": (
        QueryDimensionValuesRequest,
        explorer.DimensionValuesResponse,
        False,
    ),
    "PostQueryMeters": (QueryMetersRequest, explorer.MetersWithDataResponse, False),
    "PostQueryBillData": (QueryBillDataRequest, explorer.BillDataResponse, True),
    "PostQueryCommitments": (QueryCommitmentsRequest, explorer.CommitmentDataResponse, True),
    "PostQueryCommitmentLineItems": (QueryCommitmentsRequest, explorer.BillDataResponse, False),
    "PostQueryRemainingCommitments": (
        QueryCommitmentsRequest,
        explorer.CommitmentDataResponse,
        False,
    ),
    "PostQueryObligations": (QueryCommitmentsRequest, explorer.Obligation, True),
}
_NAMES_QUERY: Final = (whole("limit", minimum=1, maximum=10_000),)
_EXPLORED: Final = {
    **{
        id_: Shape(takes=takes, gives=gives, several=id_ == "PostQueryObligations")
        for id_, (takes, gives, _) in _QUESTIONS.items()
    },
    **{
        f"{id_}Download{name}": Shape(takes=takes, gives=explorer.DownloadResponse)
        for id_, (takes, _, is_file) in _QUESTIONS.items()
        if is_file
        for name in ("Csv", "Json")
    },
    "ListExploredBillAccounts": Shape(gives=explorer.AccountNamesResponse, query=_NAMES_QUERY),
    "ListExploredBillProducts": Shape(gives=explorer.ProductNamesResponse, query=_NAMES_QUERY),
    "ListExploredCommitmentAccounts": Shape(
        gives=explorer.AccountNamesResponse, query=_NAMES_QUERY
    ),
}

_TOO_MANY_JOBS: Final = {"429": "Ten jobs of bills wait or run: one has to end first."}
_TOO_MANY_STATEMENTS: Final = {
    "429": "A thousand jobs of statements wait or run: some have to end first."
}
# Bills and their lines.
_INVOICED_QUERY: Final = (instant("externalInvoiceDateStart"), instant("externalInvoiceDateEnd"))
_BILLS_OF: Final = Shape(gives=BillResponse, page=100, query=(ADDITIONAL,))
_MEMOS: Final[dict[type[MemoLineItem], type[BaseModel]]] = {
    CreditLineItem: bills.CreditLineItemResponse,
    DebitLineItem: bills.DebitLineItemResponse,
}
_BILLS: Final = {
    "ListBills": Shape(
        gives=BillResponse,
        page=100,
        query=(
            text("accountId"),
            flag("locked"),
            flag("excludeLineItems"),
            flag("includeBillTotal"),
            text("status", *BillStatus),
            instant("billDate"),
            instant("billDateStart"),
            instant("billDateEnd"),
            *_INVOICED_QUERY,
            texts("ids"),
            text("billJobId"),
            ADDITIONAL,
            text("billingFrequency"),
        ),
    ),
    "GetAllBillsForAccount": _BILLS_OF,
    "GetAllBillsInBillingPeriod": _BILLS_OF,
    "SearchBills": Shape(gives=BillResponse, page=100, query=(*SEARCHED, flag("excludeLineItems"))),
    "TotalBills": Shape(
        gives=bills.BillTotalsResponse, query=(text("searchQuery"), text("operator", "AND", "OR"))
    ),
    "GetBill": Shape(gives=BillResponse, query=(ADDITIONAL,)),
    "SendBill": Shape(takes=SendBillRequest, gives=bills.BillLetterResponse),
    "PreviewBillLetter": Shape(takes=PreviewLetterRequest, gives=bills.LetterPreviewResponse),
    "ListBillLetters": Shape(gives=bills.BillLettersResponse),
    "ListBillVersions": Shape(gives=bills.BillVersionsResponse),
    "VerifyBill": Shape(gives=bills.BillVerificationResponse, query=(flag("former"),)),
    "DiffBill": Shape(gives=bills.BillDiffResponse, query=(whole("from", minimum=1), text("to"))),
    "CompareBill": Shape(gives=bills.BillComparisonResponse, query=(text("with"),)),
    "GetBillDocument": Shape(
        sends_file=True,
        query=(
            text("format", *(each.value for each in DocumentFormat)),
            text("usage", *(each.value for each in AppendixDetail)),
        ),
    ),
    "ExplainBill": Shape(
        gives=bills.BillExplanationResponse,
        query=(
            text("line"),
            whole("rows", minimum=0, maximum=ROWS_SHOWN_MAX),
            whole("version", minimum=1),
            flag("newest"),
            flag("days"),
        ),
    ),
    "GetLatestBill": Shape(gives=BillResponse, query=(ADDITIONAL,)),
    "ApproveBills": Shape(
        takes=ApproveBillsRequest,
        gives=bills.BillApprovalResponse,
        query=(*_INVOICED_QUERY, text("accountIds")),
    ),
    "CheckBillApproval": Shape(takes=ApproveBillsRequest, gives=bills.ApprovalCheckResponse),
    "ApproveAllBillsInBillingPeriod": Shape(gives=bills.BillApprovalResponse),
    "UpdateBillStatus": Shape(takes=UpdateBillStatusRequest, gives=BillResponse),
    "LockBill": Shape(gives=BillResponse),
    "DeleteBill": Shape(gives=BillResponse),
    "DownloadBillDocuments": Shape(takes=DownloadDocumentsRequest, sends_file=True),
    "CreateBillDocumentsJob": Shape(
        takes=DownloadDocumentsRequest, gives=bills.DocumentsJobResponse, errors=_TOO_MANY_JOBS
    ),
    "GetBillDocumentsJob": Shape(gives=bills.DocumentsJobResponse),
    "DownloadBillsCsvUrl": Shape(takes=DownloadCsvRequest, gives=bills.ObjectUrlResponse),
    "DownloadBillsCsv": Shape(takes=DownloadCsvRequest, sends_file=True),
    "ListLineItems": Shape(
        gives=bills.BillLineItemResponse,
        page=100,
        query=(
            text("billId"),
            text("commitmentId"),
            text("lineItemType", *LineItemType),
            ADDITIONAL,
        ),
    ),
    "ListBillLineItems": Shape(gives=bills.BillLineItemResponse, page=100, query=(ADDITIONAL,)),
    "GetBillLineItem": Shape(gives=bills.BillLineItemResponse, query=(ADDITIONAL,)),
    "GetBillLineItemJsonUsage": Shape(gives=bills.ObjectUrlResponse),
    **{
        f"{verb}{kind.__name__}": Shape(takes=kind, gives=gives)
        for kind, gives in _MEMOS.items()
        for verb in ("Post", "Put")
    },
    **{
        f"{verb}{kind.__name__}": Shape(gives=gives)
        for kind, gives in _MEMOS.items()
        for verb in ("Get", "Delete")
    },
    **{f"List{kind.__name__}s": Shape(gives=gives, page=100) for kind, gives in _MEMOS.items()},
}

SHAPES: Final[dict[str, Shape]] = {
    **_BILLS,
    "GenerateToken": Shape(
        takes=people.BearerAccessTokenRequest, gives=people.BearerAccessTokenResponse, form=True
    ),
    # Accounts, contracts and what they are on.
    "ListAccountChildren": Shape(gives="AccountResponse", page=200, query=NARROWED),
    "EndDateBillingEntitiesForAccount": Shape(
        takes=EndDateBillingEntities, gives=bills.EndDateBillingEntitiesResponse
    ),
    "EndDateBillingEntitiesForContract": Shape(
        takes=EndDateBillingEntities, gives=bills.EndDateBillingEntitiesResponse
    ),
    "ReplaceAccountPlan": Shape(takes="AccountPlanRequest", gives=bills.ReplaceAccountPlanResponse),
    # Balances.
    "ListBalanceTransactions": Shape(
        gives=bills.BalanceTransactionResponse,
        page=200,
        query=(
            text("transactionTypeId"),
            text("entityType", *EntityType),
            text("entityId"),
            flag("includeReversed"),
        ),
    ),
    "GetLedgerFile": Shape(sends_file=True),
    "PostBalanceTransaction": Shape(
        takes=BalanceTransaction, gives=bills.BalanceTransactionResponse
    ),
    "GetBalanceTransactionsSummary": Shape(gives=bills.BalanceTransactionsSummary),
    "PreviewScheduledCharge": Shape(
        takes="BalanceChargeScheduleRequest", gives="ChargeResponse", page=200
    ),
    "PreviewBalanceTransactionSchedule": Shape(
        takes="BalanceTransactionScheduleRequest",
        gives=bills.BalanceTransactionResponse,
        page=200,
    ),
    # Bills.
    "ListBillJobs": Shape(
        gives=bills.BillJobResponse,
        page=100,
        query=(text("active", "TRUE", "FALSE"), text("status", *bills.BillJobStatus)),
    ),
    "CreateBillJob": Shape(
        takes=BillJobRequest, gives=bills.BillJobResponse, errors=_TOO_MANY_JOBS
    ),
    "RecalculateBillJob": Shape(
        takes=BillJobRecalculateRequest, gives=bills.BillJobResponse, errors=_TOO_MANY_JOBS
    ),
    "CheckBillRecalculation": Shape(
        takes=BillJobRecalculateRequest, gives=bills.RelatedBillsResponse
    ),
    "GetBillJob": Shape(gives=bills.BillJobResponse),
    "ListChangedBills": Shape(gives=bills.ChangedBillsResponse),
    "PreviewBill": Shape(takes=BillJobRequest, gives=BillResponse, query=(flag("debug"),)),
    "CancelBillJob": Shape(gives=bills.BillJobResponse),
    "ListLateUsage": Shape(
        gives=closings.LateUsageResponse,
        page=100,
        query=(
            text("period"),
            text("accountId"),
            text("status", *LateUsageStatus),
            *ordered("dtFound"),
        ),
    ),
    "ListEntityReferences": Shape(gives=relations.EntityReferencesResponse),
    "ListEntityChanges": Shape(
        gives=relations.EntityChangesResponse,
        query=(texts("including"), whole("limit", minimum=1, maximum=1000)),
    ),
    "TryAggregation": Shape(
        takes=usage.AggregationTrialRequest, gives=usage.AggregationTrialResponse
    ),
    "ProposePriceScale": Shape(
        takes=prices.PriceScaleProposeRequest, gives=prices.PriceScaleResponse
    ),
    "ApplyPriceScale": Shape(takes=prices.PriceScaleApplyRequest, gives=prices.PriceScaleResponse),
    "ListChangeProposals": Shape(
        gives=change_proposals.ChangeProposalResponse,
        page=100,
        query=(text("status", *ProposalStatus), text("entityId"), *ordered("dtCreated")),
    ),
    "ProposeChanges": Shape(
        takes=change_proposals.ChangeProposalRequest, gives=change_proposals.ChangeProposalResponse
    ),
    "GetChangeProposal": Shape(gives=change_proposals.ChangeProposalDetailResponse),
    "GetChangeProposalEffect": Shape(gives=prices.PriceChangePreviewResponse),
    "ApproveChangeProposal": Shape(
        takes=change_proposals.ProposalCommentRequest,
        gives=change_proposals.ChangeProposalResponse,
        optional=True,
    ),
    "RejectChangeProposal": Shape(
        takes=change_proposals.ProposalRejectRequest, gives=change_proposals.ChangeProposalResponse
    ),
    "WithdrawChangeProposal": Shape(
        takes=change_proposals.ProposalCommentRequest,
        gives=change_proposals.ChangeProposalResponse,
        optional=True,
    ),
    "ProposeChangesAgain": Shape(gives=change_proposals.ChangeProposalResponse),
    "ApplyChangeProposal": Shape(gives=change_proposals.ChangeProposalResponse),
    "GetClosing": Shape(gives=closings.ClosingResponse, query=(text("open", "NOW", "KNOWN"),)),
    "ReviewClosing": Shape(
        takes=closings.ClosingReviewRequest, gives=closings.ClosingPendingResponse
    ),
    "ApproveClosing": Shape(
        takes=closings.ClosingApproveRequest, gives=closings.ClosingPendingResponse
    ),
    "RejectClosing": Shape(
        takes=closings.ClosingReasonRequest, gives=closings.ClosingRejectedResponse
    ),
    "ReopenClosing": Shape(
        takes=closings.ClosingReasonRequest, gives=closings.ClosingReopenedResponse
    ),
    "ListStatementJobs": Shape(
        gives=bills.StatementJobResponse,
        page=100,
        query=(
            text("active", "TRUE", "FALSE"),
            text("status", *bills.StatementJobStatus),
            text("billId"),
        ),
    ),
    "CreateStatementJob": Shape(
        takes=StatementJobRequest,
        gives=bills.StatementJobResponse,
        errors=_TOO_MANY_STATEMENTS,
    ),
    "CreateStatementJobBatch": Shape(
        takes=StatementsBatchJobRequest,
        gives=bills.StatementJobResponse,
        several=True,
        errors=_TOO_MANY_STATEMENTS,
    ),
    "GetStatementJob": Shape(gives=bills.StatementJobResponse),
    "CancelStatementJob": Shape(gives=bills.StatementJobResponse),
    "CreateBillCsvStatement": Shape(gives=bills.ObjectUrlResponse),
    "GetBillCsvStatement": Shape(gives=bills.ObjectUrlResponse),
    "GetBillJsonStatement": Shape(gives=bills.ObjectUrlResponse),
    # Usage.
    "PutUploadFile": Shape(
        file=True,
        errors={
            "400": "It has another length than was announced. Nothing of it is kept.",
            "403": "The URL was changed, or the PUT began too late.",
            "408": "Nothing came for a minute. Nothing of it is kept.",
            "409": "The file is there already, or another client sends it at the moment.",
            "413": "It is longer than was announced. Nothing of it is kept.",
            "415": "Its content type is not the announced one, or it is sent encoded.",
        },
    ),
    "SubmitMeasurements": Shape(
        takes=usage.SubmitMeasurementsRequest, gives=usage.SubmitMeasurementsResponse
    ),
    "GenerateUploadUrl": Shape(takes=UploadRequest, gives=usage.UrlUploadResponse),
    "ListJobs": Shape(
        gives=usage.UploadJobResponse,
        page=100,
        query=(
            instant("dateCreatedStart"),
            instant("dateCreatedEnd"),
            text("fileKey"),
            *ordered("dtCreated"),
        ),
    ),
    "GetUploadJobResponse": Shape(gives=usage.UploadJobResponse),
    "GetJobOriginalFileDownloadUrl": Shape(gives=usage.UrlDownloadResponse),
    "GetValidationErrorDownloadUrl": Shape(
        gives=usage.GenerateDownloadUrlResponse, query=(text("file"),)
    ),
    "GetMeasurementsStatus": Shape(gives=data_in.MeasurementsStatusResponse),
    "GetMeasurementsTemplate": Shape(sends_file=True, query=(text("meter"),)),
    "ListSources": Shape(
        gives=data_in.SourceResponse,
        page=100,
        query=(
            text("name"),
            text("nameContains"),
            text("status", "done", "failed"),
            instant("since"),
            instant("until"),
            text("source"),
            *ordered("finishedAt", "receivedAt", "name", "received", "accepted", "rejected"),
        ),
    ),
    "ListInboxes": Shape(gives=data_in.InboxResponse, page=100),
    "AddInbox": Shape(takes=data_in.InboxRequest, gives=data_in.ChangedInboxResponse),
    "RemoveInbox": Shape(gives=data_in.ChangedInboxResponse),
    "CheckInbox": Shape(takes=data_in.InboxCheckRequest, gives=data_in.InboxCheckResponse),
    "ListMappings": Shape(
        gives=mappings.SavedMappingResponse,
        page=100,
        query=(text("name"), *ordered("name", "saved")),
    ),
    "SaveMapping": Shape(takes=mappings.MappingSaveRequest, gives=mappings.SavedMappingResponse),
    "DeleteMapping": Shape(gives=mappings.MappingDeleteResponse),
    "TryMapping": Shape(takes=mappings.MappingTrialRequest, gives=mappings.MappingTrialResponse),
    "ListRejectedRows": Shape(
        gives=rejected.RejectedRowResponse,
        page=200,
        query=(
            text("source"),
            text("delivery"),
            text("reason"),
            text("meter"),
            text("uid"),
            instant("since"),
            instant("until"),
            text("status", "open", "dismissed", "withdrawn", "requeued", "all"),
            *ordered("receivedAt", "reason", "name", "meter"),
        ),
    ),
    "GetRejectedRow": Shape(gives=rejected.RejectedRowResponse),
    "RequeueRejectedRows": Shape(
        takes=rejected.RejectedRowsRequeueRequest, gives=rejected.RejectedRowsRequeueResponse
    ),
    "DismissRejectedRows": Shape(
        takes=rejected.RejectedRowsDismissRequest, gives=rejected.RejectedRowsDecisionResponse
    ),
    "ReopenRejectedRows": Shape(
        takes=rejected.RejectedRowsReopenRequest, gives=rejected.RejectedRowsDecisionResponse
    ),
    "GetMeasurementReceipt": Shape(gives=rejected.MeasurementReceiptResponse, query=(text("uid"),)),
    "StartBackfill": Shape(takes=backfills.BackfillRequest, gives=backfills.BackfillResponse),
    "ListBackfills": Shape(
        gives=backfills.BackfillResponse,
        page=100,
        query=(text("status", *BackfillStatus), *ordered("dtCreated")),
    ),
    "GetBackfill": Shape(gives=backfills.BackfillResponse),
    "GetBackfillDifference": Shape(gives=backfills.BackfillDifferenceResponse),
    "GetBackfillMeasurements": Shape(gives=backfills.BackfillMeasurementsResponse),
    "ApplyBackfill": Shape(gives=backfills.BackfillResponse),
    "DropBackfill": Shape(gives=backfills.BackfillResponse),
    "RevertBackfill": Shape(gives=backfills.BackfillResponse),
    "GetRevenue": Shape(
        gives=revenue.RevenueResponse,
        query=(
            texts("groups"),
            text("startMonth"),
            text("endMonth"),
            text("currency"),
            text("reportingCurrency"),
            texts("accountIds"),
            whole("pageSize", minimum=1, maximum=1000),
            text("nextToken"),
        ),
    ),
    "GetMargins": Shape(
        gives=revenue.MarginsResponse,
        query=(
            text("month"),
            text("group", "product", "customer"),
            text("reportingCurrency"),
            whole("pageSize", minimum=1, maximum=1000),
            text("nextToken"),
        ),
    ),
    "ListRuns": Shape(
        gives=runs.RunResponse,
        page=100,
        query=(
            texts("ids"),
            texts("kinds"),
            texts("status"),
            texts("createdBy"),
            instant("dateCreatedStart"),
            instant("dateCreatedEnd"),
            *ordered("dtCreated"),
        ),
    ),
    "LoadSample": Shape(gives=data_in.SampleResponse),
    "GetRun": Shape(gives=runs.RunResponse),
    "CancelRun": Shape(gives=runs.RunResponse),
    "RetryRun": Shape(gives=runs.RunResponse),
    "TriggerDataExport": Shape(takes=AdHocExport, gives=exports.AdHocResponse),
    "listJobStatuses": Shape(
        gives=exports.JobResponse,
        page=100,
        query=(
            texts("ids"),
            text("scheduleId"),
            # FAILED are also those that were cancelled.
            text("status", *exports.Status, exports.ExportOutcome.CANCELLED),
            instant("dateCreatedStart"),
            instant("dateCreatedEnd"),
        ),
    ),
    "GetJob": Shape(gives=exports.JobResponse),
    "GetDataExportManifest": Shape(gives=exports.ExportManifestResponse, query=(text("place"),)),
    "VerifyDataExport": Shape(gives=exports.ExportVerificationResponse, query=(text("place"),)),
    "GetDataExportFileUrl": Shape(
        gives=exports.GenerateExportDownloadUrlResponse, query=(text("place"),)
    ),
    "CheckExportDestination": Shape(gives=exports.ExportDestinationCheckResponse),
    "CancelDataExportJob": Shape(gives=exports.JobResponse),
    "RetryDataExportJob": Shape(gives=exports.JobResponse),
    "GenerateDataExportFileDownloadUrl": Shape(gives=exports.GenerateExportDownloadUrlResponse),
    "CreateCustomerLink": Shape(
        takes="CustomerLinkRequest", gives=customer_links.CreatedCustomerLinkResponse
    ),
    "RevokeCustomerLink": Shape(gives="CustomerLinkResponse"),
    "PreviewPriceChange": Shape(takes=PriceChangePreview, gives=prices.PriceChangePreviewResponse),
    "ReplacePricing": Shape(takes=PriceChange, gives=prices.PricingReplaceResponse),
    "GetAccountSpend": Shape(gives=customer_links.AccountSpendResponse),
    "GetAccountUsage": Shape(gives=explorer.AccountUsageResponse, query=(text("month"),)),
    "PostUsageDataQuery": Shape(takes=UsageQueryRequest, gives=explorer.UsageQueryResponse),
    "PostUsageDataQuerySql": Shape(takes=UsageQueryRequest, gives=explorer.UsageStatementsResponse),
    "PostUsageDataQueryExplain": Shape(
        takes=UsageExplainRequest, gives=explorer.UsageExplanationResponse, query=paging(1000)
    ),
    **{
        f"PostUsageDataQueryDownload{name}": Shape(
            takes=UsageQueryRequest, gives=explorer.DownloadResponse, query=(flag("clocks"),)
        )
        for name in ("Csv", "Json", "Parquet")
    },
    "ExplainQuantity": Shape(
        gives=explorer.ExplainedQuantitiesResponse,
        query=(
            text("account"),
            text("aggregation"),
            text("period"),
            text("frequency"),
            whole("rows", minimum=0, maximum=1000),
        ),
    ),
    "CalculateQuantities": Shape(
        takes=explorer.QuantitiesCalculateRequest, gives=explorer.QuantitiesJobResponse
    ),
    "GetQuantitiesJob": Shape(gives=explorer.QuantitiesJobResponse),
    "QueryUsageSavedQuery": Shape(gives=explorer.UsageQueryResponse),
    **_EXPLORED,
    # Without a token.
    "GetDownload": Shape(
        sends_file=True,
        errors={"403": "The link was changed, or has ended.", "404": "The file is gone."},
    ),
    "GetCustomerPage": Shape(gives=customer_links.CustomerPageResponse, errors=_OF_LINKS),
    "GetCustomerPageUsage": Shape(
        gives=explorer.AccountUsageResponse, query=(text("month"),), errors=_OF_LINKS
    ),
    "GetCustomerPageSpend": Shape(gives=customer_links.CustomerSpendResponse, errors=_OF_LINKS),
    "ListCustomerPageBills": Shape(
        gives=customer_links.CustomerBillResponse, page=50, errors=_OF_LINKS
    ),
    "GetCustomerPageBill": Shape(gives=customer_links.CustomerBillResponse, errors=_OF_LINKS),
    "GetCustomerPageDocument": Shape(sends_file=True, errors=_OF_LINKS),
    "GetKeySet": Shape(gives=people.KeySetResponse),
    "GetLiveness": Shape(gives=people.ServerStatusResponse),
    "GetReadiness": Shape(gives=people.ServerStatusResponse),
    "GetMetrics": Shape(sends_file=True),
    # Lookup tables.
    "UpdateLookupTableRevisionStatus": Shape(
        takes=usage.LookupTableRevisionStatusRequest, gives="LookupTableRevisionResponse"
    ),
    "GetLookupTableRevisionData": Shape(
        gives=usage.LookupTableRevisionDataResponse, query=_ROWS_QUERY
    ),
    "PutLookupTableRevisionData": Shape(
        takes=usage.LookupTableRevisionDataRequest,
        gives=usage.LookupTableRevisionDataResponse,
        query=(ADDITIONAL,),
    ),
    "DeleteLookupTableRevisionData": Shape(gives=usage.LookupTableRevisionDataDeleteResponse),
    "CopyLookupTableRevisionData": Shape(
        takes=usage.LookupTableRevisionCopyRequest,
        gives=usage.LookupTableRevisionCopyResponse,
        optional=True,
    ),
    "GetLookupTableRevisionDataEntry": Shape(gives=usage.LookupTableRevisionDataResponse),
    "PutLookupTableRevisionDataEntry": Shape(
        takes=usage.LookupTableRevisionDataItemUpsertRequest,
        gives=usage.LookupTableRevisionDataResponse,
        query=(ADDITIONAL,),
    ),
    "DeleteLookupTableRevisionDataEntry": Shape(
        takes=usage.LookupTableRevisionDataItemDeleteRequest,
        gives=usage.LookupTableRevisionDataResponse,
        optional=True,
    ),
    "GenerateLookupTableDataUploadUrl": Shape(
        takes=LookupTableDataUploadRequest, gives=usage.LookupTableDataUploadResponse
    ),
    "TriggerLookupTableRevisionDataDownloadJob": Shape(
        takes=LookupTableDataDownloadJobRequest,
        gives=usage.LookupTableDataDownloadJobResponse,
    ),
    "GetLookupTableRevisionArchivedDataUrl": Shape(
        takes=LookupTableDataArchivedRequest, gives=usage.LookupTableDataArchivedResponse
    ),
    "ListLookupTableRevisionDataJobs": Shape(
        gives=usage.LookupTableRevisionDataJobResponse, page=100
    ),
    "GetLookupTableRevisionDataJobResponse": Shape(gives=usage.LookupTableRevisionDataJobResponse),
    "DeleteLookupTableRevisionDataJobResponse": Shape(
        gives=usage.LookupTableRevisionDataJobResponse
    ),
    # People and permissions.
    "ListOrgUsers": Shape(gives=people.OrgUserResponse, page=200, query=(texts("ids"), *NARROWED)),
    "GetOrgUser": Shape(gives=people.OrgUserResponse),
    "PutOrgUser": Shape(takes=UserChange, gives=people.OrgUserResponse),
    "GetMe": Shape(gives=people.MeResponse),
    "ListAllowedOperations": Shape(gives=people.AllowedOperationsResponse),
    "AdminResendTempPass": Shape(),
    "CreatePasswordLink": Shape(gives=people.PasswordLinkResponse),
    "GetOrgUserPermissions": Shape(gives="PermissionPolicyResponse", page=200),
    "GetOrgUserGroups": Shape(gives="ResourceGroupResponse", page=200, query=(flag("inherited"),)),
    "ListAuditLog": Shape(
        gives=people.AuditEntryResponse,
        page=100,
        query=(
            texts("createdBy"),
            texts("kinds"),
            text("entityId"),
            instant("dateStart"),
            instant("dateEnd"),
            flag("peopleOnly"),
            *ordered("at"),
        ),
    ),
    "ListUserSessions": Shape(gives=people.UserSessionsResponse),
    "EndUserSessions": Shape(gives=people.EndedSessionsResponse),
    "EndMySessions": Shape(gives=people.EndedSessionsResponse),
    "ListPermissionPolicyPrincipals": Shape(gives=people.PrincipalPermissionResponse, page=100),
    "CreateAccessKey": Shape(gives=people.AccessKeyResponse),
    "ListAccessKeys": Shape(gives=people.AccessKeyResponse, page=100),
    "GetAccessKey": Shape(gives=people.AccessKeyResponse),
    "UpdateAccessKey": Shape(takes=KeyChange, gives=people.AccessKeyResponse),
    "DeleteAccessKey": Shape(gives=people.AccessKeyResponse),
    "AddPermissionPolicyToUser": _GRANT,
    "AddPermissionPolicyToUserGroup": _GRANT,
    "AddPermissionPolicyToServiceUser": _GRANT,
    "RemovePermissionPolicyFromUser": _GRANT,
    "RemovePermissionPolicyFromUserGroup": _GRANT,
    "RemovePermissionPolicyFromServiceUser": _GRANT,
    "AddPermissionPolicyToSupportUsers": Shape(
        takes=people.PermissionRequest, gives=people.PrincipalPermissionResponse, optional=True
    ),
    "RemovePermissionPolicyFromSupportUsers": Shape(gives=people.PrincipalPermissionResponse),
    "GetSupport": Shape(gives="SupportResponse"),
    "PutSupport": Shape(takes="SupportRequest", gives="SupportResponse"),
    "AddResourceToGroup": Shape(takes=GroupTarget, gives="ResourceGroupResponse"),
    "RemoveResourceFromGroup": Shape(takes=GroupTarget, gives="ResourceGroupResponse"),
    "ListResourceGroupsForId": Shape(gives=people.ResourceGroupItemResponse, page=100),
    "GetResourceGroupPermissions": Shape(gives="PermissionPolicyResponse", page=100),
    # Events, integrations, mappings.
    "ListEvents": Shape(
        gives=integrations.EventResponse,
        page=100,
        query=(
            texts("ids"),
            text("notificationId"),
            text("accountId"),
            text("eventType"),
            text("notificationCode"),
            flag("includeActioned"),
            text("eventName"),
            text("resourceId"),
        ),
    ),
    "GetEvent": Shape(gives=integrations.EventResponse),
    "MarkEventActioned": Shape(gives=integrations.EventResponse),
    "ListEventTypes": Shape(gives=integrations.EventTypeResponse),
    "ListEventFields": Shape(gives=integrations.EventFieldsResponse, query=(text("eventName"),)),
    "EvaluateCalculation": Shape(
        takes=integrations.EvaluateCalculationRequest,
        gives=integrations.EvaluateCalculationResponse,
    ),
    "ActivateWebhookDestination": Shape(
        gives="WebhookDestinationResponse", query=(flag("active"),)
    ),
    "PingWebhook": Shape(gives=integrations.IntegrationRunResponse),
    "ReplayWebhook": Shape(
        gives=integrations.WebhookReplayResponse,
        query=(instant("since"), text("status", *RunStatus)),
    ),
    "ReplayIntegrationRun": Shape(gives=integrations.IntegrationRunResponse),
    "EnableIntegrationConfig": Shape(gives="IntegrationConfigResponse"),
    "DisableIntegrationConfig": Shape(gives="IntegrationConfigResponse"),
    "GetAvailableConfig": Shape(
        gives=integrations.AvailableConfigurationResponse,
        query=(text("systemName"), text("entityType")),
    ),
    "GetAvailableSystems": Shape(
        gives=integrations.SystemResponse, several=True, query=(text("entityType"),)
    ),
    "GetAvailableAuthForSystemAndEntityType": Shape(gives=integrations.ConfigOptions),
    "GetAvailableSystemEntities": Shape(gives=integrations.SystemEntity, several=True),
    "GetConfigOptionValues": Shape(gives=integrations.ConfigOptionsResponse),
    "ListIntegrationRunsByDestinationId": Shape(
        gives=integrations.IntegrationRunResponse,
        page=200,
        query=(text("destination"), *_RUNS_QUERY),
    ),
    "ListIntegrationConfigRuns": Shape(
        gives=integrations.IntegrationRunResponse, page=200, query=_RUNS_QUERY
    ),
    "ListIntegrationRuns": Shape(
        gives=integrations.IntegrationRunResponse,
        page=200,
        query=(*_RUNS_QUERY, flag("notifications")),
    ),
    "GetIntegrationRunLatestForIds": Shape(
        gives=integrations.IntegrationRunResponse, page=200, query=(texts("ids"),)
    ),
    "GetIntegrationRunLatest": Shape(gives=integrations.IntegrationRunResponse),
    "GetIntegrationRun": Shape(gives=integrations.IntegrationRunResponse),
    "GetIntegrationRunLogs": Shape(gives=integrations.IntegrationRunLogResponse),
    "GetIntegrationConfigForType": Shape(
        gives="IntegrationConfigResponse",
        page=200,
        query=(text("entityId"), text("destination"), text("destinationId")),
    ),
    "ListExternalMappingsForM3terEntity": Shape(gives="ExternalMappingResponse", page=200),
    "ListExternalMappingsForExternalSystemAndEntity": Shape(
        gives="ExternalMappingResponse", page=200
    ),
    "GetExternalMappingConfiguration": Shape(
        gives=integrations.ExternalMappingConfigurationResponse
    ),
    "GetExternalMappingOptionsForDestination": Shape(
        gives=integrations.ExternalEntityResponse, several=True, query=(text("externalTable"),)
    ),
    "GetExternalMappingOptionsForDestinationForCredentialsId": Shape(
        gives=integrations.ExternalEntityResponse, several=True, query=(text("externalTable"),)
    ),
    "GetUsageReport": Shape(
        gives=integrations.MarketplaceUsageReportResponse,
        page=50,
        query=(
            instant("billStartDate"),
            text("accountId"),
            text("externalSystem"),
            text("billId"),
        ),
    ),
}

# Requests of named operations that may say which version they are based on.
VERSIONED: Final = (
    "BalanceTransactionRequest",
    "BillJobRecalculateRequest",
    "BillJobRequest",
    "OrgUserRequest",
    "PriceChangeRequest",
    "PrincipalPermissionRequest",
    "ResourceGroupItemRequest",
    "StatementJobRequest",
    "StatementsBatchJobRequest",
)

# What standard operations take in the query besides pages and declared filters.
MORE_QUERY: Final[dict[str, tuple[Parameter, ...]]] = {
    "DeleteIntegrationConfig": (text("mappings", "keep", "delete"),),
    "GetLookupTable": (ADDITIONAL,),
    "ListLookupTable": (ADDITIONAL,),
}
