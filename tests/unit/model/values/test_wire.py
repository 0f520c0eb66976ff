"""JSON of one form: equal values are equal texts, whatever they were before."""

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import StrEnum

import pytest

from meterlake.model.values import wire

ELSEWHERE = timezone(timedelta(hours=2))


class Colour(StrEnum):
    RED = "red"


@pytest.mark.parametrize("text", ["1", "1.0", "1.00", "1E+0", "100E-2"])
def test_equal_numbers_have_the_same_digits(text):
    """However they are written, and in whatever order they come."""
    assert wire.dumps_sorted([Decimal(text)]) == "[1]"


@pytest.mark.parametrize("value", [True, 1, Decimal("1.0")])
def test_what_equals_a_number_is_not_taken_for_one(value):
    """True is equal to 1, and has the same hash."""
    wire.dumps_sorted([Decimal(1), 1, True])

    assert wire.dumps_sorted({"a": value}) == ('{"a":true}' if value is True else '{"a":1}')


def test_small_large_and_negative_zero_numbers_have_no_exponent():
    """Nor trailing zeros, nor a sign where there is none."""
    numbers = [Decimal("1E-12"), Decimal("1.5E+3"), Decimal("-0"), Decimal("0E-12")]

    assert wire.dumps_sorted(numbers) == "[0.000000000001,1500,0,0]"


def test_instants_are_in_utc_and_days_are_days():
    """Equal instants of different zones are the same text."""
    noon = datetime(2026, 10, 1, 12, tzinfo=UTC)

    found = wire.to_plain([noon, noon.astimezone(ELSEWHERE), date(2026, 10, 1)])

    assert found == ["2026-10-01T12:00:00Z", "2026-10-01T12:00:00Z", "2026-10-01"]


def test_what_is_inside_of_other_things_is_made_plain_too():
    """In dictionaries with any keys, in lists and tuples, in subclasses of them."""

    class Members(dict[object, object]):
        pass

    value = Members({2: ({"b": Decimal("2.50")},), "1": [Colour.RED, None]})

    assert wire.dumps_sorted(value) == '{"1":["red",null],"2":[{"b":2.5}]}'


def test_very_many_numbers_are_written_as_few_are():
    """Not all of them stay in memory."""
    numbers = [Decimal(n) / 8 for n in range(40_000)]

    assert wire.loads(wire.dumps(numbers)) == numbers
