"""The words of a bill's e-mail, as an organization sets them: a text with placeholders."""

import re
from collections.abc import Iterator, Mapping
from string import Formatter
from types import MappingProxyType
from typing import Annotated, Final

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from meterlake.model.values.fields import Text

# What stands for what, in the order of a letter.
PLACEHOLDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "customer": "the customer's name",
        "seller": "the name of your organization",
        "invoice": "Invoice with its number, if it has one",
        "number": "the invoice number; empty if there is none",
        "currency": "the currency of the bill",
        "total": "its total",
        "date": "its date",
        "due": "the day when it is due; empty if there is none",
        "period": "the first and the last day of its period",
        "from": "the first day of its period",
        "to": "the last day of its period",
    }
)
# What each looks like, on a bill with an invoice number. Days are as the document has them.
EXAMPLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "customer": "Juniper Pharma A/S",
        "seller": "Halvorsen Cloud",
        "invoice": "Invoice INV-17",
        "number": "INV-17",
        "currency": "EUR",
        "total": "215.41",
        "date": "2026-11-01",
        "due": "2026-11-15",
        "period": "2026-10-01 to 2026-10-31",
        "from": "2026-10-01",
        "to": "2026-10-31",
    }
)
# The word that {invoice} begins with, where the text says it already: "Your invoice {invoice}".
_INVOICE: Final = "Invoice"
_SAYS_INVOICE: Final = re.compile(r"\binvoice +$", re.IGNORECASE)
SUBJECT_MAX: Final = 200
TEXT_MAX: Final = 5_000


def _pieces(text: str) -> Iterator[tuple[str, str | None]]:
    """What stands as it is, and the placeholder behind it, if one follows."""
    for literal, name, form, conversion in Formatter().parse(text):
        if form or conversion or name == "":
            raise ValueError("a placeholder is a name between braces, and nothing else")
        yield literal, name


def check_template(text: str) -> str:
    """Refuse a text with a placeholder that nothing fills."""
    try:
        names = [name for _, name in _pieces(text) if name is not None]
    except ValueError as error:
        rule = f"write placeholders as {{customer}}, and a brace itself twice: {error}"
        raise _broken(rule) from None
    for name in names:
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
            raise _broken(f"nothing fills {{{name}}}; the placeholders are {known}")
    return text


def _check_line(text: str) -> str:
    if not text.isprintable():
        raise _broken("a subject is one line")
    return check_template(text)


def _check_text(text: str) -> str:
    # Browsers end lines as letters do; a letter's lines are ended when it is written.
    return check_template(text.replace("\r\n", "\n"))


def _broken(rule: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{rule}", {"rule": rule})


def fill_template(text: str, values: Mapping[str, str]) -> str:
    """A text with its placeholders filled.

    >>> fill_template("{seller}: {{open}} {total}", {"seller": "Ada", "total": "5"})
    'Ada: {open} 5'
    >>> fill_template("Your invoice {invoice} of today", {"invoice": "Invoice"})
    'Your invoice of today'
    """
    return "".join(
        literal if name is None else _join(literal, name, values[name])
        for literal, name in _pieces(text)
    )


def _join(literal: str, name: str, value: str) -> str:
    """What stands before a placeholder, and its value."""
    if name == "invoice" and _SAYS_INVOICE.search(literal):
        return f"{literal.rstrip()} {value.removeprefix(_INVOICE).strip()}".rstrip()
    return literal + value


LetterSubject = Annotated[
    Text, Field(min_length=1, max_length=SUBJECT_MAX), AfterValidator(_check_line)
]
LetterText = Annotated[Text, Field(min_length=1, max_length=TEXT_MAX), AfterValidator(_check_text)]
