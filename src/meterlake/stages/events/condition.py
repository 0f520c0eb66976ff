"""The calculation of a notification: whether it is true of an event.

The language is that of all calculations (`model/calculation`). Beside an event it decides rather
than computes, so some things differ:

* `x == null` and `x != null`, with `null` written there, ask whether there is a value. Any other
  comparison with a null is false, also `!=`.
* `AND` and `OR` know true and false only; null counts as false.
* `IN(x, a, b)` is `x == a OR x == b`.
* Two texts that are both dates of ISO 8601 are compared as instants; a date alone is its midnight
  in UTC. Other texts are equal or not; none is before the other, so `<` is false.
  `toInstant` takes such a date, too.
* Maps and lists are compared with `null` only.

A tree becomes a function once, and is then called for every event. The caller is within
`money.exact()`, once for many calculations.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, DecimalException, Inexact
from functools import lru_cache
from operator import add, eq, ge, gt, itemgetter, le, lt, mul, ne, sub
from typing import Any, Final

from meterlake.model.calculation import CalculationError, Node, Type
from meterlake.model.calculation.functions import (
    FUNCTIONS,
    SPECIAL,
    Function,
    power,
    quotient,
    remainder,
    short,
    strip_zeros,
)
from meterlake.model.calculation.tree import (
    Chain,
    Choice,
    FunctionCall,
    Literal,
    Name,
    Power,
    Signed,
)
from meterlake.model.calculation.types import CONSTANTS, type_of
from meterlake.model.values.money import EXACT, ONE
from meterlake.model.values.period import parse_instant

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_SIDES: Final = {"new": "newDto", "old": "oldDto"}
_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    ">": gt,
    "<=": le,
    ">=": ge,
}
_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": quotient,
    "%": remainder,
}
_NUMBERS: Final = frozenset({Type.NUMBER})


class _Container:
    """What stands for a map or a list: something that is there."""


_CONTAINER: Final = _Container()


class EventValues(dict[str, Any]):
    """The values of `new.x` and `old.x` of an event, each converted when it is first asked for."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        """Take the data of an event, `newDto` and `oldDto`."""
        super().__init__(CONSTANTS)
        self._data = data

    def __missing__(self, key: str) -> Any:
        side, _, field = key.partition(".")
        document = self._data.get(_SIDES.get(side, ""))
        found = document.get(field) if isinstance(document, Mapping) else None
        value = self[key] = _convert(found)
        return value


def _convert(value: Any) -> Any:
    match value:
        case None | bool() | str() | datetime():
            return value
        case int() | Decimal():
            return strip_zeros(Decimal(value))
        case _:
            return _CONTAINER


# Computes a calculation, or a part of one, for an event.
Condition = Callable[[EventValues], Any]


def holds(condition: Condition, values: EventValues) -> bool:
    """Whether a condition is true of an event.

    Args:
        condition: What `compile_condition` made; the caller is within `money.exact()`.
        values: Those of the event.

    Raises:
        CalculationError: There is no answer: a division by zero, a text that is no number.
    """
    try:
        return condition(values) is True
    except DecimalException:
        raise CalculationError("a number with too many digits") from None
    except OverflowError:
        raise CalculationError("an instant outside the years 1 to 9999") from None


def compile_condition(node: Node) -> Condition:  # noqa: PLR0911  # one for each kind of node
    """Make a function of a calculation that was checked.

    Raises:
        CalculationError: It calls a function that there is not.
    """
    match node:
        case Literal(value=value):
            return lambda _: value
        case Name():
            return _getter(node.key)
        case Signed():
            return _compile_sign(node)
        case Power():
            return _arithmetic(
                "^", power, compile_condition(node.base), compile_condition(node.exponent)
            )
        case Chain():
            return _compile_chain(node)
        case Choice():
            condition = compile_condition(node.condition)
            chosen, otherwise = compile_condition(node.chosen), compile_condition(node.otherwise)
            return lambda values: (chosen if condition(values) is True else otherwise)(values)
        case FunctionCall():
            return _compile_call(node)


@lru_cache(maxsize=4096)
def _getter(key: str) -> Condition:
    # One for all calculations: what many have in common stays in the processor's cache.
    return itemgetter(key)


def _compile_sign(node: Signed) -> Condition:
    operand = compile_condition(node.operand)
    if node.sign == "+":
        return lambda values: _need(operand(values), _NUMBERS, "+")

    def negate(values: EventValues) -> Any:
        number = _need(operand(values), _NUMBERS, "-")
        return None if number is None else strip_zeros(-number)

    return negate


def _compile_chain(node: Chain) -> Condition:
    operators = {operator for operator, _ in node.rest}
    if operators <= {"AND", "OR"}:
        operands = [node.first, *(operand for _, operand in node.rest)]
        return _compile_logic(node.rest[0][0], [compile_condition(each) for each in operands])
    base, factor = _factor(node)
    if base is not node:
        return _with_constant("*", compile_condition(base), factor)
    left_node, compute = node.first, compile_condition(node.first)
    for operator, operand in node.rest:
        compute = _compile_binary(operator, compute, left_node, operand)
        left_node = node  # Whatever came before is no literal any more.
    return compute


def _compile_logic(operator: str, operands: Sequence[Condition]) -> Condition:
    deciding: bool = operator == "OR"

    def decide(values: EventValues) -> bool:
        for operand in operands:
            found: object = operand(values)
            if found is deciding:
                return deciding
            if found is not None and not isinstance(found, bool):
                raise CalculationError(f"{operator} needs boolean, not {_name(found)}")
            if found is None and not deciding:
                return False
        return not deciding

    return decide


def _compile_binary(operator: str, left: Condition, left_node: Node, right_node: Node) -> Condition:
    right = compile_condition(right_node)
    if operator not in _COMPARED:
        if isinstance(right_node, Literal) and type(right_node.value) is Decimal:
            return _with_constant(operator, left, right_node.value)
        return _arithmetic(operator, _ARITHMETIC[operator], left, right)
    if operator in {"==", "!="}:
        absent = operator == "=="
        if _is_null(right_node):
            return lambda values: (left(values) is None) is absent
        if _is_null(left_node):
            return lambda values: (right(values) is None) is absent
    if any(_is_plain_text(each) for each in (left_node, right_node)):
        return _text_comparison(operator, left, right)
    return _comparison(operator, left, right)


def _is_plain_text(node: Node) -> bool:
    return isinstance(node, Literal) and isinstance(node.value, str) and _moment(node.value) is None


def _is_null(node: Node) -> bool:
    return isinstance(node, Literal) and node.value is None


def _comparison(operator: str, left: Condition, right: Condition) -> Condition:
    compare = _COMPARED[operator]

    def decide(values: EventValues) -> bool:
        first, second = left(values), right(values)
        if first is None or second is None:
            return False
        if type(first) is Decimal and type(second) is Decimal:
            return compare(first, second)
        return _compare_others(operator, first, second)

    return decide


def _text_comparison(operator: str, left: Condition, right: Condition) -> Condition:
    """Compare with a text that is no date: it is the other one, or not."""
    ordered, equal = operator not in {"==", "!="}, operator == "=="

    def decide(values: EventValues) -> bool:
        first, second = left(values), right(values)
        if first is None or second is None:
            return False
        if type(first) is not str or type(second) is not str:
            return _compare_others(operator, first, second)
        return not ordered and bool(first == second) is equal

    return decide


def _compare_others(operator: str, first: Any, second: Any) -> bool:
    kinds = {_name(first), _name(second)}
    if len(kinds) > 1 or isinstance(first, _Container):
        raise CalculationError(f"{' and '.join(sorted(kinds))} cannot be compared by {operator}")
    if isinstance(first, str):
        one, other = _moment(first), _moment(second)
        if one is not None and other is not None:
            return _COMPARED[operator](one, other)
        return operator in {"==", "!="} and _COMPARED[operator](first, second)
    if isinstance(first, bool) and operator not in {"==", "!="}:
        raise CalculationError(f"{operator} does not compare boolean")
    return _COMPARED[operator](first, second)


@lru_cache(maxsize=4096)
def _moment(text: str) -> datetime | None:
    """The instant that a text writes down in ISO 8601; None if it is none."""
    return parse_instant(f"{text}T00:00:00" if _DATE.fullmatch(text) else text)


def _to_instant(value: Any) -> datetime:
    instant = _moment(value) if isinstance(value, str) else value
    if instant is None:
        raise CalculationError(f"{value!r:.80} is no instant")
    return instant


_FUNCTIONS: Final[Mapping[str, Function]] = {
    **FUNCTIONS,
    "toInstant": replace(FUNCTIONS["toInstant"], compute=_to_instant),
}


def _arithmetic(
    operator: str, compute: Callable[[Any, Any], Any], left: Condition, right: Condition
) -> Condition:
    def calculate(values: EventValues) -> Any:
        first, second = left(values), right(values)
        if type(first) is Decimal and type(second) is Decimal:
            return compute(first, second)
        if first is None or second is None:
            return None
        if operator == "+" and isinstance(first, str) and isinstance(second, str):
            return short(first + second)
        raise CalculationError(f"{operator} does not take {_name(first)} and {_name(second)}")

    return calculate


def _with_constant(operator: str, left: Condition, constant: Decimal) -> Condition:
    """The same with a number that stands there: a third of the time."""
    compute, second = _ARITHMETIC[operator], constant
    reciprocal = _reciprocal(constant) if operator == "/" else None
    if reciprocal is not None:
        compute, second = mul, reciprocal

    def calculate(values: EventValues) -> Any:
        first = left(values)
        if type(first) is Decimal:
            return compute(first, second)
        if first is None:
            return None
        raise CalculationError(f"{operator} does not take {_name(first)} and number")

    return calculate


def _factor(node: Node) -> tuple[Node, Decimal]:
    """What `(x * 90) / 100` multiplies with what: `x` with 0.9, where that is exactly the same."""
    if not isinstance(node, Chain):
        return node, ONE
    base, factor = _factor(node.first)
    for operator, operand in node.rest:
        value = operand.value if isinstance(operand, Literal) else None
        number = value if isinstance(value, Decimal) and operator in {"*", "/"} else None
        if number is not None and operator == "/":
            number = _reciprocal(number)
        if number is None:
            return node, ONE
        try:
            factor = EXACT.multiply(factor, number)
        except Inexact:
            return node, ONE
    return base, factor


def _reciprocal(number: Decimal) -> Decimal | None:
    """What to multiply with instead of dividing, where that gives the same; or None."""
    if not number:
        return None
    try:
        return EXACT.divide(ONE, number)
    except Inexact:
        return None


def _compile_call(node: FunctionCall) -> Condition:
    if node.function not in FUNCTIONS and node.function not in SPECIAL:
        raise CalculationError(f"there is no function {node.function[:80]}")
    arguments = [compile_condition(each) for each in node.arguments]
    if node.function == "isnull":
        return _compile_isnull(*arguments)
    if node.function == "IN":
        first, rest = node.arguments[0], node.arguments[1:]
        any_of = [_compile_binary("==", arguments[0], first, each) for each in rest]
        return _compile_logic("OR", any_of)
    if node.function == "lookup":
        raise CalculationError("notifications read no lookup tables")
    function = _FUNCTIONS[node.function]
    types = [function.types_at(index) for index in range(len(arguments))]

    def call(values: EventValues) -> Any:
        given = [each(values) for each in arguments]
        for value, expected in zip(given, types, strict=True):
            _need(value, expected, node.function)
        if None in given:
            return None
        found = function.compute(*given)
        return short(found) if isinstance(found, str) else found

    return call


def _compile_isnull(value: Condition, fallback: Condition) -> Condition:
    def choose(values: EventValues) -> Any:
        found = value(values)
        return fallback(values) if found is None else found

    return choose


def _need(value: Any, expected: frozenset[Type], what: str) -> Any:
    if value is not None and _name(value) not in expected:
        raise CalculationError(f"{what} needs {' or '.join(sorted(expected))}, not {_name(value)}")
    return value


def _name(value: Any) -> str:
    return "a map or a list" if isinstance(value, _Container) else type_of(value)
