"""Trees of explained bills, checked in plain numbers: every node follows from those below it.

Nothing of the engine is used: the trees are read as the JSON that programs get.
"""

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any

from meterlake.cli.billing.explanation_tree import draw_tree
from meterlake.model.bills.bill import Bill
from meterlake.model.bills.billed_usage import BilledUsage
from meterlake.model.bills.explanation import ExplainedNumber
from meterlake.model.bills.ledger import Movement
from meterlake.model.values import wire
from meterlake.stages.bill import AccountLedger, BillIdentity, BillingTerms, BillMaker, Provenance
from meterlake.stages.bill.explain.bill import explain_total
from meterlake.stages.bill.explain.context import ExplainedBill
from meterlake.stages.report.explained_text import ASCII, NumberText

Node = dict[str, Any]


def _away(number: Fraction, half: Fraction) -> int:
    return math.floor(number + half) if number >= 0 else math.ceil(number - half)


def _half_down(number: Fraction) -> int:
    found = math.ceil(abs(number) - Fraction(1, 2))
    return found if number >= 0 else -found


MODES = {
    "UP": lambda n: math.ceil(n) if n > 0 else math.floor(n),
    "DOWN": math.trunc,
    "CEILING": math.ceil,
    "FLOOR": math.floor,
    "HALF_CEILING": lambda n: math.floor(n + Fraction(1, 2)),
    "HALF_UP": lambda n: _away(n, Fraction(1, 2)),
    "HALF_DOWN": _half_down,
    "HALF_EVEN": round,
    "UNNECESSARY": math.trunc,
}


def walk(node: Node) -> Iterator[Node]:
    """A node with all below and beside it."""
    yield node
    for each in (*node.get("children", ()), *node.get("beside", ())):
        yield from walk(each)


def exact(node: Node) -> Fraction:
    """The number of a node, with all its digits."""
    return Fraction(node["exact"]) if "exact" in node else Fraction(node["value"])


def check_tree(tree: Node) -> int:
    """Check each node, and answer how many there are."""
    keys: dict[str, Node] = {}
    nodes = list(walk(tree))
    for node in nodes:
        if "key" in node:
            assert keys.setdefault(node["key"], node) is node, f"twice: {node['key']}"
    for node in nodes:
        _check(node, keys)
    return len(nodes)


def _check(node: Node, keys: dict[str, Node]) -> None:
    assert "unexplained" not in node.get("facts", {}), node
    if node["value"] is None:
        assert node["rule"] == "given", node
        return
    shown = Context(prec=20, rounding=ROUND_HALF_EVEN)
    if "exact" in node:
        number = exact(node)
        cut = shown.divide(Decimal(number.numerator), Decimal(number.denominator))
        assert Decimal(node["value"]) == cut, node
    options, children = node.get("options", {}), node.get("children", [])
    if node["rule"] in {"given", "measured"}:
        assert not children, node
    elif node["rule"] in OF_CHILDREN:
        assert children or node["rule"] == "sum", node
        found = OF_CHILDREN[node["rule"]]([exact(each) for each in children], options)
        assert exact(node) == found, (node, found)
    elif node["rule"] == "same":
        assert not children, node
        assert exact(node) == exact(keys[options["of"]]), (node, keys[options["of"]])
    elif node["rule"] == "slice":
        whole = exact(keys[options["of"]])
        upper = min(whole, Fraction(options["upper"])) if "upper" in options else whole
        assert exact(node) == upper - Fraction(options["lower"]), node
    elif node["rule"] == "inverse":
        _check_inverse(node, exact(children[0]))
    else:
        assert node["rule"] == "calculation", node
        _check_calculation(node)


def _quotient(numbers: list[Fraction], options: dict[str, Any]) -> Fraction:
    found = numbers[0] / numbers[1]
    if "digits" in options:
        context = Context(prec=int(options["digits"]), rounding=ROUND_HALF_EVEN)
        whole = Context(prec=200).divide(Decimal(found.numerator), Decimal(found.denominator))
        if Fraction(whole) != found:
            found = Fraction(context.divide(Decimal(found.numerator), Decimal(found.denominator)))
    return found


def _rounded(numbers: list[Fraction], options: dict[str, Any]) -> Fraction:
    scale = 10 ** int(options["places"])
    return Fraction(MODES[options["mode"]](numbers[0] * scale), scale)


OF_CHILDREN = {
    "sum": lambda numbers, _: sum(numbers, Fraction(0)),
    "bands": lambda numbers, _: sum(numbers[1:], Fraction(0)),
    "difference": lambda numbers, _: numbers[0] - sum(numbers[1:], Fraction(0)),
    "product": lambda numbers, _: math.prod(numbers, start=Fraction(1)),
    "quotient": _quotient,
    "negative": lambda numbers, _: -numbers[0],
    "minimum": lambda numbers, _: min(numbers),
    "maximum": lambda numbers, _: max(numbers),
    "round": _rounded,
}


def _check_inverse(node: Node, covered: Fraction) -> None:
    """Bands charge what is covered for the units: to the last place, and not in a fixed price."""
    options, units = node["options"], exact(node)
    rate, step = Fraction(options["rate"]), Fraction(1, 10 ** int(options["places"]))
    below = price(options["bands"], max(units - step, Fraction(0))) * rate
    above = price(options["bands"], min(units + step, Fraction(options["units"]))) * rate
    assert below <= covered, node
    assert above >= covered or units == Fraction(options["units"]), node


def price(bands: list[dict[str, str]], units: Fraction) -> Fraction:
    """What tiered bands charge."""
    total = Fraction(0)
    for number, band in enumerate(bands):
        lower = Fraction(band["lowerLimit"])
        if units <= lower:
            break
        upper = Fraction(bands[number + 1]["lowerLimit"]) if number + 1 < len(bands) else units
        part = min(units, upper) - lower
        total += part * Fraction(band["unitPrice"]) + Fraction(band["fixedPrice"])
    return total


def _check_calculation(node: Node) -> None:
    """A formula of numbers and + - * / is calculated; a quotient has 20 digits."""
    formula = node["options"]["formula"]
    for child in sorted(node.get("children", []), key=lambda each: -len(each["name"])):
        if child["value"] is not None:
            number = exact(child)
            text = f"Fraction({number.numerator}, {number.denominator})"
            formula = formula.replace(child["name"], text)
    if re.fullmatch(r"(Fraction\(-?\d+, \d+\)|[-+*/() .\d])+", formula):
        numbers = re.sub(r"(?<![\w(.])(\d+(\.\d+)?)(?![\w.,)])", r"Fraction('\1')", formula)
        found = eval(numbers, {"Fraction": Fraction})
        assert abs(exact(node) - found) <= abs(found) / 10**15, (node, found)


def explained(
    terms: BillingTerms,
    usage: BilledUsage,
    movements: dict[str, list[Movement]],
    billed: Collection[BillIdentity] = (),
) -> Iterator[tuple[Bill, ExplainedNumber]]:
    """The bills of a run with their trees."""
    maker = BillMaker(terms, usage, Provenance(1, "1.0"), billed)
    for account_terms in maker.accounts:
        maker.drafts = {}
        made = list(maker.make(account_terms, AccountLedger(movements)))
        for bill in made:
            if isinstance(bill, Bill):
                drafted = maker.drafts[BillIdentity.of_bill(bill)]
                yield bill, explain_total(ExplainedBill(drafted))


def as_node(root: ExplainedNumber) -> Node:
    """A tree as programs read it."""
    found: Node = json.loads(wire.dumps(root.to_wire()))
    return found


def check_bill(bill: Bill, root: ExplainedNumber) -> int:
    """The tree adds up, and its numbers are those of the bill; how many they are."""
    tree = as_node(root)
    count = check_tree(tree)
    assert Decimal(tree["value"]) == bill.total
    assert [(each["facts"]["lineKey"], Decimal(each["value"])) for each in lines_of(tree)] == [
        (line.key, line.converted_subtotal) for line in bill.lines
    ]
    return count


def drawn_trees(found: Iterable[tuple[Bill, ExplainedNumber]]) -> str:
    """Bills as a terminal without other signs shows them."""
    texts = []
    for bill, root in found:
        text = NumberText(bill.currency, signs=ASCII)
        head = f"{bill.account_code} {bill.bill_date} {bill.grouping_key}".rstrip()
        texts.append("\n".join([head, *draw_tree(root, text, width=160)]))
    return "\n\n".join(texts) + "\n"


def lines_of(tree: Node) -> Iterable[Node]:
    """The lines of a bill's tree."""
    return tree.get("children", [])
