"""COSTLY: operations that take seconds of a processor, or wait for lakes and for other systems.

Each that changes something does it by one piece of work: between two it could be refused.

They run on threads of their own, which organizations share fairly: see `fair_threads`.
"""

from typing import Final

COSTLY: Final = frozenset(
    {
        # Bills, calculated or explained anew.
        "DiffBill",
        "DownloadBillsCsv",
        "ExplainBill",
        "GetBackfillDifference",
        "GetBillDocument",
        "GetBillJsonStatement",
        "GetBillLineItemJsonUsage",
        "GetClosing",
        "ListLateUsage",
        "PreviewBill",
        "VerifyBill",
        # Queries of lakes.
        "GetRejectedRow",
        "GetUsageReport",
        "ListRejectedRows",
        "PostQueryBillData",
        "PostQueryBillDataDownloadCsv",
        "PostQueryBillDataDownloadJson",
        "PostQueryCommitmentLineItems",
        "PostQueryCommitments",
        "PostQueryCommitmentsDownloadCsv",
        "PostQueryCommitmentsDownloadJson",
        "PostQueryDimensionValues",
        "PostQueryMeterDimensions",
        "PostQueryMeters",
        "PostQueryObligations",
        "PostQueryObligationsDownloadCsv",
        "PostQueryObligationsDownloadJson",
        "PostQueryRemainingCommitments",
        "PostQueryUsageData",
        "PostQueryUsageDataDownloadCsv",
        "PostQueryUsageDataDownloadJson",
        "PostUsageDataQuery",
        "QueryUsageSavedQuery",
        # Very many rows at once.
        "CopyLookupTableRevisionData",
        "ReplayWebhook",
        # Other systems, which may be slow or silent; also servers of names, which somebody chose.
        "CheckExportDestination",
        "CreateWebhookDestination",
        "PingWebhook",
        "PostIntegrationConfig",
        "UpdateIntegrationConfig",
        "UpdateWebhookDestination",
        "GetConfigOptionValues",
        "GetExternalMappingOptionsForDestination",
        "GetExternalMappingOptionsForDestinationForCredentialsId",
    }
)
