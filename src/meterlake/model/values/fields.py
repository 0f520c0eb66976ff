"""The types of entity fields.

Numbers are exact or refused: an int or a Decimal, never a float, a string or a truth value.
"""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic_core import PydanticCustomError

from meterlake.model.values.ids import CODE, CODE_MAX, CODE_PATTERN, ID, IDENT
from meterlake.model.values.money import plain
from meterlake.model.values.period import parse_instant

# 46 digits each: quantity x price x conversion stays within the 200 digits of `money.EXACT`.
INTEGER_DIGITS: Final = 26
DECIMALS: Final = 20
SECRET_MAX: Final = 5000

_INTEGERS_END: Final = 10**INTEGER_DIGITS
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(?:\.[^@\s.]+)+")


class SecretMark:
    """Marks a text as a secret: stored encrypted, shown masked."""


def _rule_error(rule: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{rule}", {"rule": rule})


def _number(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _rule_error("it must be a number")
    number = Decimal(value)
    if not number.is_finite():
        raise _rule_error("it must be a finite number")
    if not number:
        return Decimal(0)
    if number.adjusted() >= INTEGER_DIGITS:
        raise _rule_error(f"it must be a number of at most {INTEGER_DIGITS} integer digits")
    text = str(number)
    # Short digits without an exponent are few decimals; zeros at the end do not count.
    if ("E" in text or len(text) > DECIMALS) and (
        number.adjusted() < -DECIMALS or len(plain(number).partition(".")[2]) > DECIMALS
    ):
        raise _rule_error(f"it must be a number of at most {DECIMALS} decimals")
    return number


def _integer(value: Any) -> int:
    if type(value) is int and abs(value) < _INTEGERS_END:
        return value
    number = _number(value)
    if number != int(number):
        raise _rule_error("it must be a whole number")
    return int(number)


def _file_length(value: Any) -> int:
    length = _integer(value)
    if not length:
        raise _rule_error("the file is empty; write its rows into it, and announce it again")
    return length


def is_storable(text: str) -> bool:
    """Whether every database can store a text as it is."""
    if "\x00" in text:
        return False
    try:
        # A regular expression takes more than ten times as long.
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: str) -> str:
    if not (value.isascii() and "\x00" not in value) and not is_storable(value):
        raise _rule_error("it must be text without NUL characters and lone surrogates")
    return value


def _hide_value(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
    # The type of the error tells `problems` not to repeat the value.
    try:
        return check(value)
    except ValidationError:
        rule = f"it must be text of 1 to {SECRET_MAX} characters without NUL and lone surrogates"
        raise PydanticCustomError("secret", "{rule}", {"rule": rule}) from None


def _code(value: str) -> str:
    if len(value) > CODE_MAX or not CODE.fullmatch(value):
        raise _rule_error(f"it must be a code: 1 to {CODE_MAX} characters, no space at either end")
    return value


def _ident(value: str) -> str:
    if len(value) > CODE_MAX or not IDENT.fullmatch(value):
        raise _rule_error(
            f"it must be a code of 1 to {CODE_MAX} letters, digits, _ and $, no digit first"
        )
    return value


def _id(value: str) -> str:
    if not ID.fullmatch(value):
        raise _rule_error("it must be an id (a UUID)")
    return value.lower()


def _email(value: str) -> str:
    if not _EMAIL.fullmatch(value):
        raise _rule_error("it must be an e-mail address")
    return value


def _instant(value: Any) -> datetime:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    instant = parse_instant(value) if isinstance(value, str) else None
    if instant is None:
        raise _rule_error("it must be an instant such as 2026-10-01T00:00:00Z")
    return instant


def _day(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str) and _DATE.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise _rule_error("it must be a date such as 2026-10-01")


def _custom_value(value: Any) -> str | Decimal:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise _rule_error("it must be text or a number")
    return _number(value)


def _in_json(type: str, **more: Any) -> WithJsonSchema:
    """What the API's document says of a type, where its validator says more than pydantic sees."""
    return WithJsonSchema({"type": type, **more})


_CODE: Final = {"pattern": CODE_PATTERN, "minLength": 1, "maxLength": CODE_MAX}
_IDENT: Final = {"pattern": r"^[\p{L}_$][\p{L}_$0-9]*$", "minLength": 1, "maxLength": CODE_MAX}
_ID: Final = {"format": "uuid", "minLength": 36, "maxLength": 36}

Text: TypeAlias = Annotated[str, Field(strict=True), AfterValidator(_text)]
LongText: TypeAlias = Annotated[Text, Field(max_length=5000)]
Name: TypeAlias = Annotated[Text, Field(min_length=1, max_length=200)]
Description: TypeAlias = Annotated[Text, Field(max_length=200)]
Unit: TypeAlias = Annotated[Text, Field(min_length=1, max_length=50)]
Code: TypeAlias = Annotated[Text, AfterValidator(_code), _in_json("string", **_CODE)]
Ident: TypeAlias = Annotated[Text, AfterValidator(_ident), _in_json("string", **_IDENT)]
Id: TypeAlias = Annotated[Text, AfterValidator(_id), _in_json("string", **_ID)]
Email: TypeAlias = Annotated[
    Text,
    Field(max_length=320),
    AfterValidator(_email),
    _in_json("string", format="email", maxLength=320),
]
Number: TypeAlias = Annotated[Decimal, BeforeValidator(_number)]
NonNegative: TypeAlias = Annotated[Number, Field(ge=0)]
Positive: TypeAlias = Annotated[Number, Field(gt=0)]
Integer: TypeAlias = Annotated[int, BeforeValidator(_integer), Field(ge=-(2**63), lt=2**63)]
FileLength: TypeAlias = Annotated[int, BeforeValidator(_file_length), Field(ge=1)]
Ordinal: TypeAlias = Annotated[Integer, Field(ge=0)]
# A century: a bill date plus these days stays a date.
Days: TypeAlias = Annotated[Integer, Field(gt=0, le=36_525)]
Flag: TypeAlias = StrictBool
Instant: TypeAlias = Annotated[
    datetime, BeforeValidator(_instant), _in_json("string", format="date-time")
]
Day: TypeAlias = Annotated[date, BeforeValidator(_day), _in_json("string", format="date")]
CustomValue: TypeAlias = Annotated[
    str | Decimal,
    BeforeValidator(_custom_value),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}]}),
]
CustomFieldMap: TypeAlias = Annotated[
    dict[Annotated[Text, Field(min_length=1, max_length=200)], CustomValue], Field(max_length=100)
]
Secret: TypeAlias = Annotated[
    Text, Field(min_length=1, max_length=SECRET_MAX), WrapValidator(_hide_value), SecretMark()
]
