"""Numbers as people type and read them, in every form alike: by the signs of their language."""

import re
from decimal import Decimal
from typing import Final

from babel import Locale
from babel.numbers import format_decimal

from meterlake.model.errors import Invalid

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,60}(\.[0-9]{1,60})?")
# With a comma before the decimals, or commas between thousands; three digits may be either.
_COMMA: Final = re.compile(r"[+-]?([0-9]{1,60}|[0-9]{1,3}(\.[0-9]{3}){1,15}),[0-9]{1,60}")
_THOUSANDS: Final = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3}){1,15}\.[0-9]{1,60}")
_THREE: Final = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")
_BETWEEN_DIGITS: Final = re.compile(r"(?<=[0-9])[\s'\u2019](?=[0-9]{3})")


def typed_number(name: str, text: str, decimal: str = ".") -> Decimal | str:
    """A number as people write it: `1234.5`, `1,50`, `1.234,56`, `1 234.56`.

    What is none stays the text that it is: the API says so in its own words.

    Args:
        name: The field.
        text: What was typed.
        decimal: What the person's language has before decimals: a point or a comma.

    Raises:
        Invalid: It may be two numbers: `1,234` where decimals stand after a point.
    """
    found = _BETWEEN_DIGITS.sub("", text.strip())
    other = "," if decimal == "." else "."
    if _THREE.fullmatch(found) and other in found:
        rule = f"it may mean {found.replace(other, decimal)} or {found.replace(other, '')}"
        raise Invalid(name, text, f"{rule}; write one of them")
    if _COMMA.fullmatch(found):
        found = found.replace(".", "").replace(",", ".")
    elif _THOUSANDS.fullmatch(found):
        found = found.replace(",", "")
    return Decimal(found) if _NUMBER.fullmatch(found) else text


def needed_number(name: str, text: str, decimal: str = ".") -> Decimal:
    """As `typed_number`, where the page itself counts with the number.

    Raises:
        Invalid: It is none, or may be two.
    """
    found = typed_number(name, text, decimal)
    if isinstance(found, str):
        raise Invalid(name, text, f"it must be a number such as 12{decimal}50")
    return found


def written_number(value: Decimal, decimal: str = ".") -> str:
    """A number as a field shows it: all digits, and no marks between thousands."""
    return f"{value:f}".replace(".", decimal)


def exact_number(value: Decimal, locale: Locale) -> str:
    """A number as people read it, with all its digits."""
    places = max(0, -int(value.as_tuple().exponent))
    pattern = "#,##0" + ("." + "0" * places if places else "")
    return str(format_decimal(value, pattern, locale=locale, decimal_quantization=False))
