"""Laws of derived fields: columns and the evaluator give the same, whatever the numbers are."""

from datetime import datetime, timedelta
from decimal import Decimal

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from meterlake.model.calculation import CalculationError
from meterlake.model.calculation.tree import (
    Chain,
    Choice,
    FunctionCall,
    Literal,
    Name,
    Power,
    Signed,
)
from meterlake.model.measurements.measurement import Category, Field
from meterlake.stages.ingest.derive import AccountValues, Calculation, Inputs, calculate, row_by_row
from meterlake.stages.ingest.derive.columns import Columns
from meterlake.stages.ingest.derive.numbers import NUMBER

TEXTS = st.sampled_from(["", "eu", "EU-west", "ß", "Ünïcode", "a" * 300, "12.5"])
SMALL = st.decimals("-1000", "1000", places=2, allow_nan=False).map(lambda d: d + 0)
LARGE = st.decimals("-99999999999999999999999999", "99999999999999999999999999", places=12)
NUMBERS = st.one_of(st.integers(-5, 5).map(Decimal), SMALL, SMALL, LARGE)
INSTANTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31))
ACCOUNTS = ("a", "b", "c")

ROWS = st.lists(
    st.tuples(
        NUMBERS, NUMBERS, TEXTS, TEXTS, INSTANTS, st.none() | INSTANTS, st.sampled_from(ACCOUNTS)
    ),
    min_size=1,
    max_size=6,
)
SCHEMA = {
    "measure.n": NUMBER,
    "cost.m": NUMBER,
    "where.t": pl.String,
    "what.u": pl.String,
    "ts": pl.Datetime("us"),
    "ets": pl.Datetime("us"),
    "account_id": pl.String,
}
COLUMNS = {
    "n": "measure.n",
    "m": "cost.m",
    "t": "where.t",
    "u": "what.u",
    "ts": "ts",
    "ets": "ets",
}
CUSTOM = {
    "customFields.account.rate": AccountValues(Decimal("0.5"), {"b": Decimal("12.125")}),
    "customFields.account.odd": AccountValues(Decimal(1), {"c": "a text"}),
}
CONSTANTS = {"customFields.meter.factor": Decimal("3.25"), "customFields.organization.name": "Acme"}


def lookup(table, field, keys):
    """A table with two rows."""
    if table == "none":
        raise CalculationError("no such table")
    rows = {("eu",): Decimal("0.19"), ("",): None, (Decimal(2),): Decimal("1e-9")}
    found = rows.get(keys)
    return found if field == "rate" else None if found is None else f"rate {found}"


LITERALS = ["0", "1", "2", "8", "0.05", "3", "1000000", "0.000000000001"]
NUMBER_NAMES = [
    *("n", "m", "n", "customFields.account.rate", "customFields.account.odd"),
    *("customFields.meter.factor", "missing"),
]
TEXT_NAMES = ["t", "u", "customFields.organization.name"]
COMPARED = ["==", "!=", "<", ">", "<=", ">="]


class Trees:
    """Draws calculations that are of the right types, at most a few levels deep."""

    def __init__(self, draw):
        self.draw = draw

    def one_of(self, options):
        """One of some values."""
        return self.draw(st.sampled_from(options))

    def name(self, names):
        """One of some names."""
        return Name(tuple(self.one_of(names).split(".")))

    def call(self, functions, *arguments):
        """One of some functions."""
        return FunctionCall(self.one_of(functions), arguments)

    def chain(self, operators, part, depth):
        """Two or three parts of one kind."""
        rest = [(self.one_of(operators), part(depth)) for _ in range(self.one_of([1, 2]))]
        return Chain(part(depth), tuple(rest))

    def literal(self):
        """A number."""
        return Literal(Decimal(self.one_of(LITERALS)))

    def number(self, depth):
        """A calculation that gives a number."""
        if depth == 0:
            return self.one_of([self.literal, lambda: self.name(NUMBER_NAMES)])()
        less = depth - 1
        return self.one_of(
            [
                lambda: self.number(0),
                lambda: self.chain("+-", self.number, less),
                lambda: self.chain("+-*", self.number, less),
                lambda: self.chain("*/%", self.number, less),
                lambda: Chain(self.number(less), (("/", self.literal()),)),
                lambda: Signed(self.one_of("+-"), self.number(less)),
                lambda: Power(self.number(less), self.literal()),
                lambda: self.choice(self.number, less),
                lambda: self.call(
                    ["Math.max", "Math.min", "isnull"], self.number(less), self.number(less)
                ),
                lambda: self.call(
                    ["Math.floor", "Math.ceil", "Math.round"], self.number(less), self.scale()
                ),
                lambda: self.call(["Math.abs", "toNumber"], self.number(less)),
                lambda: self.call(["length", "toNumber"], self.text(less)),
                lambda: self.call(["year", "month", "day", "hour", "dayOfWeek"], self.instant()),
                lambda: self.call(["differenceInSeconds"], self.instant(), self.instant()),
                lambda: self.lookup("rate", less),
            ]
        )()

    def scale(self):
        """How many decimals; tens, if negative."""
        places = Literal(Decimal(self.one_of([0, 1, 2, 6, 13])))
        return self.one_of([places, Signed("-", places)])

    def text(self, depth):
        """A calculation that gives a text."""
        if depth == 0:
            return self.one_of([lambda: Literal(self.draw(TEXTS)), lambda: self.name(TEXT_NAMES)])()
        less = depth - 1
        return self.one_of(
            [
                lambda: self.text(0),
                lambda: self.chain("+", self.text, less),
                lambda: self.call(["concat", "isnull"], self.text(less), self.text(less)),
                lambda: self.call(["upper", "lower"], self.text(less)),
                lambda: self.call(["substring"], self.text(less), self.literal()),
                lambda: self.call(["toText"], self.number(less)),
                lambda: self.choice(self.text, less),
                lambda: self.lookup("text", less),
            ]
        )()

    def instant(self):
        """A calculation that gives an instant."""
        name = self.name(["ts", "ets"])
        return self.one_of(
            [name, FunctionCall("truncateToDay", (name,)), FunctionCall("truncateToHour", (name,))]
        )

    def lookup(self, field, depth):
        """A value of a lookup table."""
        key = self.one_of([self.text, self.number])(depth)
        table = self.one_of(["rates", "rates", "rates", "none"])
        return FunctionCall("lookup", (Literal(table), Literal(field), key))

    def choice(self, part, depth):
        """One of two parts."""
        null = self.one_of([False, False, False, True])
        return Choice(self.condition(depth), part(depth), Literal(None) if null else part(depth))

    def condition(self, depth):
        """A calculation that gives a condition."""
        return self.one_of(
            [
                lambda: Literal(self.one_of([True, False])),
                lambda: self.compared(self.number, depth),
                lambda: self.compared(self.text, depth),
                lambda: self.compared(lambda _: self.instant(), depth),
                lambda: Chain(self.number(depth), ((self.one_of(["==", "!="]), Literal(None)),)),
                lambda: Chain(Literal(None), (("==", self.instant()),)),
                lambda: self.call(["IN"], *(self.text(depth) for _ in range(3))),
                lambda: self.call(["IN"], self.number(depth), self.number(depth)),
                *([lambda: self.chain(["AND"], self.condition, 0)] if depth else []),
                *([lambda: self.chain(["OR"], self.condition, 0)] if depth else []),
            ]
        )()

    def compared(self, part, depth):
        """Two parts of one kind, compared."""
        return Chain(part(depth), ((self.one_of(COMPARED), part(depth)),))


@st.composite
def numbers(draw):
    """A calculation that gives a number."""
    return Trees(draw).number(3)


@st.composite
def texts(draw):
    """A calculation that gives a text."""
    return Trees(draw).text(3)


@st.composite
def conditions(draw):
    """A calculation that gives a condition."""
    return Trees(draw).condition(2)


def inputs(rows):
    """A block of measurements."""
    frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return Inputs(frame, COLUMNS, CUSTOM, CONSTANTS, lookup)


def check(tree, field, rows):
    """Both ways give the same values, and miss them for the same reasons."""
    block, calculation = inputs(rows), Calculation(field, tree)
    one_by_one, columns = row_by_row(calculation, block), calculate(calculation, block)
    assert columns.values.dtype == one_by_one.values.dtype
    assert columns.values.to_list() == one_by_one.values.to_list()
    assert columns.errors == one_by_one.errors


@settings(max_examples=60, deadline=timedelta(seconds=20))
@given(numbers(), ROWS)
def test_numbers_are_the_same_in_columns_and_row_by_row(tree, rows):
    check(tree, Field(Category.MEASURE, "x"), rows)


@settings(max_examples=50, deadline=timedelta(seconds=20))
@given(texts(), ROWS)
def test_texts_are_the_same_in_columns_and_row_by_row(tree, rows):
    check(tree, Field(Category.METADATA, "x"), rows)


@settings(max_examples=60, deadline=timedelta(seconds=20))
@given(conditions(), ROWS)
def test_conditions_are_the_same_in_columns_and_row_by_row(tree, rows):
    one, other = Literal(Decimal(1)), Literal(Decimal(2))
    check(Choice(tree, one, other), Field(Category.MEASURE, "x"), rows)


@settings(max_examples=60, deadline=timedelta(seconds=20))
@given(numbers(), ROWS)
def test_columns_shared_by_several_calculations_are_the_same(tree, rows):
    block = inputs(rows)
    columns = Columns(block)
    for _ in range(2):
        calculation = Calculation(Field(Category.COST, "x"), tree)
        found = calculate(calculation, block, columns)
        assert found.values.to_list() == row_by_row(calculation, block).values.to_list()


DIVISORS = st.one_of(
    NUMBERS,
    st.integers(-64, 64).map(Decimal),
    st.integers(1, 10**15).map(lambda n: Decimal(n).scaleb(-12)),
)
FRACTIONS = st.integers(-(10**16), 10**16).map(lambda n: Decimal(n).scaleb(-12))


@st.composite
def quotients(draw):
    """A calculation that ends with a division, perhaps only on one side of a choice."""
    trees = Trees(draw)
    first = trees.one_of([Name(("n",)), Name(("n",)), trees.number(1)])
    second = trees.one_of([Name(("m",)), Name(("m",)), trees.number(1)])
    quotient = Chain(first, (("/", second),))
    other = Choice(Chain(Name(("m",)), (("==", Literal(Decimal(0))),)), trees.number(0), quotient)
    return trees.one_of([quotient, quotient, other])


@settings(max_examples=60, deadline=timedelta(seconds=20))
@given(quotients(), st.lists(st.tuples(FRACTIONS | NUMBERS, DIVISORS), min_size=1, max_size=8))
def test_quotients_are_the_same_in_columns_and_row_by_row(tree, pairs):
    instant = datetime(2026, 9, 3)
    rows = [(top, bottom, "eu", "us", instant, None, "a") for top, bottom in pairs]
    check(tree, Field(Category.MEASURE, "x"), rows)
