"""What sources paid of lines that are lower now, and what goes back to them."""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple, Self

from meterlake.model.bills.ledger import Consumption, LedgerAccount
from meterlake.model.values.money import ZERO, RoundingMode, exact, plain, round_quotient
from meterlake.stages.bill.pricing.currencies import Currencies
from meterlake.stages.bill.pricing.remainders import decimals


class SourcePart(NamedTuple):
    """What a source paid of one line on a bill.

    Attributes:
        account: The account of the ledger that it was drawn from.
        currency: That of the source.
        product_id: The accounting product of the draw.
        amount: In the billing currency.
        total: What the source paid on the bill, in the billing currency.
        posted: The same in its own currency.
        returned: What of the amount went back on bills that are closed.
    """

    account: LedgerAccount
    currency: str
    product_id: str | None
    amount: Decimal
    total: Decimal
    posted: Decimal
    returned: Decimal = ZERO

    @classmethod
    def of_line(cls, key: str, body: Mapping[str, Any], pins: Mapping[str, Any]) -> Self | None:
        """What a line of what a source paid says of another line; None if nothing."""
        draws, account = dict(pins.get("draws", ())), pins.get("source")
        if key not in draws or account is None:
            return None
        return cls(
            LedgerAccount.parse(account),
            pins["sourceCurrency"],
            body.get("accountingProductId"),
            Decimal(draws[key]),
            Decimal(body["convertedSubtotal"]).copy_negate(),
            Decimal(pins["posted"]),
        )

    def posted_of(self, amount: Decimal, currencies: Currencies) -> Decimal:
        """What a part of the amount is in the currency of the source."""
        if amount == self.total:
            return self.posted
        scale = decimals(self.total, 0)
        with exact():
            part = (self.posted * amount).scaleb(scale)
        # Money of before is shared out, whatever its currency says of amounts that are new.
        places, _ = currencies.rounding(self.currency)
        whole = int(self.total.scaleb(scale))
        return round_quotient(part, whole, places, RoundingMode.HALF_UP)


class SourceReturn(NamedTuple):
    """What goes back to a source, since a line that it paid for is lower.

    Attributes:
        line_id: The line.
        amount: In the billing currency of the line.
        posted: In the currency of the source.
    """

    line_id: str
    account: LedgerAccount
    amount: Decimal
    posted: Decimal
    currency: str
    product_id: str | None

    @property
    def consumption(self) -> Consumption:
        """What the ledger is told: the bill on which it stands draws less than nothing."""
        back = self.posted.copy_negate()
        return Consumption(self.account, back, self.currency, self.product_id)

    def to_wire(self) -> dict[str, Any]:
        """What the bill pins."""
        return {
            "lineId": self.line_id,
            "source": str(self.account),
            "amount": plain(self.amount),
            "posted": plain(self.posted),
        }


def return_to_sources(
    line_id: str, paid: Iterable[SourcePart], difference: Decimal, currencies: Currencies
) -> Iterator[SourceReturn]:
    """What goes back to whom if a line is lower by a difference: first to who drew last.

    Args:
        line_id: The line.
        paid: What sources paid of it, in the order in which they drew.
        difference: What is still to be corrected; nothing goes back unless it is below 0.
        currencies: Of the sources.
    """
    left = difference.copy_negate()
    for part in reversed(list(paid)):
        with exact():
            amount = min(left, part.amount - part.returned)
            if amount <= 0:
                continue
            left -= amount
            before = part.posted_of(part.returned, currencies)
            posted = part.posted_of(part.returned + amount, currencies) - before
        yield SourceReturn(line_id, part.account, amount, posted, part.currency, part.product_id)
