"""Amounts of money as people read them in tables."""

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, Self

from meterlake.model.errors import Invalid

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from meterlake.cli.shell.tables import Digits
    from meterlake.stages.bill.pricing.currencies import Currencies
    from meterlake.stores import Organization

# The decimals of every number of the lake; a column with fewer has those that its query chose.
_STORED_PLACES: Final = 12
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")


def read_amount(option: str, text: str) -> Decimal:
    """A number of the command line with all its digits.

    Raises:
        Invalid: It is none.
    """
    if not _NUMBER.fullmatch(text):
        raise Invalid(option, text, "it must be a number such as 12.50")
    return Decimal(text)


@dataclass(frozen=True, slots=True)
class AmountText:
    """Writes amounts with the decimals of their currencies, as bills and documents do.

    Attributes:
        currencies: Those of the organization.
    """

    currencies: "Currencies"

    @classmethod
    def read(cls, organization: "Organization") -> Self:
        """The decimals as an organization's currencies have them now."""
        from meterlake.pipeline.billing.currencies import read_currencies

        return cls(read_currencies(organization))

    def write(self, amount: Decimal, currency: str, *, sign: bool = False) -> "Digits":
        """An amount with all its digits, in groups, and at least the decimals of its currency."""
        from meterlake.cli.shell.tables import Digits

        return Digits(self.currencies.written(amount, currency, sign=sign))

    def money(self, amount: Decimal, currency: str, *, sign: bool = False) -> "Digits":
        """An amount as `write` gives it, with the code of its currency."""
        from meterlake.cli.shell.tables import Digits

        return Digits(self.currencies.money(amount, currency, sign=sign))

    def sums(self, totals: "Mapping[str, Decimal]", *, sign: bool = False) -> str:
        """Amounts in several currencies, in one line; 0 of the organization's if there are none."""
        return self.currencies.sums(totals, sign=sign)

    def answer(
        self,
        columns: "Sequence[str]",
        rows: "Iterable[Sequence[Any]]",
        tables: "Collection[str]",
    ) -> "Iterator[dict[str, Any]]":
        """The rows of an answer to SQL with its amounts written; no digit is ever dropped.

        A number that the query itself gave decimals keeps these.

        Args:
            columns: The names of the columns, in the order of the rows' values.
            rows: The values.
            tables: What the query reads.
        """
        from meterlake.cli.shell.tables import Digits
        from meterlake.stages.bill.pricing.currencies import write_amount
        from meterlake.stages.publish.amounts import amount_columns

        amounts = amount_columns(columns, tables)
        shared = self.currencies.shared_places()
        for values in rows:
            row = dict(zip(columns, values, strict=True))
            named = {name: code for name in amounts if (code := row.get(amounts[name] or ""))}
            for name, value in row.items():
                if not isinstance(value, Decimal) or not value.is_finite():
                    continue
                places = -int(value.as_tuple().exponent)
                if name in named:
                    places = self.currencies.rounding(named[name])[0]
                elif places >= _STORED_PLACES:
                    places = shared if name in amounts else 0
                row[name] = Digits(write_amount(value, max(places, 0)))
            yield row
