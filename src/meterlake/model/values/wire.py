"""JSON as the wire speaks it: numbers are Decimal on the way in and plain digits on the way out."""

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec

from meterlake.model.errors import Invalid
from meterlake.model.values.money import plain
from meterlake.model.values.period import format_instant

_decoder: Final = msgspec.json.Decoder(Any, float_hook=Decimal)
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder: Final = msgspec.json.Encoder()
_sorted: Final = msgspec.json.Encoder(order="sorted")
# Bills of a month have few different prices and limits, and very many different quantities.
_DIGITS_MAX: Final = 16_384
# By type, what makes a value ready for JSON, and its members with it; None where nothing has to.
_Way = Callable[[Any, Any], Any]
_Ways = Mapping[type, _Way | None]


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
            f"it must be JSON: {error}",
        ) from None


def shallow(text: str) -> dict[str, Any]:
    """Decode the members of an object of our own, each of which stays JSON, to be written again."""
    return dict(_members.decode(text))


def to_plain(value: Any) -> Any:
    """Make a value ready for JSON: numbers without trailing zeros, instants in UTC with `Z`."""
    return _plain(value, _TO_PLAIN)


def _plain(value: Any, ways: _Ways) -> Any:
    way: _Way | None = ways.get(type(value), _other)
    return value if way is None else way(value, ways)


def _members_of(value: Mapping[Any, Any], ways: _Ways) -> dict[str, Any]:
    # The loop of all JSON of bills: most members are as they are, which one look tells.
    get: Callable[[type, _Way], _Way | None] = ways.get
    other = _other
    return {
        key if type(key) is str else str(key): (
            item if (way := get(type(item), other)) is None else way(item, ways)
        )
        for key, item in value.items()
    }


def _items_of(value: Iterable[Any], ways: _Ways) -> list[Any]:
    return [_plain(item, ways) for item in value]


def _other(value: Any, ways: _Ways) -> Any:
    """A value of no type that has a way, but perhaps of a subclass of one."""
    for kind in (dict, list, tuple, datetime, date, Decimal):
        if isinstance(value, kind):
            way = ways[kind]
            assert way is not None, kind
            return way(value, ways)
    return value


# The bills of a month name few instants, prices and limits, each of them many times.
@lru_cache(maxsize=1024)
def _instant(instant: datetime) -> str:
    return format_instant(instant)


class _Digits(dict[Decimal, msgspec.Raw]):
    """Numbers as JSON; equal ones have the same digits, which are made once."""

    def __missing__(self, number: Decimal) -> msgspec.Raw:
        if len(self) >= _DIGITS_MAX:
            self.clear()
        # msgspec writes str(Decimal), and that of a small one has an exponent.
        digits = self[number] = msgspec.Raw(plain(number))
        return digits


class _Texts(dict[Decimal, str]):
    """The same as texts."""

    def __missing__(self, number: Decimal) -> str:
        if len(self) >= _DIGITS_MAX:
            self.clear()
        digits = self[number] = plain(number)
        return digits


# Numbers as JSON has them, as texts for `Template.fill`.
digits: Final[Callable[[Decimal], str]] = _Texts().__getitem__
# Numbers and instants as JSON has them, ready for `dumps_ready`.
number: Final[Callable[[Decimal], msgspec.Raw]] = _Digits().__getitem__
instant: Final[Callable[[datetime], str]] = _instant


def _ways_with(digits: Callable[[Decimal], Any]) -> _Ways:
    """How values of each type are made ready; None: they are as they are."""
    return {
        **dict.fromkeys((str, int, bool, type(None), msgspec.Raw)),
        dict: _members_of,
        list: _items_of,
        tuple: _items_of,
        Decimal: lambda value, _: digits(value),
        datetime: lambda value, _: _instant(value),
        date: lambda value, _: value.isoformat(),
    }


_TO_PLAIN: Final = _ways_with(lambda value: Decimal(plain(value)))
_TO_ENCODE: Final = _ways_with(number)


def dumps(value: Any) -> bytes:
    """Encode as JSON; Decimal becomes a number with plain digits."""
    return _encoder.encode(_plain(value, _TO_ENCODE))


def dumps_sorted(value: Any) -> str:
    """Encode as canonical JSON with sorted keys, for storing, comparing and hashing."""
    if type(value) is msgspec.Raw:
        return bytes(value).decode()
    return _sorted.encode(_plain(value, _TO_ENCODE)).decode()


def ready(value: Any) -> Any:
    """Make a value ready for `dumps_ready`."""
    return _plain(value, _TO_ENCODE)


def dumps_ready(value: Any) -> msgspec.Raw:
    """Encode as canonical JSON what has no numbers and instants but those made by the two above.

    The text is that of `dumps_sorted`, which takes it as it is, without a look at each member.
    """
    return msgspec.Raw(_sorted.encode(value))


# What no JSON has: control characters in texts are escaped.
HOLE: Final = msgspec.Raw(b"\0")


class Template:
    """Canonical JSON in which only a few values differ from one time to the next."""

    def __init__(self, value: Any) -> None:
        """Take what is the same every time.

        Args:
            value: As `dumps_ready` takes it, with HOLE in the places of the others.
        """
        text = _sorted.encode(value).decode()
        self._format = text.replace("%", "%%").replace("\0", "%s")

    def fill(self, *values: object) -> str:
        """The JSON with values, which are JSON themselves, in the order of their keys."""
        return self._format % values


def dumps_pretty(value: Any) -> bytes:
    """Encode as indented JSON for people, with a line break at the end."""
    return msgspec.json.format(dumps(value), indent=2) + b"\n"
