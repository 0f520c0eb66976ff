"""Laws of the calculations of notifications."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.calculation import CalculationError, evaluate, parse
from meterlake.stages.events.condition import EventValues
from meterlake.stages.events.match import evaluate_text

NUMBERS = st.decimals(-1000, 1000, allow_nan=False, places=3)
NAMES = st.sampled_from(["new.a", "new.b", "old.a", "old.b"])
OPERATORS = st.sampled_from(["==", "!=", "<", ">", "<=", ">="])


def between(left, operators, right):
    return st.builds("({} {} {})".format, left, operators, right)


SUMS = st.recursive(
    NAMES | NUMBERS.map(lambda each: f"{each:f}"),
    lambda inner: between(inner, st.sampled_from("+-*/"), inner),
    max_leaves=5,
)
COMPARED = between(SUMS, OPERATORS, SUMS)
CONDITIONS = st.recursive(
    COMPARED, lambda inner: between(inner, st.sampled_from(["AND", "OR"]), inner), max_leaves=5
)
WITH_NULL = st.recursive(
    COMPARED | between(NAMES, st.sampled_from(["==", "!="]), st.just("null")),
    lambda inner: between(inner, st.sampled_from(["AND", "OR"]), inner),
    max_leaves=5,
)


def events(values):
    side = st.fixed_dictionaries({"a": values, "b": values})
    return st.fixed_dictionaries({"newDto": side, "oldDto": side})


def outcome(compute):
    try:
        return compute()
    except CalculationError:
        return "no answer"


@given(CONDITIONS, events(NUMBERS))
def test_without_nulls_a_condition_is_the_calculation_that_every_field_computes(text, event):
    values = EventValues(event)
    for name in ("new.a", "new.b", "old.a", "old.b"):
        assert values[name] is not None

    assert outcome(lambda: evaluate_text(text, event)) == outcome(
        lambda: evaluate(parse(text), values)
    )


@given(WITH_NULL, events(NUMBERS | st.none()))
def test_a_condition_is_true_or_false_also_with_nulls(text, event):
    assert outcome(lambda: evaluate_text(text, event)) in (True, False, "no answer")


@given(NAMES, OPERATORS, NUMBERS, events(NUMBERS | st.none()))
def test_a_comparison_with_null_is_false_and_null_is_asked_for(name, operator, number, event):
    side, field = name.split(".")
    absent = event[f"{side}Dto"][field] is None

    assert evaluate_text(f"{name} == null", event) is absent
    assert evaluate_text(f"{name} != null", event) is not absent
    if absent:
        assert not evaluate_text(f"{name} {operator} {number:f}", event)


@given(CONDITIONS, CONDITIONS, events(NUMBERS | st.none()))
def test_and_and_or_are_those_of_two_values(left, right, event):
    one, other = (outcome(lambda t=text: evaluate_text(t, event)) for text in (left, right))
    if "no answer" in (one, other):
        return

    assert evaluate_text(f"{left} AND {right}", event) is (one and other)
    assert evaluate_text(f"{left} OR {right}", event) is (one or other)


@given(NUMBERS, st.integers(1, 99))
def test_a_share_is_exact(amount, percent):
    event = {"newDto": {"a": amount, "b": amount * Decimal(percent) / 100}}

    assert evaluate_text(f"new.b == new.a * {percent} / 100", event)
