"""The lines of a document, and the sections that they stand in."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from datetime import tzinfo
from decimal import Decimal
from typing import Any

from meterlake.model.bills.document import (
    DocumentBand,
    DocumentDraw,
    DocumentLine,
    DocumentReference,
    DocumentSection,
    SectionKind,
)
from meterlake.model.bills.line_sections import sections_of_lines
from meterlake.model.values.money import ONE, ZERO, exact, plain
from meterlake.stages.document.document_data import (
    DECIMALS,
    DocumentFacts,
    NamedAccount,
    amount_text,
    clean_text,
    first_day,
    last_day,
    local_text,
    number_text,
    sum_of,
)

Body = Mapping[str, Any]


class LineWriter:
    """Makes the lines of one document."""

    def __init__(self, facts: DocumentFacts, tz: tzinfo) -> None:
        self._facts = facts
        self._tz = tz
        self._currency = str(facts.content.bill["currency"])
        self._bodies = {each.body["id"]: each.body for each in facts.content.lines}

    def line(self, body: Body) -> DocumentLine:
        """One line as a document shows it."""
        account = self.account(body)
        start, end = (str(body[f"servicePeriod{each}Date"]) for each in ("Start", "End"))
        currency = str(body["currency"])
        bill_id, line_id = body.get("referencedBillId"), body.get("referencedLineItemId")
        if bill_id is None or line_id is None:
            reference = None
        else:
            bill = self._facts.bills.get(bill_id)
            reference = DocumentReference(
                billId=bill_id,
                billNumber=bill and bill.number,
                billDate=bill and bill.date.isoformat(),
                lineId=line_id,
                line=bill and bill.lines.get(line_id),
            )
        return DocumentLine(
            number=body["sequenceNumber"],
            id=body["id"],
            type=body["lineItemType"],
            typeName=body["lineItemType"].replace("_", " ").capitalize(),
            description=clean_text(body["description"]),
            accountCode=account and account.code,
            accountName=account and account.name,
            firstDay=first_day(start, self._tz),
            lastDay=last_day(end, self._tz),
            start=local_text(start, self._tz),
            end=local_text(end, self._tz),
            quantity=number_text(body["quantity"]),
            units=number_text(body["units"]),
            unit=clean_text(body["unit"]),
            unitPrice=self._unit_price(body),
            averageUnitPrice=number_text(body["averageUnitPrice"]),
            currency=currency,
            subtotal=self.amount(body["subtotal"], currency),
            rate=number_text(body["conversionRate"]),
            amount=self.amount(body["convertedSubtotal"]),
            segment=[
                {"name": clean_text(name), "value": clean_text(value)}
                for name, value in sorted(body.get("segment", {}).items())
            ],
            bands=list(self._bands(body)),
            draws=list(self._draws(body)),
            reference=reference,
        )

    def amount(self, value: Any, currency: str | None = None) -> str:
        """An amount in a currency; in that of the bill if none is said."""
        return amount_text(value, self._facts.decimals.get(currency or self._currency, DECIMALS))

    def account(self, body: Body) -> NamedAccount | None:
        """The account of a family whose line it is; None of the account that is billed."""
        id_ = body.get("childAccountId")
        if id_ is None:
            return None
        code = clean_text(body.get("childAccountCode", ""))
        return self._facts.accounts.get(id_) or NamedAccount(code, None)

    def _bands(self, body: Body) -> Iterator[DocumentBand]:
        limits = self._facts.limits.get(body["id"], ())
        for band in body.get("usagePerPricingBand", ()):
            above = Decimal(band["lowerLimit"])
            place = bisect_right(limits, above)
            next_limit = plain(limits[place]) if place < len(limits) else None
            yield DocumentBand(
                above=plain(above),
                upTo=next_limit,
                units=number_text(band["bandUnits"]),
                unitPrice=number_text(band["unitPrice"]),
                fixedPrice=number_text(band["fixedPrice"]),
                subtotal=self.amount(band["bandSubtotal"], body["currency"]),
            )

    def _draws(self, body: Body) -> Iterator[DocumentDraw]:
        for each in self._facts.draws.get(body["id"], ()):
            drawn = self._bodies[each.line_id]
            yield DocumentDraw(
                line=drawn["sequenceNumber"],
                description=clean_text(drawn["description"]),
                amount=self.amount(each.amount),
            )

    def _unit_price(self, body: Body) -> str | None:
        """The price of each unit, if all have the same and nothing else made the amount."""
        bands, currency = body.get("usagePerPricingBand", ()), str(body["currency"])
        used = [each for each in bands if Decimal(each["bandUnits"])]
        if any(Decimal(each["fixedPrice"]) for each in bands) or len(used) > 1:
            return None
        if used:
            # Proration, shares of a family and the like make another amount of it.
            exact_amount = used[0]["bandSubtotal"]
            amount = body["subtotal"]
            step = ONE.scaleb(-self._facts.decimals.get(currency, DECIMALS))
            with exact():
                is_whole = abs(abs(Decimal(exact_amount)) - abs(Decimal(amount))) < step
            return number_text(used[0]["unitPrice"]) if is_whole else None
        is_one = not bands and Decimal(body["units"]) == ONE
        return self.amount(body["subtotal"], currency) if is_one else None


def sections_of(texts: LineWriter, bodies: Iterable[Body]) -> list[DocumentSection]:
    """The lines in the sections and the order in which people read them."""
    return [
        DocumentSection(
            kind=each.kind.value,
            title=clean_text(each.title),
            code=clean_text(each.lines[0]["productCode"])
            if each.kind is SectionKind.PRODUCT
            else None,
            lines=[texts.line(line) for line in each.lines],
            subtotal=texts.amount(sum_of(line["convertedSubtotal"] for line in each.lines)),
        )
        for each in sections_of_lines(bodies)
    ]


def amounts_by_account(bodies: Iterable[Body]) -> dict[str | None, Decimal]:
    """What the lines of each account come to; of the billed account under None."""
    found: dict[str | None, list[Any]] = {}
    for body in bodies:
        found.setdefault(body.get("childAccountId"), []).append(body["convertedSubtotal"])
    return {id_: sum_of(amounts) for id_, amounts in found.items()}


def raising_and_lowering(bodies: Iterable[Body]) -> tuple[Decimal, Decimal]:
    """The sum of the lines that raise the bill, and that of those that lower it."""
    amounts = [Decimal(each["convertedSubtotal"]) for each in bodies]
    return sum_of(each for each in amounts if each > ZERO), sum_of(
        each for each in amounts if each < ZERO
    )
