"""JSON as the wire speaks it: numbers are Decimal on the way in and plain digits on the way out."""

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec

from meterlake.model.errors import Invalid
from meterlake.model.money import plain
from meterlake.model.period import format_instant

_decoder: Final = msgspec.json.Decoder(Any, float_hook=Decimal)
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder: Final = msgspec.json.Encoder()
_sorted: Final = msgspec.json.Encoder(order="sorted")
_PLAIN_ALREADY: Final = frozenset({str, int, bool, type(None)})
# The bills of a month name few instants, each of them many times.
_instant: Final = lru_cache(maxsize=1024)(format_instant)


def loads(text: bytes | str) -> Any:
    """Decode JSON; numbers with a fraction or an exponent become Decimal, never float.

    Raises:
        Invalid: The text is not JSON.
    """
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Invalid(
            "body",
            bytes(text[:80], "utf-8", "replace") if isinstance(text, str) else text[:80],
            f"JSON: {error}",
        ) from None


def shallow(text: str) -> dict[str, Any]:
    """Decode the members of an object of our own, each of which stays JSON, to be written again."""
    return dict(_members.decode(text))


def to_plain(value: Any) -> Any:
    """Make a value ready for JSON: numbers without trailing zeros, instants in UTC with `Z`."""
    return _plain(value, _without_zeros)


def _plain(value: Any, number: Callable[[Decimal], Any]) -> Any:
    kind = type(value)
    if kind in _PLAIN_ALREADY:  # most are; asking first makes all of it twice as fast
        return value
    if kind is Decimal:
        return number(value)
    if isinstance(value, dict):
        return {
            str(key): item if type(item) in _PLAIN_ALREADY else _plain(item, number)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_plain(item, number) for item in value]
    if isinstance(value, date):
        return _instant(value) if isinstance(value, datetime) else value.isoformat()
    return number(value) if isinstance(value, Decimal) else value


def _without_zeros(number: Decimal) -> Decimal:
    return Decimal(plain(number))


def _digits(number: Decimal) -> msgspec.Raw:
    # msgspec writes str(Decimal), and that of a small one has an exponent.
    return msgspec.Raw(plain(number))


def dumps(value: Any) -> bytes:
    """Encode as JSON; Decimal becomes a number with plain digits."""
    return _encoder.encode(_plain(value, _digits))


def dumps_sorted(value: Any) -> str:
    """Encode as canonical JSON with sorted keys, for storing, comparing and hashing."""
    return _sorted.encode(_plain(value, _digits)).decode()


def dumps_pretty(value: Any) -> bytes:
    """Encode as indented JSON for people, with a line break at the end."""
    return msgspec.json.format(dumps(value), indent=2) + b"\n"
