"""Bills and their lines as exports and the published file show them."""

from collections.abc import Iterator
from typing import Any

from meterlake.stores.state.billing.bills import StoredBill


def bill_document(bill: StoredBill) -> dict[str, Any]:
    """A bill without its lines, with what it was made from."""
    return {**bill.to_wire(), "pins": bill.content.pins}


def line_documents(bill: StoredBill) -> Iterator[dict[str, Any]]:
    """The lines of a bill in their order; the bands are named as they are where a line stands alone."""
    content = bill.content
    for number, line in enumerate(content.lines, start=1):
        body = dict(line.body)
        bands = body.pop("usagePerPricingBand", None)
        yield {
            **body,
            "billId": bill.id,
            "accountId": content.key.account_id,
            "accountCode": content.body.get("accountCode"),
            "billDate": content.key.bill_date,
            "period": content.period,
            "sequenceNumber": number,
            "billCurrency": content.currency,
            "bandUsage": bands,
            "madeFrom": line.pins,
        }
