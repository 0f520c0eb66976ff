"""Currencies of a configuration: how amounts are converted and rounded."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, Inexact
from typing import NamedTuple

from meterlake.model.configuration.organization import Currency, OrganizationConfig
from meterlake.model.values.entity import Configuration, Record
from meterlake.model.values.money import ONE, ZERO, RoundingMode, exact, round_quotient
from meterlake.stages.bill.pricing.remainders import decimals

# What a currency does that the organization has not described.
PLACES_DEFAULT = 2
MODE_DEFAULT = RoundingMode.HALF_UP


class CannotBill(Exception):
    """A line cannot be made, so neither can its bill; the message says why."""


class Conversion(NamedTuple):
    """How amounts of a pricing currency come onto a bill."""

    source: str
    target: str
    rate: Decimal


def write_amount(amount: Decimal, places: int, *, sign: bool = False) -> str:
    """An amount with all its digits, in groups, and at least so many decimals."""
    return f"{amount:{'+' if sign and amount else ''},.{decimals(amount, places)}f}"


class Amount(NamedTuple):
    """Exact money: a quotient that is not divided before it is rounded."""

    dividend: Decimal
    divisor: int = 1

    def times(self, rate: Decimal) -> "Amount":
        """The same money in another currency."""
        with exact():
            return Amount(self.dividend * rate, self.divisor)


@dataclass(frozen=True, slots=True)
class Currencies:
    """The currencies of an organization, looked up once.

    Attributes:
        own: The code of the organization's, in which nothing comes to zero.
    """

    records: Mapping[str, Record[Currency]]
    rates: Mapping[tuple[str, str], Decimal]
    own: str = ""

    @classmethod
    def of(cls, configuration: Configuration, organization: OrganizationConfig) -> "Currencies":
        """The currencies and rates of a configuration."""
        return cls(
            {each.entity.code: each for each in configuration.all(Currency) if each.entity.code},
            {(each.from_, each.to): each.multiplier for each in organization.currency_conversions},
            organization.currency,
        )

    def conversion(self, source: str, target: str) -> Conversion:
        """How one currency becomes another.

        Raises:
            CannotBill: There is no rate.
        """
        rate = self.rate(source, target)
        if rate is None:
            raise CannotBill(
                f"the organization has no conversion rate from {source} to {target};"
                " add it to currencyConversions"
            )
        return Conversion(source, target, rate)

    def rate(self, source: str, target: str) -> Decimal | None:
        """How many units of one currency one of another is; None if the organization has no rate."""
        return ONE if source == target else self.rates.get((source, target))

    def rounding(self, currency: str) -> tuple[int, RoundingMode]:
        """The decimals of a currency, and how it is rounded."""
        record = self.records.get(currency)
        if record is None:
            return PLACES_DEFAULT, MODE_DEFAULT
        return record.entity.max_decimal_places, record.entity.rounding_mode

    def written(self, amount: Decimal, currency: str, *, sign: bool = False) -> str:
        """An amount with all its digits, in groups, and at least the decimals of its currency.

        Args:
            amount: The amount.
            currency: The code of its currency.
            sign: Whether an amount above 0 has a sign, too.
        """
        return write_amount(amount, self.rounding(currency)[0], sign=sign)

    def money(self, amount: Decimal, currency: str, *, sign: bool = False) -> str:
        """An amount as `written` gives it, with the code of its currency."""
        return f"{self.written(amount, currency, sign=sign)} {currency}"

    def shared_places(self) -> int:
        """The decimals that every currency of the organization has, whichever an amount is in."""
        codes = {self.own, *self.records, *(code for pair in self.rates for code in pair)}
        return min(self.rounding(each)[0] for each in codes)

    def sums(self, totals: Mapping[str, Decimal], *, sign: bool = False) -> str:
        """Amounts in several currencies, in one line; 0 of the organization's if there are none."""
        each = totals or {self.own: ZERO}
        return ", ".join(self.money(total, code, sign=sign) for code, total in each.items())

    def round_back(self, amount: Decimal, conversion: Conversion) -> Decimal:
        """What an amount of the target currency is in the source currency.

        Raises:
            CannotBill: That is never rounded, but a digit would be lost.
        """
        if conversion.source == conversion.target:
            return amount
        scale = decimals(conversion.rate, 0)
        divisor = int(conversion.rate.scaleb(scale))
        return self.round(Amount(amount.scaleb(scale), divisor), conversion.source)

    def convert(self, amount: Decimal, rate: Decimal, currency: str) -> Decimal:
        """What an amount is in another currency, rounded as that one says.

        Raises:
            CannotBill: The currency is never rounded, but a digit would be lost.
        """
        return self.round(Amount(amount).times(rate), currency)

    def round(self, amount: Amount, currency: str) -> Decimal:
        """Round money as its currency says.

        Raises:
            CannotBill: The currency is never rounded, but a digit would be lost.
        """
        places, mode = self.rounding(currency)
        try:
            return round_quotient(amount.dividend, amount.divisor, places, mode)
        except Inexact:
            text = (
                f"an amount has more than the {places} decimals of {currency}, which is not rounded;"
                " give the currency more decimals or a rounding mode"
            )
            raise CannotBill(text) from None
