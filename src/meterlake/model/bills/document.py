"""A bill as a document: plain data with everything that a page or a PDF of it may show.

Templates are given this and nothing else. Numbers are texts with all their digits, amounts have at
least the decimals of their currency, and days are those of the bill's time zone. Every member is
always there; what a bill does not have is null. `docs/documents.md` lists the members.
"""

from enum import StrEnum
from typing import Final, TypedDict

LAYOUT: Final = "meterlake.bill-document.1"


class DocumentFormat(StrEnum):
    """How a document of a bill is written."""

    HTML = "html"
    PDF = "pdf"
    JSON = "json"


class BundleFormat(StrEnum):
    """How the documents of many bills become one file."""

    PDF = "pdf"
    ZIP = "zip"


class AppendixDetail(StrEnum):
    """How finely the appendix of a document shows usage."""

    AUTO = "auto"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    TOTAL = "total"
    NONE = "none"


class SectionKind(StrEnum):
    """What the lines of a section have in common."""

    PRODUCT = "product"
    OTHER = "other"
    CREDITS = "credits"
    MEMOS = "memos"


class DocumentHeader(TypedDict):
    """The bill itself; `firstDay` and `lastDay` both belong to its period."""

    id: str
    number: str | None
    status: str
    draft: bool
    locked: bool
    date: str
    dueDate: str | None
    externalInvoiceDate: str | None
    firstDay: str
    lastDay: str
    timezone: str
    frequency: str
    interval: str
    purchaseOrderNumber: str | None
    currency: str
    decimals: int


class DocumentParty(TypedDict):
    """Who sends the bill, or who pays it."""

    name: str
    code: str
    address: list[str]
    email: str | None
    taxId: str | None
    fields: dict[str, str]


class DocumentBand(TypedDict):
    """What one band of a price charges: of the units above `above`, up to `upTo`."""

    above: str
    upTo: str | None
    units: str
    unitPrice: str
    fixedPrice: str
    subtotal: str


class DocumentSegment(TypedDict):
    """A field whose value tells the usage of a line apart."""

    name: str
    value: str


class DocumentReference(TypedDict):
    """The line that a memo is about."""

    billId: str
    billNumber: str | None
    billDate: str | None
    lineId: str
    line: int | None


class DocumentDraw(TypedDict):
    """What a commitment or a balance paid of a line of this bill."""

    line: int
    description: str
    amount: str


class DocumentLine(TypedDict):
    """A line; `amount` is what it adds to the total, in the currency of the bill."""

    number: int
    id: str
    type: str
    typeName: str
    description: str
    accountCode: str | None
    accountName: str | None
    firstDay: str
    lastDay: str
    start: str
    end: str
    quantity: str
    units: str
    unit: str
    unitPrice: str | None
    averageUnitPrice: str
    currency: str
    subtotal: str
    rate: str
    amount: str
    segment: list[DocumentSegment]
    bands: list[DocumentBand]
    draws: list[DocumentDraw]
    reference: DocumentReference | None


class DocumentSection(TypedDict):
    """Lines that belong together, with their sum."""

    kind: str
    title: str
    code: str | None
    lines: list[DocumentLine]
    subtotal: str


class DocumentAccount(TypedDict):
    """What the lines of one account of a family come to."""

    code: str
    name: str | None
    amount: str


class DocumentRate(TypedDict):
    """How many units of the currency `to` one unit of `from` is."""

    source: str
    target: str
    multiplier: str


class DocumentTotals(TypedDict):
    """The sums of the lines that raise the bill, of those that lower it, and of all."""

    charges: str
    credits: str
    total: str


class DocumentUsageRow(TypedDict):
    """What was used on some days."""

    firstDay: str
    lastDay: str
    quantity: str | None
    measurements: int


class DocumentUsage(TypedDict):
    """What one aggregation measured for a line; rows add up where `additive` says so."""

    meterCode: str
    aggregation: str
    name: str
    additive: bool
    quantity: str | None
    rows: list[DocumentUsageRow]


class DocumentUsageLine(TypedDict):
    """The usage behind one line; `sameAs` is the number of the line that has it."""

    line: int
    description: str
    accountCode: str | None
    quantity: str
    units: str
    unit: str
    sameAs: int | None
    usages: list[DocumentUsage]


class DocumentAppendix(TypedDict):
    """The usage behind the lines, from the measurements that the bill pins."""

    detail: str
    lines: list[DocumentUsageLine]


class BillDocument(TypedDict):
    """All that a template is given."""

    layout: str
    bill: DocumentHeader
    seller: DocumentParty
    customer: DocumentParty
    sections: list[DocumentSection]
    accounts: list[DocumentAccount]
    rates: list[DocumentRate]
    totals: DocumentTotals
    usage: DocumentAppendix
