"""Which columns of an answer to SQL are amounts of money, and what names their currencies."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from meterlake.stages.publish.entities import ENTITY_TABLES
from meterlake.stages.publish.tables import BILL_TABLES, NUMBER
from meterlake.stages.publish.views import BILL_PARTS, BILL_PER_ACCOUNT

# The columns of configuration and bills that are amounts, or prices of one unit.
_NAMES: Final = frozenset(
    {
        *("amount", "total", "subtotal", "difference", "change", "memo_amount", "paid"),
        *("unit_price", "average_unit_price", "standing_charge", "effective_standing_charge"),
        *("minimum_spend", "rollover_amount"),
        *("amount_pre_paid", "amount_first_bill", "amount_spent"),
    }
)
# The last words of names that queries give to amounts: of any table, and beside a currency.
_ALWAYS: Final = frozenset({"cost", "costs", "price", "revenue"})
_BESIDE_CURRENCY: Final = _ALWAYS | {"amount", "total", "subtotal", "charge", "spend", "fee"}
# Where the currency of an amount stands that is not simply that of the row.
_OF_OTHERS: Final = {"memo_amount": ("memo_currency",), "paid": ("currency_paid",)}
_CURRENCIES: Final = {
    **_OF_OTHERS,
    "subtotal": ("currency",),
    "average_unit_price": ("currency",),
}
_OF_ROW: Final = ("bill_currency", "currency")
_NAME: Final = re.compile(r"[a-z_]+")


def _amounts_by_table() -> Iterator[tuple[str, frozenset[str]]]:
    entities = (table for each in ENTITY_TABLES for table in (each.current, each.history))
    for table in (*BILL_TABLES, *entities):
        numbers = {each.name for each in table.columns if each.type == NUMBER}
        yield table.name, _NAMES & numbers
    yield BILL_PER_ACCOUNT.name, frozenset({"total", *(each.column for each in BILL_PARTS)})


AMOUNTS: Final = dict(_amounts_by_table())


def amount_columns(columns: Sequence[str], tables: Collection[str]) -> dict[str, str | None]:
    """The columns of an answer that are amounts, each with the column that names its currency.

    An amount has the name of an amount of a table that the query reads, also within an expression
    such as `sum(total)`; or its last word says so: cost, price and revenue anywhere, amount, total
    and their like beside a currency.

    Args:
        columns: The names of the answer's columns.
        tables: The tables, views and macros that the query reads.

    Returns:
        None for an amount whose currency the answer does not have.
    """
    currencies = [each for each in columns if "currency" in each.casefold()]
    read = frozenset[str]().union(
        *(AMOUNTS.get(each.removesuffix("_at"), frozenset()) for each in tables)
    )
    words = _BESIDE_CURRENCY if currencies or read else _ALWAYS
    found = {}
    for column in columns:
        names = _NAME.findall(column.casefold())
        known = next((each for each in names if each in read), None)
        if known or any(each.rpartition("_")[2] in words for each in names):
            # What names its currency; of an answer with one currency, that one.
            places = _CURRENCIES.get(known or column, _OF_ROW)
            free = [each for each in currencies if (each,) not in _OF_OTHERS.values()]
            single = free[0] if len(free) == 1 else None
            found[column] = next((each for each in places if each in currencies), single)
    return found
