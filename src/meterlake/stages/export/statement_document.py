"""The statement of a bill as JSON: the bill, its lines, and the usage behind each.

All numbers that are added up are texts, so that no reader rounds them. The same bill and the same
definition give the same bytes. `docs/statement.schema.json` is the schema of it.

The statement of a bill as CSV: the same columns for every bill, whatever it charges for.

A LINE is a line of the bill. The BAND rows behind it say what each band charges, the USAGE rows
what was used. So whoever adds up amounts takes the rows of one type.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from meterlake.model.bills.members import BILL_MEMBERS, LINE_MEMBERS, ShownIn, members_in
from meterlake.model.bills.statements import (
    AggregatedUsage,
    StatementContent,
    StatementLine,
    StatementRow,
)
from meterlake.model.values import wire
from meterlake.model.values.fields import Number
from meterlake.model.values.money import ZERO, exact, plain
from meterlake.model.values.period import format_instant
from meterlake.stages.export.column_kinds import Kind, formula_free_cell

LAYOUT: Final = "meterlake.statement.1"
Document = dict[str, Any]

_OF_BILL: Final = [each.name for each in members_in(BILL_MEMBERS, ShownIn.STATEMENT)]
_OF_LINE: Final = members_in(
    LINE_MEMBERS,
    ShownIn.STATEMENT,
    *("id", "meterId", "pricingId", "counterId", "childAccountId", "segment"),
    *("currency", "subtotal", "conversionRate"),
)
_PRICE: Final = "averageUnitPrice"
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


def write_statement(content: StatementContent) -> bytes:
    """The statement as JSON."""
    return wire.dumps(statement_document(content)) + b"\n"


def statement_document(content: StatementContent) -> Document:
    """The statement as a document."""
    record, layout = content.definition, content.layout
    definition = _present(
        {
            "id": record and record.id,
            "version": record and record.version,
            "name": layout.name,
            "aggregationFrequency": layout.aggregation_frequency.value,
            "includePricePerUnit": bool(layout.include_price_per_unit),
            "generateSlimStatements": bool(layout.generate_slim_statements),
        }
    )
    named = {"accountName": content.account_name, "total": _text(content.bill["billTotal"])}
    bill = _present(
        {
            **{name: content.bill[name] for name in _OF_BILL if content.bill.get(name) is not None},
            **named,
        }
    )
    found: Document = {
        "layout": LAYOUT,
        "bill": bill,
        "definition": definition,
    }
    if content.meter_ids:
        found["filters"] = {"meterIds": list(content.meter_ids)}
        # What is not shown, so that the rest adds up to the total.
        amounts = [Decimal(each["convertedSubtotal"]) for each in content.omitted]
        with exact():
            omitted = plain(sum(amounts, ZERO))
        found["omitted"] = {"lines": len(amounts), "convertedSubtotal": omitted}
    prices = bool(content.layout.include_price_per_unit)
    found["lines"] = [_line(each, prices=prices) for each in content.lines]
    return found


def _line(line: StatementLine, *, prices: bool) -> Document:
    body = line.body
    found = {
        each.statement or each.name: _text(value) if each.type is Number else value
        for each in _OF_LINE
        if (value := body.get(each.name)) is not None and (prices or each.name != _PRICE)
    }
    if bands := body.get("usagePerPricingBand"):
        found["bands"] = [_band(each, prices=prices) for each in bands]
    if line.usage_of is not None:
        found["usageOf"] = line.usage_of
    if line.usage:
        found["usage"] = [
            _present(
                {
                    "meterId": each.meter_id,
                    "meterCode": each.meter_code,
                    "aggregationName": each.aggregation_name,
                    "aggregationCode": each.aggregation_code,
                    "aggregation": each.kind.value,
                    "targetField": each.field,
                    "additive": each.is_additive,
                    "quantity": _number(each.quantity),
                    "restQuantity": _number(rest_of(each)),
                    "rows": [_row(each) for each in each.rows],
                }
            )
            for each in line.usage
        ]
    return _present(found)


def _band(band: Mapping[str, Any], *, prices: bool) -> Document:
    names = {
        "lowerLimit": "lowerLimit",
        "quantity": "bandQuantity",
        "units": "bandUnits",
        **({"unitPrice": "unitPrice", "fixedPrice": "fixedPrice"} if prices else {}),
        "subtotal": "bandSubtotal",
        "convertedSubtotal": "convertedBandSubtotal",
    }
    return {name: _text(band[member]) for name, member in names.items()}


def rest_of(usage: AggregatedUsage) -> Decimal | None:
    """What the filters of dimensions leave out of a quantity; None if nothing says so."""
    if not (usage.filtered and usage.is_additive) or usage.quantity is None:
        return None
    with exact():
        return usage.quantity - sum((each.quantity or ZERO for each in usage.rows), ZERO)


def _row(row: StatementRow) -> Document:
    found: Document = {
        "start": format_instant(row.period.start),
        "end": format_instant(row.period.end),
        "dimensions": dict(row.dimensions),
        "measurements": row.measurements,
        "quantity": _number(row.quantity),
    }
    if row.measures:
        found["measures"] = measures_of(row)
    return found


def measures_of(row: StatementRow) -> Document:
    """The measures of a row as texts, by field and aggregation."""
    return {
        field: {name: _number(value) for name, value in values.items()}
        for field, values in row.measures.items()
    }


def _number(value: Decimal | None) -> str | None:
    return None if value is None else plain(value)


def _text(value: Any) -> str:
    return plain(Decimal(value))


def _present(document: Document) -> Document:
    return {name: value for name, value in document.items() if value is not None}


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
        own = {name: shown.get(name) for name, _ in _LINE_COLUMNS} | {"lineItemId": shown["id"]}
        for kind, values in _rows_of(shown, line.usage):
            row = {**shared, **own, **values, "rowType": kind}
            yield [
                formula_free_cell(row.get(name), kind_of_cell) for name, kind_of_cell in _COLUMNS
            ]


def _rows_of(line: Document, usage: Sequence[AggregatedUsage]) -> Iterator[tuple[str, Values]]:
    own = {name: line.get(name) for name, _ in _OWN_COLUMNS}
    times = {"start": line["servicePeriodStartDate"], "end": line["servicePeriodEndDate"]}
    yield _LINE, own | times
    for band in line.get("bands", ()):
        named = {_BAND_NAMES.get(name, name): value for name, value in band.items()}
        yield _BAND, named | {"unit": line["unit"], "currency": line["currency"]}
    for each in usage:
        for row in each.rows:
            yield (
                _USAGE,
                {
                    "start": row.period.start,
                    "end": row.period.end,
                    "meterCode": each.meter_code,
                    "aggregationCode": each.aggregation_code,
                    "aggregation": each.kind.value,
                    "dimensions": dict(row.dimensions) or None,
                    "measurements": row.measurements,
                    "quantity": row.quantity,
                    "measures": measures_of(row) or None,
                },
            )
