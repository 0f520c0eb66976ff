import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.calculation import InvalidCalculation, parse, write
from meterlake.model.calculation.grammar import DEPTH_MAX, LENGTH_MAX, NODES_MAX
from meterlake.model.calculation.tree import (
    LEVELS,
    Chain,
    Choice,
    FunctionCall,
    Literal,
    Name,
    Power,
    Signed,
    names,
)
from meterlake.model.errors import Invalid


@pytest.mark.parametrize(
    ("text", "column", "rule"),
    [
        ("", 1, "empty"),
        (" \n", 1, "empty"),
        ("1 +", 4, "at the end"),
        ("(((1)", 6, "at the end"),
        ("1)", 2, "does not fit"),
        ('1 + "abc', 5, "closing quote"),
        ('"abc\\"', 1, "closing quote"),
        (r'"a\q"', 3, "escape"),
        ("'a'", 1, "double quotes"),
        ("a && b", 3, "did you mean AND"),
        ("a || b", 3, "did you mean OR"),
        ("a = b", 3, "did you mean =="),
        ("a and b", 3, "did you mean AND"),
        ("1 2", 3, "does not fit"),
        ("5x", 2, "does not fit"),
        ("1_000", 2, "does not fit"),
        (".5", 1, "does not fit"),
        ("a..b", 3, "does not fit"),
        ("a ? b", 6, "at the end"),
        ("AND", 1, "does not fit"),
        ("f(1,)", 5, "does not fit"),
        ("f(1)(2)", 5, "does not fit"),
        ("().__class__", 2, "does not fit"),
        ("[].append(1)", 1, "no meaning"),
        ("1e9**1e9", 5, "does not fit"),
        ("1e27", 1, "26 integer digits"),
        ("0.0000000000001", 1, "12 decimals"),
        ("1e99999", 7, "does not fit"),
        ("a; DROP TABLE m", 2, "no meaning"),
        ("a /* comment */", 4, "does not fit"),
        ("{{7*7}}", 1, "no meaning"),
        ("${a}", 2, "no meaning"),
        ("lambda: 1", 7, "does not fit"),
        ("a\x00b", 2, "no meaning"),
        ("\u0661 + 1", 1, "no meaning"),
        ("a\u00a0+ b", 2, "no meaning"),
        ('"\ud800"', 2, "surrogate"),
        ('f."x y"(1)', 1, "no quotes"),
    ],
)
def test_what_is_no_calculation_is_refused_with_its_place(text, column, rule):
    with pytest.raises(InvalidCalculation, match=rule) as refused:
        parse(text)
    assert refused.value.column == column


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (" " * LENGTH_MAX + "1", "longer"),
        ("(" * 2000 + "1" + ")" * 2000, "levels"),
        ("-" * 4000 + "1", "levels"),
        ("2^" * 2000 + "1", "levels"),
        ("true ? 1 : " * 400 + "2", "levels"),
        ("f(" * 1000 + "1" + ")" * 1000, "levels"),
        ("1+" * NODES_MAX + "1", "operands"),
    ],
)
def test_what_is_too_long_deep_or_large_is_refused(text, rule):
    with pytest.raises(InvalidCalculation, match=rule):
        parse(text)


def test_limits_are_inclusive():
    assert parse("1".rjust(LENGTH_MAX)) == parse("1")
    assert parse("(" * (DEPTH_MAX - 1) + "1" + ")" * (DEPTH_MAX - 1)) == parse("1")
    assert isinstance(parse("+".join("1" * (NODES_MAX - 1))), Chain)


def test_a_mistake_becomes_the_error_of_a_request():
    with pytest.raises(InvalidCalculation) as refused:
        parse("1 +")
    error = refused.value.as_invalid("derivedFields.0.calculation", "1 +")
    assert isinstance(error, Invalid)
    assert str(error) == (
        "derivedFields.0.calculation: '1 +' is not allowed: column 4: something is missing at the end"
    )


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a+b*c", "a + b * c"),
        ("(a+b)*c", "(a + b) * c"),
        ("a-(b-c)", "a - (b - c)"),
        ("(a-b)-c", "(a - b) - c"),
        ("(2^3)^2", "(2 ^ 3) ^ 2"),
        ("2^(3^2)", "2 ^ 3 ^ 2"),
        ("(-2)^2", "(-2) ^ 2"),
        ("-(2^2)", "-2 ^ 2"),
        ("2^(-1)", "2 ^ -1"),
        ("(a?b:c)?d:(e?f:g)", "(a ? b : c) ? d : e ? f : g"),
        ("a OR (b AND c)", "a OR b AND c"),
        ("(a OR b)AND c", "(a OR b) AND c"),
        ("ANDx+ORy+truely", "ANDx + ORy + truely"),
        ("aggregation . x", "aggregation.x"),
        ('customFields.account."Tier 1"', 'customFields.account."Tier 1"'),
        ('new."null"', 'new."null"'),
        ('"a\nb\\n\\"\\\\"', '"a\nb\n\\"\\\\"'),
        ("1.50e3", "1500"),
    ],
)
def test_writing_keeps_the_tree_with_few_parentheses(text, written):
    assert write(parse(text)) == written
    assert parse(written) == parse(text)


def test_names_are_listed_once_and_in_order():
    assert names(parse("b + a.c * b - f(d, Math.PI)")) == ("b", "a.c", "d", "Math.PI")


LITERALS = st.one_of(
    st.decimals(min_value=0, max_value=10**20, places=6).map(abs),
    st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
    st.none(),
    st.booleans(),
).map(Literal)
NAMES = st.tuples(
    st.sampled_from(["a", "new", "é", "$x", "_1"]),
    st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=5), max_size=2),
).map(lambda parts: Name((parts[0], *parts[1])))


def nodes(inner):
    chains = st.sampled_from(LEVELS).flatmap(
        lambda level: st.builds(
            Chain,
            inner,
            st.lists(st.tuples(st.sampled_from(level), inner), min_size=1, max_size=3).map(tuple),
        )
    )
    calls = st.builds(
        FunctionCall, st.sampled_from(["f", "Math.max"]), st.lists(inner, max_size=3).map(tuple)
    )
    signed = st.builds(Signed, st.sampled_from("+-"), inner)
    return st.one_of(
        chains,
        calls,
        signed,
        st.builds(Power, inner, inner),
        st.builds(Choice, inner, inner, inner),
    )


TREES = st.recursive(LITERALS | NAMES, nodes, max_leaves=20)


@given(TREES)
def test_reading_what_was_written_gives_the_tree(tree):
    again = parse(write(tree))

    assert again == tree
    assert write(again) == write(tree)


@given(st.text(max_size=60) | st.text('()?:+-*/%^<>=!"\\.,aAND OR19eE\n', max_size=60))
def test_any_text_is_read_or_refused_within_its_length(text):
    try:
        tree = parse(text)
    except InvalidCalculation as refused:
        assert 1 <= refused.column <= len(text) + 1  # noqa: PT017  # both ways are right
    else:
        assert parse(write(tree)) == tree
