from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from pydantic import TypeAdapter, ValidationError

from meterlake.model.values import fields


def read(kind, value):
    return TypeAdapter(kind).validate_python(value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (fields.Number, 1.5),
        (fields.Number, "1.5"),
        (fields.Number, True),
        (fields.Number, None),
        (fields.Number, Decimal("NaN")),
        (fields.Number, Decimal("Infinity")),
        (fields.Number, 10**26),
        (fields.Number, Decimal("1e26")),
        (fields.Number, Decimal("1e-21")),
        (fields.Number, Decimal("1e-999999")),
        (fields.Number, Decimal("123.000000000000000000001")),
        (fields.NonNegative, Decimal("-0.1")),
        (fields.Positive, 0),
        (fields.Integer, Decimal("1.5")),
        (fields.Integer, "1"),
        (fields.Integer, False),
        (fields.Integer, 2**63),
        (fields.Days, 0),
        (fields.Days, 40_000),
        (fields.Flag, 1),
        (fields.Flag, "true"),
        (fields.Text, 5),
        (fields.Text, b"x"),
        (fields.Text, "a\x00b"),
        (fields.Text, "a\ud800"),
        (fields.Name, ""),
        (fields.Name, "x" * 201),
        (fields.Code, " x"),
        (fields.Code, "x\t"),
        (fields.Code, ""),
        (fields.Code, "x" * 81),
        (fields.Ident, "1a"),
        (fields.Ident, "a-b"),
        (fields.Id, "acme"),
        (fields.Id, "{2054cfc5-18df-47ce-926c-5817033073b4}"),
        (fields.Email, "acme"),
        (fields.Email, "a@b"),
        (fields.Email, "a b@c.d"),
        (fields.Instant, "2026-10-01"),
        (fields.Instant, "yesterday"),
        (fields.Instant, 0),
        (fields.Day, "2026-02-30"),
        (fields.Day, "20261001"),
        (fields.Day, "2026-10-01T00:00:00Z"),
        (fields.Day, datetime(2026, 10, 1, tzinfo=UTC)),
        (fields.CustomFieldMap, {"a": True}),
        (fields.CustomFieldMap, {"a": 1.5}),
        (fields.CustomFieldMap, {"": 1}),
        (fields.CustomFieldMap, {str(n): n for n in range(101)}),
    ],
)
def test_what_is_not_exactly_of_the_type_is_refused(kind, value):
    with pytest.raises(ValidationError):
        read(kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (fields.Number, 3, Decimal(3)),
        (fields.Number, Decimal("0.100"), Decimal("0.1")),
        (fields.Number, Decimal("0E-999999999"), Decimal(0)),
        (fields.Number, Decimal("9" * 26 + "." + "9" * 20), Decimal("9" * 26 + "." + "9" * 20)),
        (fields.Number, Decimal("1.5000000000000000000000000"), Decimal("1.5")),
        (fields.Integer, Decimal("3.0"), 3),
        (fields.Code, "a b", "a b"),
        (fields.Ident, "ünits_1", "ünits_1"),
        (
            fields.Id,
            "2054CFC5-18DF-47CE-926C-5817033073B4",
            "2054cfc5-18df-47ce-926c-5817033073b4",
        ),
        (fields.Instant, "2026-10-01T02:00:00+02:00", datetime(2026, 10, 1, tzinfo=UTC)),
        (fields.Instant, "2026-10-01T00:00:00", datetime(2026, 10, 1, tzinfo=UTC)),
        (
            fields.Instant,
            datetime(2026, 10, 1, 2, tzinfo=timezone(timedelta(hours=2))),
            datetime(2026, 10, 1, tzinfo=UTC),
        ),
        (fields.Day, "2026-10-01", date(2026, 10, 1)),
        (fields.CustomFieldMap, {"a": "1", "b": 1}, {"a": "1", "b": Decimal(1)}),
    ],
)
def test_what_is_of_the_type_is_taken_exactly(kind, value, expected):
    actual = read(kind, value)

    assert (actual, type(actual)) == (expected, type(expected))
