"""Lines of bills as rows of CSV files: with our own names, or as Xero imports invoices."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from meterlake.model.accounts import Account
from meterlake.model.bill_requests import ExternalSystem
from meterlake.stages.export.column_kinds import Kind
from meterlake.stages.export.spreadsheet import safe_cell

Document = Mapping[str, Any]

# Column, and the member of the bill that it has.
_OF_BILL: Final = (
    ("billId", "id", Kind.TEXT),
    ("sequentialInvoiceNumber", "sequentialInvoiceNumber", Kind.TEXT),
    ("accountId", "accountId", Kind.TEXT),
    ("accountCode", "accountCode", Kind.TEXT),
    ("billDate", "billDate", Kind.DAY),
    ("dueDate", "dueDate", Kind.DAY),
    ("externalInvoiceDate", "externalInvoiceDate", Kind.DAY),
    ("startDate", "startDate", Kind.DAY),
    ("endDate", "endDate", Kind.DAY),
    ("billingFrequency", "billingFrequency", Kind.TEXT),
    ("status", "status", Kind.TEXT),
    ("locked", "locked", Kind.FLAG),
    ("purchaseOrderNumber", "purchaseOrderNumber", Kind.TEXT),
    ("billTotal", "billTotal", Kind.NUMBER),
    ("billCurrency", "currency", Kind.TEXT),
)
_OF_LINE: Final = (
    ("lineItemId", "id", Kind.TEXT),
    ("sequenceNumber", "sequenceNumber", Kind.INTEGER),
    ("lineItemType", "lineItemType", Kind.TEXT),
    ("description", "description", Kind.TEXT),
    ("productCode", "productCode", Kind.TEXT),
    ("productName", "productName", Kind.TEXT),
    ("accountingProductCode", "accountingProductCode", Kind.TEXT),
    ("servicePeriodStartDate", "servicePeriodStartDate", Kind.INSTANT),
    ("servicePeriodEndDate", "servicePeriodEndDate", Kind.INSTANT),
    ("segment", "segment", Kind.JSON),
    ("childAccountCode", "childAccountCode", Kind.TEXT),
    ("quantity", "quantity", Kind.EXACT),
    ("units", "units", Kind.EXACT),
    ("unit", "unit", Kind.TEXT),
    ("averageUnitPrice", "averageUnitPrice", Kind.EXACT),
    ("subtotal", "subtotal", Kind.NUMBER),
    ("currency", "currency", Kind.TEXT),
    ("conversionRate", "conversionRate", Kind.EXACT),
    ("convertedSubtotal", "convertedSubtotal", Kind.NUMBER),
    ("referencedBillId", "referencedBillId", Kind.TEXT),
    ("referencedLineItemId", "referencedLineItemId", Kind.TEXT),
    ("reasonId", "reasonId", Kind.TEXT),
    ("planId", "planId", Kind.TEXT),
    ("planGroupId", "planGroupId", Kind.TEXT),
    ("contractId", "contractId", Kind.TEXT),
    ("counterId", "counterId", Kind.TEXT),
    ("chargeId", "chargeId", Kind.TEXT),
    ("commitmentId", "commitmentId", Kind.TEXT),
    ("balanceId", "balanceId", Kind.TEXT),
)
# The columns of Xero's template for sales invoices; those with an asterisk it requires.
_XERO: Final = (
    *("*ContactName", "EmailAddress", "POAddressLine1", "POAddressLine2", "POAddressLine3"),
    *("POAddressLine4", "POCity", "PORegion", "POPostalCode", "POCountry", "*InvoiceNumber"),
    *("Reference", "*InvoiceDate", "*DueDate", "InventoryItemCode", "*Description", "*Quantity"),
    *("*UnitAmount", "*AccountCode", "*TaxType", "Currency"),
)
_ADDRESS: Final = {
    "POAddressLine1": "addressLine1",
    "POAddressLine2": "addressLine2",
    "POAddressLine3": "addressLine3",
    "POAddressLine4": "addressLine4",
    "POCity": "locality",
    "PORegion": "region",
    "POPostalCode": "postCode",
    "POCountry": "country",
}
_ONE: Final = "1"


def csv_header(system: ExternalSystem) -> Sequence[str]:
    """The names of the columns."""
    if system is ExternalSystem.XERO:
        return _XERO
    return [name for name, _, _ in (*_OF_BILL, *_OF_LINE)]


def csv_rows(system: ExternalSystem, bill: Document, account: Account) -> Iterator[Sequence[str]]:
    """The cells of each line of a bill; a text that a spreadsheet may calculate is marked.

    Args:
        system: Which columns.
        bill: As the API shows it, with its lines.
        account: Whose it is.
    """
    row = _xero_row if system is ExternalSystem.XERO else _standard_row
    for line in bill["lineItems"]:
        yield row(bill, line, account)


def _standard_row(bill: Document, line: Document, account: Account) -> Sequence[str]:
    del account
    return [
        safe_cell(document.get(member), kind)
        for document, columns in ((bill, _OF_BILL), (line, _OF_LINE))
        for _, member, kind in columns
    ]


def _xero_row(bill: Document, line: Document, account: Account) -> Sequence[str]:
    """One of a quantity at the whole amount: bands and conversions have no unit price that adds up."""
    address = account.address.model_dump(by_alias=True) if account.address else {}
    texts = {
        "*ContactName": account.name,
        "EmailAddress": account.email_address,
        **{column: address.get(member) for column, member in _ADDRESS.items()},
        "*InvoiceNumber": bill.get("sequentialInvoiceNumber") or bill["id"],
        "Reference": bill.get("purchaseOrderNumber"),
        "InventoryItemCode": line.get("productCode"),
        "*Description": line["description"],
        "*AccountCode": line.get("accountingProductCode"),
        "Currency": bill["currency"],
    }
    found = {name: safe_cell(value, Kind.TEXT) for name, value in texts.items()}
    found["*InvoiceDate"] = safe_cell(bill.get("externalInvoiceDate"), Kind.DAY)
    found["*DueDate"] = safe_cell(bill.get("dueDate"), Kind.DAY)
    found["*Quantity"] = _ONE
    found["*UnitAmount"] = safe_cell(line["convertedSubtotal"], Kind.NUMBER)
    return [found.get(name, "") for name in _XERO]
