"""Amounts of money as people read them in tables."""

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
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
        from meterlake.model.organization import OrganizationConfig
        from meterlake.stages.bill.pricing.currencies import Currencies
        from meterlake.stores.state.core.stored_configuration import StoredConfiguration

        with stores.state.reading(org_id) as reader:
            configuration = StoredConfiguration(reader)
            organization = configuration.single(OrganizationConfig).entity
            return cls(Currencies.of(configuration, organization))

    def write(self, amount: Decimal, currency: str, *, sign: bool = False) -> "Digits":
        """An amount with all its digits, in groups, and at least the decimals of its currency.

        Args:
            amount: The amount.
            currency: The code of its currency.
            sign: Whether an amount above 0 has a sign, too.
        """
        from meterlake.cli.tables import Digits
        from meterlake.stages.bill.pricing.remainders import decimals

        least, _ = self.currencies.rounding(currency)
        places = decimals(amount, least)
        return Digits(f"{amount:{'+' if sign and amount else ''},.{places}f}")
