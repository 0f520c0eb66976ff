"""The statement of a bill as CSV: the same columns for every bill, whatever it charges for.

A LINE is a line of the bill. The BAND rows behind it say what each band charges, the USAGE rows
what was used. So whoever adds up amounts takes the rows of one type.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from meterlake.model.bills.statement_content import AggregatedUsage, StatementContent, StatementRow
from meterlake.stages.export.column_kinds import Kind
from meterlake.stages.export.spreadsheet import safe_cell
from meterlake.stages.export.statement_document import Document, measures_of, statement_document

_LINE: Final = "LINE"
_BAND: Final = "BAND"
_USAGE: Final = "USAGE"

# Column, and what it holds. Texts of people are marked where a spreadsheet may calculate them.
_BILL_COLUMNS: Final = (
    ("billId", Kind.TEXT),
    ("sequentialInvoiceNumber", Kind.TEXT),
    ("accountCode", Kind.TEXT),
    ("accountName", Kind.TEXT),
    ("billDate", Kind.DAY),
    ("billCurrency", Kind.TEXT),
)
_LINE_COLUMNS: Final = (
    ("lineItemId", Kind.TEXT),
    ("sequenceNumber", Kind.INTEGER),
    ("lineItemType", Kind.TEXT),
    ("description", Kind.TEXT),
    ("productCode", Kind.TEXT),
    ("childAccountCode", Kind.TEXT),
    ("segment", Kind.JSON),
)
_OWN_COLUMNS: Final = (
    ("start", Kind.INSTANT),
    ("end", Kind.INSTANT),
    ("meterCode", Kind.TEXT),
    ("aggregationCode", Kind.TEXT),
    ("aggregation", Kind.TEXT),
    ("dimensions", Kind.JSON),
    ("measurements", Kind.COUNT),
    ("lowerLimit", Kind.EXACT),
    ("quantity", Kind.EXACT),
    ("units", Kind.EXACT),
    ("unit", Kind.TEXT),
    ("pricePerUnit", Kind.EXACT),
    ("fixedPrice", Kind.EXACT),
    ("currency", Kind.TEXT),
    ("subtotal", Kind.EXACT),
    ("conversionRate", Kind.EXACT),
    ("convertedSubtotal", Kind.EXACT),
    ("measures", Kind.JSON),
)
_COLUMNS: Final = (("rowType", Kind.TEXT), *_BILL_COLUMNS, *_LINE_COLUMNS, *_OWN_COLUMNS)
# What a band's numbers are called in the columns of lines.
_BAND_NAMES: Final = {"unitPrice": "pricePerUnit"}
Values = Mapping[str, Any]


def statement_header() -> list[str]:
    """The names of the columns."""
    return [name for name, _ in _COLUMNS]


def statement_rows(content: StatementContent) -> Iterator[list[str]]:
    """The cells of the rows, line by line."""
    document = statement_document(content)
    bill = document["bill"]
    shared = {**bill, "billId": bill["id"], "billCurrency": bill["currency"]}
    shared = {name: shared.get(name) for name, _ in _BILL_COLUMNS}
    for line, shown in zip(content.lines, document["lines"], strict=True):
        for kind, values in _rows_of(shown, line.usage):
            yield _cells({**shared, **_line_values(shown), **values, "rowType": kind})


def _line_values(line: Document) -> Document:
    found = {name: line.get(name) for name, _ in _LINE_COLUMNS}
    return found | {"lineItemId": line["id"]}


def _rows_of(line: Document, usage: Sequence[AggregatedUsage]) -> Iterator[tuple[str, Values]]:
    own = {name: line.get(name) for name, _ in _OWN_COLUMNS}
    times = {"start": line["servicePeriodStartDate"], "end": line["servicePeriodEndDate"]}
    yield _LINE, own | times
    for band in line.get("bands", ()):
        named = {_BAND_NAMES.get(name, name): value for name, value in band.items()}
        yield _BAND, named | {"unit": line["unit"], "currency": line["currency"]}
    for each in usage:
        for row in each.rows:
            yield _USAGE, _usage_values(each, row)


def _usage_values(usage: AggregatedUsage, row: StatementRow) -> Values:
    return {
        "start": row.period.start,
        "end": row.period.end,
        "meterCode": usage.meter_code,
        "aggregationCode": usage.aggregation_code,
        "aggregation": usage.kind.value,
        "dimensions": dict(row.dimensions) or None,
        "measurements": row.measurements,
        "quantity": row.quantity,
        "measures": measures_of(row) or None,
    }


def _cells(values: Values) -> list[str]:
    return [safe_cell(values.get(name), kind) for name, kind in _COLUMNS]
