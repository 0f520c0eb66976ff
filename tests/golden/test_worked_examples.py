"""The worked examples of docs/billing.md are bills that are calculated, and their arithmetic is right."""

import ast
import operator
import re
from collections import defaultdict
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import pytest

from meterlake.model.bills.bill import Bill, LineItemType
from tests.golden.test_bills import GROUPS, built, made, read

# As the page writes what is below zero.
MINUS = "\N{MINUS SIGN}"
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "billing.md").read_text()
EXAMPLES = re.findall(
    r"^<!-- (tests/golden/bills/\w+\.toml) -->\n\n((?:\|.*\n)+)", PAGE, re.MULTILINE
)
EACH = pytest.mark.parametrize(
    ("path", "table"), EXAMPLES, ids=[Path(path).stem for path, _ in EXAMPLES]
)
OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class Row(NamedTuple):
    """A row of a table: a line of a bill, or its total."""

    bill: str
    line: str
    calculation: str
    amount: str


def rows(table):
    """The rows of a table; a bill is named in its first one."""
    bill = ""
    for text in table.splitlines()[2:]:
        name, line, calculation, amount = (cell.strip() for cell in text[1:-1].split("|"))
        bill = name or bill
        yield Row(bill, line.strip("`"), calculation, amount.replace(MINUS, "-"))


def calculated(path):
    """The same of the bills that are calculated."""
    case = read(ROOT / path)
    for bill in made(built(case), case):
        assert isinstance(bill, Bill), bill
        group = ", contract" if GROUPS.get(bill.grouping_key) else ""
        name = f"{bill.bill_date.day} {bill.bill_date:%B}{group}"
        yield from (
            (name, line.type.value, f"{line.converted_subtotal:.2f}") for line in bill.lines
        )
        yield name, "total", f"{bill.total:.2f}"


def value_of(calculation):
    """What a calculation comes to: `October: 3 seats × 10 × 10 of 30 days` is 10."""
    text = calculation.rpartition(":")[2].partition(",")[0]
    for word, sign in (("×", "*"), (MINUS, "-"), (" of ", "/")):
        text = text.replace(word, sign)
    value = evaluate(ast.parse(re.sub("[A-Za-z]", "", text).strip(), mode="eval").body)
    exact = Decimal(value.numerator) / value.denominator
    return str(exact.quantize(Decimal("0.01"), ROUND_HALF_UP))


def evaluate(node):
    match node:
        case ast.BinOp(left, sign, right):
            return OPERATORS[type(sign)](evaluate(left), evaluate(right))
        case ast.UnaryOp(ast.USub(), operand):
            return -evaluate(operand)
        case ast.Constant(value):
            return Fraction(str(value))
    raise SyntaxError(ast.dump(node))


def test_there_is_an_example_for_each_file():
    files = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("tests/golden/bills/worked_*")}
    assert {path for path, _ in EXAMPLES} == files
    assert len(EXAMPLES) == len(files) >= 7


@EACH
def test_an_example_shows_the_bills_that_are_calculated(path, table):
    assert [(row.bill, row.line, row.amount) for row in rows(table)] == list(calculated(path))


@EACH
def test_the_arithmetic_of_an_example_is_right(path, table):
    sums = defaultdict(Decimal)
    for row in rows(table):
        if row.line == "total":
            assert sums.pop(row.bill) == Decimal(row.amount), (path, row)
        else:
            assert value_of(row.calculation) == row.amount, (path, row)
            sums[row.bill] += Decimal(row.amount)
    assert not sums


def test_the_order_of_calculation_names_every_type_of_line():
    text = PAGE.split("\n## The order of calculation\n")[1]
    rows = takewhile(lambda row: row.startswith("|"), text[text.index("\n|") + 1 :].splitlines())
    types = [name for row in list(rows)[2:] for name in re.findall(r"`(\w+)`", row.split("|")[2])]

    assert types == [each for each in LineItemType if each is not LineItemType.CREDIT_DEDUCTION]
    assert "`CREDIT_DEDUCTION`" in text
