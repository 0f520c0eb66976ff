"""Which bill people mean: by id or its first digits, by invoice number, or by account and month."""

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from meterlake.model.errors import Invalid, NotFound
from meterlake.model.values.ids import is_id
from meterlake.pipeline.billing.currencies import read_currencies
from meterlake.pipeline.config.months import month_named
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills.named import (
    NamedBill,
    bills_beginning,
    bills_invoiced,
    bills_of_month,
    newest_bills,
)
from meterlake.stores.state.core.account_names import by_code

# So many digits of an id at least.
_DIGITS: Final = re.compile(r"[0-9a-f]{8}(?:-?[0-9a-f]+)*-?", re.IGNORECASE)
_MONTH: Final = re.compile(r"\d{4}-\d\d|last|current")
_LISTED_MAX: Final = 5
_FOUND_MAX: Final = _LISTED_MAX + 1


def find_bills(organization: Organization, words: Sequence[str]) -> list[str]:
    """The ids of bills that people name, one after the other.

    Args:
        organization: The organization.
        words: Of each bill its id, or its first eight digits or more, or its invoice number; or the
            code of its account and the month of its last day, as two words or with `/` between them.

    Raises:
        NotFound: There is no such bill; the message lists bills that there are.
        Invalid: Several bills are meant.
    """
    found, rest = [], list(words)
    while rest:
        id_, rest = take_bill(organization, rest)
        found.append(id_)
    return list(dict.fromkeys(found))


def take_bill(organization: Organization, words: Sequence[str]) -> tuple[str, list[str]]:
    """The bill that the first one or two words name, as `find_bills` says, and the other words."""
    first, rest = words[0], list(words[1:])
    if is_id(first):
        return first.lower(), rest
    finder = _Finder(organization)
    account, _, month = first.rpartition("/")
    if account and _MONTH.fullmatch(month):
        return finder.of_month(account, month), rest
    if rest and _MONTH.fullmatch(rest[0]):
        return finder.of_month(first, rest[0]), rest[1:]
    return finder.named(first), rest


class _Finder:
    def __init__(self, organization: Organization) -> None:
        self._organization = organization

    def of_month(self, code: str, name: str) -> str:
        """The bill of an account in a month."""
        month = month_named(self._organization, name)
        with self._organization.reading() as reader:
            account_id = self._account(reader, code)
            if account_id is None:
                raise NotFound("account", code)
            found = bills_of_month(reader, account_id, month, _FOUND_MAX)
            if not found:
                others = newest_bills(reader, _LISTED_MAX, account_id)
                raise NotFound("bill", f"{code} {month}", self._hint(others))
        return self._one(f"{code} {month}", found)

    def named(self, word: str) -> str:
        """The bill of an id's first digits, or of an invoice number."""
        with self._organization.reading() as reader:
            found = bills_invoiced(reader, word, _FOUND_MAX)
            if not found and _DIGITS.fullmatch(word):
                found = bills_beginning(reader, _hyphenated(word), _FOUND_MAX)
            if not found:
                account_id = self._account(reader, word)
                others = newest_bills(reader, _LISTED_MAX, account_id)
                what = f"; {word} is an account: name the month, too" if account_id else ""
                raise NotFound("bill", word, f"{what}{self._hint(others)}")
        return self._one(word, found)

    def _account(self, reader: Reader, code: str) -> str | None:
        account = by_code(reader, [code]).get(code)
        return account and account.id

    def _one(self, name: str, found: Sequence[NamedBill]) -> str:
        if len(found) > 1:
            more = "; `meterlake bill list` shows all" if len(found) > _LISTED_MAX else ""
            listed = f"several bills have this name; give the first digits of one: {self._list(found)}{more}"
            raise Invalid("bill", name, listed)
        return found[0].id

    def _hint(self, others: Sequence[NamedBill]) -> str:
        if not others:
            return "; there are no bills: `meterlake bill --month MONTH` makes them"
        return f"; there are {self._list(others)}; `meterlake bill list` shows all"

    def _list(self, bills: Sequence[NamedBill]) -> str:
        currencies = read_currencies(self._organization)
        listed = bills[:_LISTED_MAX]
        names = Counter(f"{each.account_code} {each.month}" for each in listed)
        texts = []
        for each in listed:
            name = f"{each.account_code} {each.month}"
            date = f", bill date {each.bill_date}" if names[name] > 1 else ""
            texts.append(
                f"{each.id[:8]} ({name}{date}, {currencies.money(each.total, each.currency)})"
            )
        return ", ".join(texts) + (" and more" if len(bills) > _LISTED_MAX else "")


def _hyphenated(digits: str) -> str:
    """The first digits of an id with the dashes where they belong.

    >>> _hyphenated("2054cfc518DF")
    '2054cfc5-18df'
    """
    plain = digits.replace("-", "").lower()
    parts = (plain[start:end] for start, end in pairwise((0, 8, 12, 16, 20, 32)))
    return "-".join(part for part in parts if part)
