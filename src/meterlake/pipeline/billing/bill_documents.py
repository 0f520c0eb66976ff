"""Bills and their lines as the API, exports and the published file show them."""

from collections.abc import Iterator
from datetime import date
from typing import Any, Final

from meterlake.model.bills.statements import StatementFormat, StatementStatus
from meterlake.stores.state.billing.memos.memos import line_id
from meterlake.stores.state.billing.statements.files import NO_FILES, Files
from meterlake.stores.state.billing.stored_bills import LineContent, StoredBill

_TOTAL: Final = "billTotal"
_BANDS: Final = "usagePerPricingBand"
_LAST_CALCULATION: Final = frozenset({"billJobId", "lastCalculatedDate"})
# What exports show of a bill and the API does not.
_OWN: Final = "period"


def bill_document(bill: StoredBill) -> dict[str, Any]:
    """A bill without its lines, with what it was made from.

    Its last calculation is not there: where nothing changed, the bill and its exports did not.
    """
    found = {**bill.to_wire(), **bill.life_to_wire(), "pins": bill.content.pins}
    return {
        name: value
        for name, value in found.items()
        if value is not None and name not in _LAST_CALCULATION
    }


def line_documents(bill: StoredBill) -> Iterator[dict[str, Any]]:
    """The lines of a bill in their order; the bands are named as they are where a line stands alone."""
    content = bill.content
    for number, line in enumerate(content.lines, start=1):
        body = dict(line.body)
        bands = body.pop(_BANDS, None)
        yield {
            **body,
            "id": line_id(bill.id, line.key),
            "billId": bill.id,
            "accountId": content.key.account_id,
            "accountCode": content.body.get("accountCode"),
            "billDate": content.key.bill_date,
            "period": content.period,
            "sequenceNumber": number,
            "billCurrency": content.currency,
            "bandUsage": bands,
            "madeFrom": line.pins,
            **_envelope(bill),
        }


def _envelope(bill: StoredBill) -> dict[str, Any]:
    """The version of a line, and who made it: those of its bill."""
    return {
        "version": bill.version,
        "createdBy": bill.created_by,
        "dtCreated": bill.created,
        "lastModifiedBy": bill.modified_by,
        "dtLastModified": bill.modified,
    }


def bill_response(
    bill: StoredBill,
    closed_until: date | None,
    statements: Files = NO_FILES,
    *,
    lines: bool = True,
    total: bool = True,
) -> dict[str, Any]:
    """A bill as `BillResponse`.

    Args:
        bill: The bill.
        closed_until: The lock date: a bill that ends on or before it is locked, too.
        statements: The files that it has.
        lines: Whether it shows its lines.
        total: Whether it shows what it comes to.
    """
    # Which statements it has, and whether one of them shows the bill as it was before.
    found_statuses = {each.status for each in statements.values()}
    of_statements = {
        **{f"{each}StatementGenerated": each in statements for each in StatementFormat},
        "statementStale": StatementStatus.STALE in found_statuses,
    }
    locked = bill.locked or bill.content.ends_until(closed_until)
    shown = {
        **bill.to_wire(),
        "locked": locked,
        # A locked one keeps the mark, and never changes.
        "recalculationDue": bill.outdated_by is not None and not locked,
        **bill.life_to_wire(),
        **of_statements,
    }
    hidden = {_OWN, *(() if total else (_TOTAL,))}
    found: dict[str, Any] = {name: value for name, value in shown.items() if value is not None}
    if lines:
        found["lineItems"] = [
            _embedded_line(bill, line, number)
            for number, line in enumerate(bill.content.lines, start=1)
        ]
    return {name: value for name, value in found.items() if name not in hidden}


def _embedded_line(bill: StoredBill, line: LineContent, number: int) -> dict[str, Any]:
    return {**line.body, "id": line_id(bill.id, line.key), "sequenceNumber": number}


def line_response(bill: StoredBill, line: LineContent, number: int) -> dict[str, Any]:
    """A line as `BillLineItemResponse`; its version and who made it are those of its bill."""
    body = _embedded_line(bill, line, number)
    bands = body.pop(_BANDS, [])
    return {
        **body,
        "billId": bill.id,
        "bandUsage": bands,
        "jsonUsageGenerated": False,
        **_envelope(bill),
    }
