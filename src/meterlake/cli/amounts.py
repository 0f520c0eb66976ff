"""Amounts of money as people read them in tables."""

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from meterlake.cli.tables import Digits
    from meterlake.stages.bill.pricing.currencies import Currencies
    from meterlake.stores import Stores


@dataclass(frozen=True, slots=True)
class AmountText:
    """Writes amounts with the decimals of their currencies, as bills and documents do.

    Attributes:
        currencies: Those of the organization.
    """

    currencies: "Currencies"

    @classmethod
    def read(cls, stores: "Stores", org_id: str) -> Self:
        """The decimals as an organization's currencies have them now."""
        from meterlake.pipeline.billing.currencies import read_currencies

        return cls(read_currencies(stores, org_id))

    def write(self, amount: Decimal, currency: str, *, sign: bool = False) -> "Digits":
        """An amount with all its digits, in groups, and at least the decimals of its currency."""
        from meterlake.cli.tables import Digits

        return Digits(self.currencies.written(amount, currency, sign=sign))

    def money(self, amount: Decimal, currency: str, *, sign: bool = False) -> "Digits":
        """An amount as `write` gives it, with the code of its currency."""
        from meterlake.cli.tables import Digits

        return Digits(self.currencies.money(amount, currency, sign=sign))

    def sums(self, totals: "Mapping[str, Decimal]", *, sign: bool = False) -> str:
        """Amounts in several currencies, in one line; 0 of the organization's if there are none."""
        return self.currencies.sums(totals, sign=sign)
