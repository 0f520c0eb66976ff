"""Operations of the contract that this version knows but does not do: they answer 501, and say why."""

from typing import Final

from meterlake.api.operations import ORGANIZATION, Operation

_BILLING: Final = "bills are made by `meterlake bill` and read in the published database"
_STATEMENTS: Final = "bills have no statements"

# Name, method, path, what it acts on; the action follows from the method unless it is given.
_ROWS: Final[tuple[tuple[str, tuple[tuple[str, str, str, str], ...]], ...]] = (
    (
        _BILLING,
        (
            ("ListBills", "GET", "bills", "bill"),
            ("GetAllBillsForAccount", "GET", "bills/accountid/{accountId}", "bill"),
            ("ApproveBills", "POST", "bills/approve", "bill"),
            (
                "GetAllBillsInBillingPeriod",
                "GET",
                "bills/billingperiod/{lastDateInBillingPeriod}/{billingFrequency}",
                "bill",
            ),
            (
                "ApproveAllBillsInBillingPeriod",
                "POST",
                "bills/billingperiod/{lastDateInBillingPeriod}/{billingFrequency}/approve",
                "bill",
            ),
            ("DownloadBillsCsvUrl", "POST", "bills/download/csv/url", "bill"),
            ("GetLatestBill", "GET", "bills/latest/{accountId}", "bill"),
            ("PreviewBill", "POST", "bills/preview", "bill"),
            ("SearchBills", "GET", "bills/search", "bill"),
            ("ListCreditLineItems", "GET", "bills/{billId}/creditlineitems", "bill"),
            ("PostCreditLineItem", "POST", "bills/{billId}/creditlineitems", "bill"),
            ("GetCreditLineItem", "GET", "bills/{billId}/creditlineitems/{id}", "bill"),
            ("PutCreditLineItem", "PUT", "bills/{billId}/creditlineitems/{id}", "bill"),
            ("DeleteCreditLineItem", "DELETE", "bills/{billId}/creditlineitems/{id}", "bill"),
            ("ListDebitLineItems", "GET", "bills/{billId}/debitlineitems", "bill"),
            ("PostDebitLineItem", "POST", "bills/{billId}/debitlineitems", "bill"),
            ("GetDebitLineItem", "GET", "bills/{billId}/debitlineitems/{id}", "bill"),
            ("PutDebitLineItem", "PUT", "bills/{billId}/debitlineitems/{id}", "bill"),
            ("DeleteDebitLineItem", "DELETE", "bills/{billId}/debitlineitems/{id}", "bill"),
            ("ListBillLineItems", "GET", "bills/{billId}/lineitems", "bill"),
            ("GetBillLineItem", "GET", "bills/{billId}/lineitems/{id}", "bill"),
            ("GetBillLineItemJsonUsage", "GET", "bills/{billId}/lineitems/{id}/usage/json", "bill"),
            ("GetBill", "GET", "bills/{id}", "bill"),
            ("DeleteBill", "DELETE", "bills/{id}", "bill"),
            ("LockBill", "PUT", "bills/{id}/lock", "bill"),
            ("UpdateBillStatus", "PUT", "bills/{id}/status", "bill"),
            ("ListLineItems", "GET", "lineitems", "bill"),
        ),
    ),
    (
        _STATEMENTS,
        (
            ("GetBillCsvStatement", "GET", "bills/{id}/statement/csv", "bill"),
            ("CreateBillCsvStatement", "POST", "bills/{id}/statement/csv", "bill"),
            ("GetBillJsonStatement", "GET", "bills/{id}/statement/json", "bill"),
            ("ListStatementJobs", "GET", "statementjobs", "statementjob"),
            ("CreateStatementJob", "POST", "statementjobs", "statementjob"),
            ("CreateStatementJobBatch", "POST", "statementjobs/batch", "statementjob"),
            ("GetStatementJob", "GET", "statementjobs/{id}", "statementjob"),
            ("CancelStatementJob", "POST", "statementjobs/{id}/cancel", "statementjob"),
        ),
    ),
)
_ACTIONS: Final = {
    "GET": "config:retrieve",
    "POST": "config:create",
    "PUT": "config:update",
    "DELETE": "config:delete",
}
_SPECIAL: Final = {
    "PreviewBill": "config:retrieve",
    "ApproveBills": "config:update",
    "ApproveAllBillsInBillingPeriod": "config:update",
    "CancelStatementJob": "config:update",
}

OPERATIONS: Final = tuple(
    Operation(
        id,
        method,
        f"{ORGANIZATION}/{path}",
        _SPECIAL.get(id, _ACTIONS[method]),
        resource,
        detail=detail,
    )
    for detail, rows in _ROWS
    for id, method, path, resource in rows  # noqa: A001
)
