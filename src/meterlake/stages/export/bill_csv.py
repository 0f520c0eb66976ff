"""Lines of bills as rows of CSV files: with our own names, or as Xero imports invoices."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from meterlake.model.bills.members import (
    BILL_MEMBERS,
    LINE_MEMBERS,
    BillMember,
    ShownIn,
    members_in,
)
from meterlake.model.bills.requests import ExternalSystem
from meterlake.model.customers.accounts import Account
from meterlake.stages.export.column_kinds import Kind, formula_free_cell, kind_of_member

Document = Mapping[str, Any]


def _columns(members: Iterable[BillMember], *starts: str) -> Sequence[tuple[str, str, Kind]]:
    """Column, the member that it has, and what it holds."""
    return [
        (each.csv or each.name, each.name, kind_of_member(each))
        for each in members_in(members, ShownIn.CSV, *starts)
    ]


_OF_BILL: Final = _columns(BILL_MEMBERS, "id", "status", "purchaseOrderNumber")
_OF_LINE: Final = _columns(
    LINE_MEMBERS,
    *("id", "servicePeriodStartDate", "segment", "childAccountCode", "quantity"),
    *("referencedBillId", "planId", "counterId"),
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


def csv_rows(
    system: ExternalSystem, bill: Document, account: Account, reference: str
) -> Iterator[Sequence[str]]:
    """The cells of each line of a bill; a text that a spreadsheet may calculate is marked.

    Args:
        system: Which columns.
        bill: As the API shows it, with its lines.
        account: Whose it is.
        reference: Stands for its invoice number if it has none.
    """
    for line in bill["lineItems"]:
        if system is ExternalSystem.XERO:
            yield _xero_row(bill, line, account, reference)
        else:
            yield _standard_row(bill, line)


def _standard_row(bill: Document, line: Document) -> Sequence[str]:
    return [
        formula_free_cell(document.get(member), kind)
        for document, columns in ((bill, _OF_BILL), (line, _OF_LINE))
        for _, member, kind in columns
    ]


def _xero_row(bill: Document, line: Document, account: Account, reference: str) -> Sequence[str]:
    """One of a quantity at the whole amount: bands and conversions have no unit price that adds up."""
    address = account.address.model_dump(by_alias=True) if account.address else {}
    texts = {
        "*ContactName": account.name,
        "EmailAddress": account.email_address,
        **{column: address.get(member) for column, member in _ADDRESS.items()},
        "*InvoiceNumber": bill.get("sequentialInvoiceNumber") or reference,
        "Reference": bill.get("purchaseOrderNumber"),
        "InventoryItemCode": line.get("productCode"),
        "*Description": line["description"],
        "*AccountCode": line.get("accountingProductCode"),
        "Currency": bill["currency"],
    }
    found = {name: formula_free_cell(value, Kind.TEXT) for name, value in texts.items()}
    found["*InvoiceDate"] = formula_free_cell(bill.get("externalInvoiceDate"), Kind.DAY)
    found["*DueDate"] = formula_free_cell(bill.get("dueDate"), Kind.DAY)
    found["*Quantity"] = _ONE
    found["*UnitAmount"] = formula_free_cell(line["convertedSubtotal"], Kind.NUMBER)
    return [found.get(name, "") for name in _XERO]
