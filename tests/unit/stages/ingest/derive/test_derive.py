"""Derived columns: what cannot be calculated first, then what is calculated how."""

from datetime import datetime
from decimal import Decimal

import polars as pl
import pytest

from meterlake.model.calculation import CalculationError, parse
from meterlake.model.measurements.measurement import Category, Field
from meterlake.model.measurements.rejection import Reason
from meterlake.stages.ingest.derive import (
    AccountValues,
    Calculation,
    Derivation,
    Inputs,
    calculate,
    derive,
    row_by_row,
)
from meterlake.stages.ingest.derive.columns import Columns
from meterlake.stages.ingest.derive.numbers import NUMBER, NotProven, reciprocal

X = Field(Category.MEASURE, "x")
WORD = Field(Category.WHAT, "x")
SHORT = Field(Category.METADATA, "x")
COLUMNS = {"a": "measure.a", "b": "cost.b", "t": "where.t", "ts": "ts", "ets": "ets"}
RATES = {"eu": Decimal("0.19"), "us": Decimal("0.07")}


def lookup(table, field, keys):
    """One table, by region."""
    if table == "gone":
        raise CalculationError("lookup table 'gone' has no published revision")
    return RATES.get(keys[0]) if field == "rate" else None


def frame(*rows):
    """Measurements: a, b, t and the account."""
    count = len(rows)
    a, b, t, account = zip(*rows, strict=True)
    return pl.DataFrame(
        {
            "measure.a": pl.Series(map(Decimal, a), dtype=NUMBER),
            "cost.b": pl.Series(map(Decimal, b), dtype=NUMBER),
            "where.t": list(t),
            "account_id": list(account),
            "ts": [datetime(2026, 9, 3, 10)] * count,
            "ets": pl.Series([None] * count, dtype=pl.Datetime("us")),
            "row": range(2, count + 2),
            "part": pl.Series([0] * count, dtype=pl.Int16),
            "uid": [f"u{n}" for n in range(count)],
        }
    )


def inputs(*rows):
    """A block of measurements with custom fields and a table."""
    tier = {"customFields.account.tier": AccountValues(Decimal(1), {"gold": Decimal("2.5")})}
    constants = {"customFields.meter.unit": Decimal(1024), "customFields.meter.odd": Decimal(7)}
    return Inputs(frame(*rows), COLUMNS, tier, constants, lookup)


def outcome(text, *rows, field=X):
    """What a calculation comes to."""
    return calculate(Calculation(field, parse(text)), inputs(*rows))


ROW = ("6", "4", "eu", "gold")


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("a / 0", X, "division by zero"),
        ("a / (b - 4)", X, "division by zero"),
        ("a ^ (b + 100)", X, "an exponent must be a whole number from -64 to 64"),
        ("1e25 * a * 10", X, "the result is no number of at most 26 integer digits"),
        ("-1e25 * a * 10", X, "the result is no number of at most 26 integer digits"),
        ("toNumber(t)", X, "'eu' is no number"),
        ('lookup("gone", "rate", t)', X, "lookup table 'gone' has no published revision"),
        ("toInstant(t) == ts ? 1 : 2", X, "'eu' is no instant"),
        ('replace(t, "e", "' + "x" * 300 + '")', SHORT, "no text of at most 256 characters"),
        ('t + "' + "x" * 1023 + '"', WORD, "no text of at most 1,024 characters"),
    ],
)
def test_what_has_no_value_is_null_with_its_reason(text, field, said):
    found = outcome(text, ROW, field=field)

    assert found.values.to_list() == [None]
    assert said in found.errors[0]


def test_only_the_rows_without_a_value_lack_one():
    found = outcome("a / b", ("1", "0", "eu", "x"), ("6", "4", "eu", "x"), ("5", "0", "eu", "x"))

    assert found.values.to_list() == [None, Decimal("1.5"), None]
    assert found.errors == {0: "division by zero", 2: "division by zero"}


@pytest.mark.parametrize(
    "text", ["a / b", "a % b", "a / 3", "a ^ 9", "substring(t, 1) == t ? 1 : 2"]
)
def test_what_columns_are_not_proven_for_goes_to_the_evaluator(text):
    with pytest.raises(NotProven):
        Columns(inputs(ROW)).compile(parse(text))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a * b - 1.5", "22.5"),
        ("a / 8 + b / 0.5", "8.75"),
        ("a / customFields.meter.unit", "0.005859375"),
        ("a * customFields.account.tier", "15"),
        ('a * isnull(lookup("rates", "rate", t), 0)', "1.14"),
        ('isnull(lookup("rates", "none", t), 3) + a', "9"),
        ('a > b AND t == "eu" ? hour(ts) : 0', "10"),
        ("isnull(hour(ets), -1)", "-1"),
        ("differenceInSeconds(truncateToDay(ts), ts)", "36000"),
        ("Math.round(a * 0.000000000001 * 0.5, 12) * 2", "0.000000000006"),
        ("a * 0.000000000001 * 0.25", "0.000000000002"),
        ("b * 0.000000000001 * 0.125", "0"),
        ('IN(t, "us", "eu") ? length(t) : 0', "2"),
        ("Math.max(a, b, 5) - Math.min(a, b, 5)", "2"),
        ("Math.abs(b - a) ^ 3", "8"),
        ("-Math.floor(-a / 4)", "2"),
        ("Math.ceil(a * 10, -2)", "100"),
        ("2", "2"),
    ],
)
def test_columns_give_exactly_what_the_evaluator_gives(text, value):
    block = inputs(ROW, ROW)
    calculation = Calculation(X, parse(text))
    Columns(block).compile(calculation.tree)

    found = calculate(calculation, block)

    assert found.values.to_list() == [Decimal(value)] * 2
    assert found.values.to_list() == row_by_row(calculation, block).values.to_list()


def test_texts_in_columns():
    assert outcome('upper(t) + "-" + t', ROW, field=WORD).values.to_list() == ["EU-eu"]
    # Engines disagree about capital letters beyond ASCII: the evaluator decides.
    street = ("1", "1", "straße", "x")
    assert outcome("upper(t)", street, field=WORD).values.to_list() == ["STRASSE"]


def test_a_few_huge_numbers_do_not_slow_down_the_others():
    huge = "9" * 26
    rows = [("1.5", "1", "eu", "x"), (huge, "1", "eu", "x"), ("3", "0", "eu", "x")]

    found = outcome("a * a * 0.5", *rows)

    assert found.values.to_list() == [Decimal("1.125"), None, Decimal("4.5")]
    assert list(found.errors) == [1]
    assert outcome("a * 0.5", *rows).values.to_list()[1] == Decimal(huge) / 2


def test_a_value_of_an_account_of_another_type_is_an_error_of_its_rows():
    block = inputs(("2", "1", "eu", "x"), ("2", "1", "eu", "odd"))
    tier = {"customFields.account.tier": AccountValues(Decimal(1), {"odd": "gold"})}

    found = calculate(
        Calculation(X, parse("a * customFields.account.tier")),
        Inputs(block.frame, COLUMNS, tier),
    )

    assert found.values.to_list() == [Decimal(2), None]
    assert found.errors == {1: "* needs number, not text"}


def test_a_derivation_adds_columns_and_says_what_is_missing_and_whose_values_it_used():
    calculations = (
        Calculation(X, parse("a / b")),
        Calculation(Field(Category.COST, "y"), parse("a * customFields.account.tier")),
        Calculation(Field(Category.WHERE, "z"), None, "column 1: unknown name `old`"),
    )
    tier = {"customFields.account.tier": AccountValues(Decimal(1), {"gold": Decimal(2), "no": 3})}
    rows = frame(("6", "4", "eu", "gold"), ("6", "0", "eu", "x"))

    found = derive(Derivation("m", calculations, COLUMNS, tier), rows)

    assert found.frame["measure.x"].to_list() == [Decimal("1.5"), None]
    assert found.frame["cost.y"].to_list() == [Decimal(12), Decimal(6)]
    assert found.frame["where.z"].to_list() == [None, None]
    assert [(e.row, e.uid, e.field, e.reason, e.meter) for e in found.errors] == [
        (3, "u1", "x", Reason.CALCULATION_ERROR, "m"),
        (2, "u0", "z", Reason.CALCULATION_ERROR, "m"),
        (3, "u1", "z", Reason.CALCULATION_ERROR, "m"),
    ]
    assert found.accounts == {"gold"}


@pytest.mark.parametrize(
    ("value", "inverse"),
    [
        ("0", None),
        ("3", None),
        ("8", "0.125"),
        ("-0.5", "-2"),
        ("1024", "0.0009765625"),
        ("7", None),
    ],
)
def test_dividing_by_some_numbers_is_multiplying(value, inverse):
    assert reciprocal(Decimal(value)) == (None if inverse is None else Decimal(inverse))
