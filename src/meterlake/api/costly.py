"""COSTLY: operations that take seconds of a processor, or wait for lakes and for other systems.

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
        # Other systems, which may be slow or silent.
        "CheckExportDestination",
        "GetConfigOptionValues",
        "GetExternalMappingOptionsForDestination",
        "GetExternalMappingOptionsForDestinationForCredentialsId",
    }
)
