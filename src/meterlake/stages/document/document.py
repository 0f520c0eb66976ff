"""The document of a bill: its parts put together, after their sums were checked.

Whether the numbers of a document agree: a bill that does not add up is not printed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from decimal import Decimal, Inexact
from typing import Any, NamedTuple

from meterlake.model.bills.document import (
    LAYOUT,
    BillDocument,
    DocumentAccount,
    DocumentAppendix,
    DocumentHeader,
    DocumentRate,
    DocumentTotals,
    DocumentUsage,
    DocumentUsageLine,
    DocumentUsageRow,
)
from meterlake.model.bills.requests import BillStatus
from meterlake.model.bills.statements import AggregatedUsage
from meterlake.model.errors import UnbalancedBill
from meterlake.model.values.money import divide, exact, plain, round_quotient
from meterlake.model.values.period import format_instant, zone
from meterlake.stages.document.document_data import (
    DECIMALS,
    BandPrice,
    CurrencyRounding,
    DocumentFacts,
    clean_text,
    first_day,
    last_day,
    number_text,
    sum_of,
)
from meterlake.stages.document.lines import (
    LineWriter,
    amounts_by_account,
    raising_and_lowering,
    sections_of,
)

Body = Mapping[str, Any]


def build_document(facts: DocumentFacts) -> BillDocument:
    """All that a template is given.

    Raises:
        UnbalancedBill: Its numbers do not add up.
    """
    check_balance(facts)
    bill, tz = facts.content.bill, zone(facts.content.bill["timezone"])
    texts = LineWriter(facts, tz)
    bodies = [each.body for each in facts.content.lines]
    raising, lowering = raising_and_lowering(each.body for each in facts.content.lines)
    totals = DocumentTotals(
        charges=texts.amount(raising),
        credits=texts.amount(lowering),
        total=texts.amount(facts.content.bill["billTotal"]),
    )
    return BillDocument(
        layout=LAYOUT,
        bill=_header(facts, tz),
        seller=facts.seller,
        customer=facts.customer,
        sections=sections_of(texts, bodies),
        accounts=list(_accounts(facts, texts)),
        rates=[
            DocumentRate(
                source=each["from"], target=each["to"], multiplier=number_text(each["multiplier"])
            )
            for each in bill.get("currencyConversions", ())
        ],
        totals=totals,
        usage=DocumentAppendix(
            detail=facts.detail.value, lines=list(_usage_lines(facts, texts, tz))
        ),
    )


def _header(facts: DocumentFacts, tz: tzinfo) -> DocumentHeader:
    bill = facts.content.bill
    order_number = bill.get("purchaseOrderNumber")
    return DocumentHeader(
        id=bill["id"],
        number=bill.get("sequentialInvoiceNumber"),
        status=bill["status"],
        draft=bill["status"] != BillStatus.APPROVED,
        locked=bill["locked"],
        date=_day(bill["billDate"]),
        dueDate=_optional_day(bill.get("dueDate")),
        externalInvoiceDate=_optional_day(bill.get("externalInvoiceDate")),
        firstDay=first_day(bill["startDateTimeUTC"], tz),
        lastDay=last_day(bill["endDateTimeUTC"], tz),
        timezone=bill["timezone"],
        frequency=bill["billingFrequency"],
        interval=str(bill["billFrequencyInterval"]),
        purchaseOrderNumber=clean_text(order_number) if order_number else None,
        currency=bill["currency"],
        decimals=facts.decimals.get(bill["currency"], DECIMALS),
    )


def _day(value: Any) -> str:
    return str(value)[:10]


def _optional_day(value: Any) -> str | None:
    return None if value is None else _day(value)


def _accounts(facts: DocumentFacts, texts: LineWriter) -> Iterator[DocumentAccount]:
    """What each account of a family comes to; nothing where there is one account only."""
    bodies = {each.body.get("childAccountId"): each.body for each in facts.content.lines}
    amounts = amounts_by_account(each.body for each in facts.content.lines)
    if set(amounts) <= {None}:
        return
    for id_, amount in amounts.items():
        account = texts.account(bodies[id_])
        yield DocumentAccount(
            code=account.code if account else facts.customer["code"],
            name=account.name if account else facts.customer["name"],
            amount=texts.amount(amount),
        )


def _usage_lines(
    facts: DocumentFacts, texts: LineWriter, tz: tzinfo
) -> Iterator[DocumentUsageLine]:
    numbers = {each.body["id"]: each.body["sequenceNumber"] for each in facts.content.lines}
    for line in facts.content.lines:
        if line.usage or line.usage_of is not None:
            body, account = line.body, texts.account(line.body)
            yield DocumentUsageLine(
                line=body["sequenceNumber"],
                description=clean_text(body["description"]),
                accountCode=account and account.code,
                quantity=number_text(body["quantity"]),
                units=number_text(body["units"]),
                unit=clean_text(body["unit"]),
                sameAs=None if line.usage_of is None else numbers[line.usage_of],
                usages=[_usage(each, tz) for each in line.usage],
            )


def _usage(usage: AggregatedUsage, tz: tzinfo) -> DocumentUsage:
    quantity = usage.quantity
    if quantity is None and usage.is_additive:
        # Of what a calculation reads no line says it.
        quantity = sum_of(each.quantity for each in usage.rows if each.quantity is not None)
    return DocumentUsage(
        meterCode=clean_text(usage.meter_code),
        aggregation=usage.kind.value,
        name=clean_text(usage.aggregation_name),
        additive=usage.is_additive,
        quantity=_number(quantity),
        rows=[
            DocumentUsageRow(
                firstDay=first_day(format_instant(each.period.start), tz),
                lastDay=last_day(format_instant(each.period.end), tz),
                quantity=_number(each.quantity),
                measurements=each.measurements,
            )
            for each in usage.rows
        ],
    )


def _number(value: Decimal | None) -> str | None:
    return None if value is None else plain(value)


class _Sum(NamedTuple):
    """What parts come to, and what they should."""

    what: str
    found: Decimal
    due: Decimal


def check_balance(facts: DocumentFacts) -> None:
    """Look whether all sums of a document are exact.

    Raises:
        UnbalancedBill: One is not; the first of them is named.
    """
    for each in _sums(facts):
        if each.found != each.due:
            bill_id = str(facts.content.bill["id"])
            raise UnbalancedBill(bill_id, each.what, plain(each.found), plain(each.due))


def _sums(facts: DocumentFacts) -> Iterator[_Sum]:
    bodies = {each.body["id"]: each.body for each in facts.content.lines}
    total = Decimal(facts.content.bill["billTotal"])
    yield _Sum("its lines", _add_up(bodies.values(), "convertedSubtotal"), total)
    for id_, body in bodies.items():
        yield from _sums_of_bands(body)
        draws = facts.draws.get(id_)
        if draws:
            paid = sum_of(each.amount for each in draws)
            with exact():
                due = -Decimal(body["convertedSubtotal"])
            yield _Sum(f"what line {body['sequenceNumber']} pays", paid, due)
    for price in facts.band_prices:
        yield from _sums_of_price(price, [bodies[each] for each in price.line_ids])
    for line in facts.content.lines:
        # The rows of what adds up, beside the quantity of the lines that charge for it.
        for usage in line.usage:
            if usage.is_additive and usage.quantity is not None and usage.rows:
                rows = sum_of(each.quantity for each in usage.rows if each.quantity is not None)
                yield _Sum(f"the usage of line {line.body['sequenceNumber']}", rows, usage.quantity)


def _add_up(bodies: Iterable[Body], name: str) -> Decimal:
    return sum_of(each[name] for each in bodies)


def _sums_of_bands(body: Body) -> Iterator[_Sum]:
    """The units of each band at its prices, and the units of all bands."""
    bands, number = body.get("usagePerPricingBand") or (), body["sequenceNumber"]
    for position, band in enumerate(bands, start=1):
        names = ("bandUnits", "unitPrice", "fixedPrice", "bandSubtotal")
        units, price, fixed, subtotal = (Decimal(band[each]) for each in names)
        with exact():
            charged = units * price + fixed
        yield _Sum(f"the prices of band {position} of line {number}", charged, subtotal)
    if bands:
        units = _add_up(bands, "bandUnits")
        yield _Sum(f"the units in the bands of line {number}", units, Decimal(body["units"]))


def _sums_of_price(price: BandPrice, bodies: Sequence[Body]) -> Iterator[_Sum]:
    """What bands come to, by the days that count, converted and rounded as lines are."""
    bands = [band for body in bodies for band in body.get("usagePerPricingBand") or ()]
    numbers = " and ".join(str(each["sequenceNumber"]) for each in bodies)
    what = f"the bands of line {numbers}"
    amount, rate = _add_up(bands, "bandSubtotal"), Decimal(bodies[0]["conversionRate"])
    if price.own is not None:
        found = _round(amount, price.days, price.own)
        yield _Sum(what, found, _add_up(bodies, "subtotal"))
    with exact():
        converted = amount * rate
    found = _round(converted, price.days, price.billed)
    yield _Sum(what, found, _add_up(bodies, "convertedSubtotal"))


def _round(amount: Decimal, days: tuple[int, int], rounding: CurrencyRounding) -> Decimal:
    """An amount as a line has it; with more digits where the currency is never rounded."""
    with exact():
        dividend = amount * days[0]
    try:
        return round_quotient(dividend, days[1], *rounding)
    except Inexact:
        return divide(dividend, Decimal(days[1]))
