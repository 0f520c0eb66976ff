"""Documents of bills for tests: made up without stores, and texts of PDF files."""

import copy
import io
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pypdf
import pypdfium2

from meterlake.model.bills.document import AppendixDetail, BillDocument, DocumentParty
from meterlake.model.bills.statements import (
    AggregatedUsage,
    StatementContent,
    StatementLine,
    StatementRow,
)
from meterlake.model.catalog.catalog import Reduce
from meterlake.model.values.period import Period
from meterlake.stages.document.document import build_document
from meterlake.stages.document.document_data import DocumentFacts

PARTY = DocumentParty(name="Acme", code="acme", address=[], email=None, taxId=None, fields={})
BILL = {
    "id": "b" * 8,
    "sequentialInvoiceNumber": "INV-7",
    "status": "APPROVED",
    "locked": False,
    "billDate": "2026-10-01",
    "dueDate": "2026-10-15",
    "startDateTimeUTC": "2026-08-31T22:00:00Z",
    "endDateTimeUTC": "2026-09-30T22:00:00Z",
    "timezone": "Europe/Berlin",
    "billingFrequency": "MONTHLY",
    "billFrequencyInterval": 1,
    "currency": "USD",
    "billTotal": Decimal(0),
}
LINE = {
    "lineItemType": "USAGE",
    "description": "Sent",
    "quantity": "1",
    "units": "1",
    "unit": "GB",
    "currency": "USD",
    "conversionRate": "1",
    "averageUnitPrice": "1",
    "productId": "p",
    "productName": "Cloud",
    "productCode": "cloud",
    "servicePeriodStartDate": "2026-08-31T22:00:00Z",
    "servicePeriodEndDate": "2026-09-30T22:00:00Z",
}


def line(number: int, amount: Any, **members: Any) -> dict[str, Any]:
    """A line as the API shows it; its units are those of its bands unless they are said."""
    own = {"id": f"line-{number}", "sequenceNumber": number, "subtotal": str(amount)}
    bands = members.get("usagePerPricingBand")
    if bands:
        own["units"] = str(sum(Decimal(each["bandUnits"]) for each in bands))
    return {**LINE, **own, "convertedSubtotal": str(amount), **members}


def band(above: Any, units: Any, price: Any, fixed: Any, subtotal: Any) -> dict[str, Any]:
    """A band as the API shows it."""
    return {
        "lowerLimit": above,
        "bandUnits": units,
        "unitPrice": price,
        "fixedPrice": fixed,
        "bandSubtotal": subtotal,
    }


def usage(quantity: Any, *quantities: Any, kind: Reduce = Reduce.SUM) -> AggregatedUsage:
    """What an aggregation measured on the first days of September."""
    rows = [
        StatementRow(
            Period(datetime(2026, 9, day, tzinfo=UTC), datetime(2026, 9, day + 1, tzinfo=UTC)),
            {},
            1,
            Decimal(each),
            {},
        )
        for day, each in enumerate(quantities, start=1)
    ]
    additive = kind in {Reduce.SUM, Reduce.COUNT}
    names = ("m", "egress", "Sent", "sent", kind, "gb")
    return AggregatedUsage(*names, additive, Decimal(quantity), False, rows)


def facts(
    *lines: dict[str, Any] | StatementLine, total: Any = None, **members: Any
) -> DocumentFacts:
    """What a document is made of; the total is that of the lines unless it is said."""
    found = [each if isinstance(each, StatementLine) else StatementLine(each) for each in lines]
    bill = {**BILL, **members.pop("bill", {})}
    amounts = (Decimal(each.body["convertedSubtotal"]) for each in found)
    bill["billTotal"] = sum(amounts, Decimal(0)) if total is None else total
    content = StatementContent(bill, "Acme", None, (), found)
    parties = {"seller": PARTY, "customer": PARTY, "detail": AppendixDetail.DAY}
    return DocumentFacts(content=content, **{**parties, **members})


def document(*lines: dict[str, Any] | StatementLine, **members: Any) -> BillDocument:
    """The document of a bill."""
    return copy.deepcopy(build_document(facts(*lines, **members)))


def pages_of(data: bytes) -> list[str]:
    """The texts of the pages of a PDF, as another program than ours reads them."""
    return [page.extract_text() for page in pypdf.PdfReader(io.BytesIO(data)).pages]


def text_of(data: bytes) -> str:
    """The text of a PDF without spaces, since these are where a reader sees gaps."""
    return re.sub(r"\s+", "", "".join(pages_of(data)))


def unicode_text_of(data: bytes) -> str:
    """The same by a reader that knows scripts other than Latin."""
    pages = pypdfium2.PdfDocument(data)
    found = "".join(page.get_textpage().get_text_range() for page in pages)
    pages.close()
    return re.sub(r"\s+", "", found)
