import contextlib
import re
import time
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from meterlake.model.calculation import (
    CalculationError,
    CalculationScope,
    InvalidCalculation,
    check,
    evaluate,
    parse,
    write,
)

PAGE = Path(__file__).parents[4] / "docs" / "calculations.md"
CALCULATION = re.compile(r"^\| `(.+)` \| `(.+)` \|$", re.MULTILINE)
EXAMPLES = CALCULATION.findall(PAGE.read_text("utf-8"))
NOON = datetime(2026, 10, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(("text", "value"), EXAMPLES)
def test_the_documented_examples_are_right(text, value):
    check(parse(text), CalculationScope())

    assert evaluate(parse(text), {}) == evaluate(parse(value), {})


def test_the_page_has_examples():
    assert len(EXAMPLES) > 40


@pytest.mark.parametrize(
    ("text", "detail"),
    [
        ("1 / 0", "division by zero"),
        ("0 / 0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("0 ^ -1", "division by zero"),
        ("9^9^9", "exponent"),
        ("2 ^ 0.5", "exponent"),
        ("2 ^ 65", "exponent"),
        ("1e25 ^ 64", "digits"),
        ("1e-12 ^ 64", "digits"),
        ("1.000000000001 ^ 64", "digits"),
        ("Math.round(1, 0.5)", "scale"),
        ("Math.round(1, 39)", "scale"),
        ('toNumber("1,5")', "no number"),
        ('toNumber(" 1")', "no number"),
        ('toInstant("yesterday")', "no instant"),
        ('substring("abc", -1)', "before"),
        ('substring("abc", 0.5)', "whole"),
        ('substring("abc", 5000.5)', "whole"),
        ('toText(1, "0.00")', "format"),
        ("text + 1", "one type"),
        ("text * 2", "needs number"),
        ("text == 1", "cannot be compared"),
        ("half", "float"),
        ("nan", "not finite"),
        ("huge", "digits"),
        ("long", "characters"),
        ('replace(replace(words, "a", words), "a", words)', "characters"),
        ("__class__(1)", "no function"),
        ("Math.abs(1, 2)", "arguments"),
        ("isnull(1)", "arguments"),
        ("IN()", "arguments"),
        ("lookup()", "arguments"),
    ],
)
def test_what_has_no_value_is_a_calculation_error(text, detail):
    values = {
        "text": "a",
        "half": 0.5,
        "nan": Decimal("NaN"),
        "huge": Decimal("1e999999"),
        "long": "x" * 10_001,
        "words": "a" * 200,
    }
    with pytest.raises(CalculationError, match=detail):
        evaluate(parse(text), values)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            "99999999999999999999999999.999999999999 * 1000",
            "99999999999999999999999999999.999999999",
        ),
        ("0 ^ 0", "1"),
        ("2 ^ 64", "18446744073709551616"),
        ("1 / 8", "0.125"),
        ("2 / 3", "0.66666666666666666667"),
        ("seconds / 60 + 1", "2.5"),
        ("hour(ts)", "12"),
        ("hour(naive)", "12"),
        ('replace("abc", "", "x") == "abc" ? 1 : 0', "1"),
        ("false AND 1 / 0 == 1 ? 1 : 0", "0"),
        ("true ? 1 : 1 / 0", "1"),
        ("isnull(1, 1 / 0)", "1"),
        ("padded ^ 20", "1048576"),
        ('length(substring("abc", 1, 5000))', "2"),
        ('length(substring("abc", 0, 10 ^ 64))', "3"),
        ('length(substring("abc", 5000))', "0"),
    ],
)
def test_values(text, value):
    values = {
        "seconds": Decimal(90),
        "ts": NOON,
        "naive": NOON.replace(tzinfo=None),
        "padded": Decimal("2.000000000000"),
    }
    assert evaluate(parse(text), values) == Decimal(value)


def test_a_lookup_gets_its_keys_and_may_find_nothing():
    rows = {("US",): Decimal("0.1")}
    seen = []

    def lookup(table, field, keys):
        seen.append((table, field))
        return rows.get(keys)

    tree = parse('lookup("discounts", "rate", country)')
    assert evaluate(tree, {"country": "US"}, lookup) == Decimal("0.1")
    assert evaluate(tree, {"country": "UK"}, lookup) is None
    assert evaluate(tree, {}, lookup) is None
    assert seen == [("discounts", "rate")] * 2


def test_a_power_that_is_too_large_is_refused_at_once():
    tree = parse("9^9^9")
    with pytest.raises(CalculationError):
        evaluate(tree, {})


NUMBERS = st.integers(0, 99).map(str)
OPERATORS = st.sampled_from(["+", "-", "*", "-", "+", "/", "==", "<", ">="])


@given(
    NUMBERS, st.lists(st.tuples(OPERATORS, st.sampled_from(["", "-", "--"]), NUMBERS), max_size=6)
)
def test_precedence_is_pythons(first, rest):
    comparisons = [operator for operator, _, _ in rest if operator in {"==", "<", ">="}]
    assume(len(comparisons) <= 1)  # Python chains them, we compare from the left
    text = first + "".join(f" {operator} {sign}{number}" for operator, sign, number in rest)
    try:
        expected = eval(re.sub(r"(\d+)", r"Fraction(\1)", text), {"Fraction": Fraction})
    except ZeroDivisionError:
        with pytest.raises(CalculationError, match="zero"):
            evaluate(parse(text), {})
        return
    found = evaluate(parse(text), {})
    if isinstance(expected, bool):
        assume("/" not in text)
        assert found is expected
    else:
        assert abs(Fraction(found) - expected) <= Fraction(1, 10**9)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.text(max_size=20),
    st.datetimes(timezones=st.none() | st.just(UTC)),
)
ATOMS = st.sampled_from(
    ["a", "b", "c", "0", "1", "64", "99999999999999999999999999.1", '"x"', '"1e9"', "null", "true"]
)


def texts(inner):
    functions = st.sampled_from(
        [
            "Math.max",
            "Math.min",
            "Math.floor",
            "Math.ceil",
            "Math.round",
            "Math.pow",
            "Math.abs",
            "isnull",
            "IN",
            "upper",
            "lower",
            "concat",
            "substring",
            "length",
            "replace",
            "year",
            "month",
            "day",
            "hour",
            "dayOfWeek",
            "truncateToDay",
            "truncateToHour",
            "differenceInSeconds",
            "toNumber",
            "toText",
            "toInstant",
            "lookup",
            "nothing",
        ]
    )
    operators = st.sampled_from(
        ["+", "-", "*", "/", "%", "^", "==", "!=", "<", ">", "<=", ">=", "AND", "OR"]
    )
    calls = st.builds(lambda f, a: f"{f}({', '.join(a)})", functions, st.lists(inner, max_size=3))
    pairs = st.builds(lambda a, o, b: f"({a}) {o} ({b})", inner, operators, inner)
    choices = st.builds(lambda a, b, c: f"({a}) ? ({b}) : ({c})", inner, inner, inner)
    return calls | pairs | choices | inner.map(lambda text: f"-({text})")


@settings(deadline=None)
@given(st.recursive(ATOMS, texts, max_leaves=15), VALUES, VALUES, VALUES)
def test_any_calculation_of_any_values_is_a_value_or_a_calculation_error(text, a, b, c):
    try:
        tree = parse(text)
    except InvalidCalculation:
        return
    values = {"a": a, "b": b, "c": c}

    assert timed(tree, values)[0] == timed(parse(write(tree)), values)[0]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("+".join(["a"] * 999), {"a": Decimal("1.5")}),
        ("+".join(["1.5 ^ 64"] * 330), {}),
        ("+".join(["a / b"] * 330), {"a": Decimal(1), "b": Decimal(7)}),
        ("+".join(["length(upper(a))"] * 250), {"a": "é" * 4096}),
        ("+".join(["length(replace(a, b, b))"] * 190), {"a": "a" * 4096, "b": "a" * 2000 + "b"}),
        ("+".join(["toNumber(a)"] * 300), {"a": "0" * 4095 + "1"}),
        ("+".join(["hour(toInstant(a))"] * 200), {"a": "2026-10-01T00:00:00." + "1" * 4000}),
    ],
)
@pytest.mark.benchmark
def test_the_costliest_calculations_stay_within_some_milliseconds(text, values):
    tree = parse(text)

    assert min(timed(tree, values)[1] for _ in range(5)) < 0.03


HOSTILE = {
    "a tower of powers": "1e9 ^ 1e9 ^ 1e9 ^ 1e9",
    "a long power": "9999999999 ^ 9999999999",
    "digits": "9" * 5000,
    "an exponent": "1e999999999",
    "brackets": "(" * 5000 + "1" + ")" * 5000,
    "open brackets": "(" * 5000,
    "signs": "-" * 5000 + "1",
    "choices": "1 ? " * 1000 + "1" + " : 1" * 1000,
    "names": "a.__class__.__mro__",
    "a call": "__import__('os')",
    "quotes": "'" * 5001,
    "an open text": "'" + "a" * 5000,
    "commas": "min(" + "1," * 2400 + "1)",
    "division": "+".join(["1 / 0"] * 800),
    "nothing": "",
    "spaces": " " * 5000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_calculation_costs_no_more_than_a_plain_one(text):
    """Of CPU time, with generous slack: nothing hangs, and nothing grows beyond its text."""
    plain = min(cost("+".join(["1.5"] * 900)) for _ in range(3))

    assert min(cost(text) for _ in range(3)) < 10 * plain + 0.01


def cost(text):
    parse.cache_clear()
    start = time.thread_time()
    with contextlib.suppress(InvalidCalculation):
        timed(parse(text), {"a": Decimal(1)})
    return time.thread_time() - start


def timed(tree, values):
    start = time.thread_time()
    try:
        result = evaluate(tree, values)
    except CalculationError:
        result = CalculationError
    return result, time.thread_time() - start
