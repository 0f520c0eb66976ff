"""The document of a bill: its parts put together, after their sums were checked."""

from collections.abc import Iterator, Mapping
from datetime import tzinfo
from decimal import Decimal
from typing import Any

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
from meterlake.model.bills.statement_content import AggregatedUsage, StatementLine
from meterlake.model.values.money import plain
from meterlake.model.values.period import format_instant, zone
from meterlake.stages.document.balance import check_balance
from meterlake.stages.document.facts import DocumentFacts
from meterlake.stages.document.lines import (
    LineWriter,
    amounts_by_account,
    raising_and_lowering,
    sections_of,
)
from meterlake.stages.document.texts import (
    DECIMALS,
    clean_text,
    first_day,
    last_day,
    number_text,
    sum_of,
)


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
        purchaseOrderNumber=_optional_text(bill.get("purchaseOrderNumber")),
        currency=bill["currency"],
        decimals=facts.decimals.get(bill["currency"], DECIMALS),
    )


def _day(value: Any) -> str:
    return str(value)[:10]


def _optional_day(value: Any) -> str | None:
    return None if value is None else _day(value)


def _optional_text(value: str | None) -> str | None:
    return clean_text(value) if value else None


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
            yield _usage_line(line, numbers, texts, tz)


def _usage_line(
    line: StatementLine, numbers: Mapping[str, int], texts: LineWriter, tz: tzinfo
) -> DocumentUsageLine:
    body, account = line.body, texts.account(line.body)
    return DocumentUsageLine(
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
