"""How a calculation is computed: the definition, by which every faster way is judged.

Numbers are Decimal and `+ - *` are exact. What the public contract leaves open is decided here:

* **Null** goes through: an operator, a sign or a function with a null operand gives null, even
  `null / 0`. A name without a value is null.
* `==`, `!=` and `IN` compare null like any value: `x == null` asks whether there is one.
* `AND` and `OR` give null only where the other side does not decide: `false AND null` is false,
  `true OR null` is true. They stop at the side that decides.
* `? :` takes the second branch unless its condition is true, so also if it is null. Only the
  chosen branch is computed; `isnull` computes its fallback only if it is needed.
* `lookup` with a null key finds no row, and no row is null.
* Texts are compared by code point, instants by time; `%` has the sign of its dividend.
* A value of another type than its name was declared with is an error of the row.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal, DecimalException
from operator import add, ge, gt, le, lt, mul, sub
from typing import Any, Final, TypeAlias

from meterlake.model.calculation.functions import (
    FUNCTIONS,
    SPECIAL,
    power,
    quotient,
    remainder,
    short,
    strip_zeros,
)
from meterlake.model.calculation.mistakes import CalculationError
from meterlake.model.calculation.tree import (
    Chain,
    Choice,
    FunctionCall,
    Literal,
    Name,
    Node,
    Power,
    Signed,
)
from meterlake.model.calculation.types import CONSTANTS, Type, Value, type_of
from meterlake.model.values.money import exact

# Finds the value of a field in a lookup table: code of the table, field, keys; None without a row.
Lookup: TypeAlias = Callable[[str, str, tuple[Value, ...]], Value]

_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": quotient,
    "%": remainder,
}
_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {"<": lt, ">": gt, "<=": le, ">=": ge}
_NUMBERS: Final = frozenset({Type.NUMBER})
_BOOLEANS: Final = frozenset({Type.BOOLEAN})
_ADDABLE: Final = frozenset({Type.NUMBER, Type.TEXT})
_ORDERED: Final = frozenset({Type.NUMBER, Type.TEXT, Type.INSTANT})


def no_tables(table: str, field: str, keys: tuple[Value, ...]) -> Value:
    """Look up where there are no tables: no row, so null."""
    del table, field, keys
    return None


def evaluate(node: Node, values: Mapping[str, Value], lookup: Lookup = no_tables) -> Value:
    """Compute a calculation.

    Args:
        node: The calculation.
        values: The values of its names; an absent one is null, a naive instant is UTC.
        lookup: Finds the values of lookup tables.

    Returns:
        A Decimal, text, bool, aware instant or None. A number may have more digits than the lake
        holds: `money.to_lake` rounds it.

    Raises:
        CalculationError: There is no value; nothing else is raised, unless by `lookup`.
    """
    try:
        with exact():
            return _Evaluation(values, lookup).value(node)
    except DecimalException:
        raise CalculationError("a number with too many digits") from None
    except OverflowError:
        raise CalculationError("an instant outside the years 1 to 9999") from None


class _Evaluation:
    """One computation: what the names stand for."""

    def __init__(self, values: Mapping[str, Value], lookup: Lookup) -> None:
        self.values = values
        self.lookup = lookup

    def value(self, node: Node) -> Value:  # noqa: PLR0911  # one for each kind of node
        match node:
            case Literal():
                return node.value
            case Name():
                return _convert(CONSTANTS.get(node.key, self.values.get(node.key)))
            case Signed():
                return self._apply_sign(node)
            case Power():
                return self._power(node)
            case Chain():
                return self._chain(node)
            case Choice():
                condition = _of(self.value(node.condition), _BOOLEANS, "?")
                return self.value(node.chosen if condition is True else node.otherwise)
            case FunctionCall():
                return self._call(node)

    def _apply_sign(self, node: Signed) -> Value:
        number: Decimal | None = _of(self.value(node.operand), _NUMBERS, node.sign)
        if number is None or node.sign == "+":
            return number
        return strip_zeros(-number)

    def _power(self, node: Power) -> Value:
        base = _of(self.value(node.base), _NUMBERS, "^")
        exponent = _of(self.value(node.exponent), _NUMBERS, "^")
        return None if base is None or exponent is None else power(base, exponent)

    def _chain(self, node: Chain) -> Value:
        result = self.value(node.first)
        for operator, operand in node.rest:
            if operator in {"AND", "OR"}:
                result = self._logic(operator, result, operand)
            else:
                result = _binary(operator, result, self.value(operand))
        return result

    def _logic(self, operator: str, left: Value, operand: Node) -> Value:
        deciding = operator == "OR"
        _of(left, _BOOLEANS, operator)
        if left is deciding:
            return deciding
        right = self.value(operand)
        _of(right, _BOOLEANS, operator)
        if right is deciding:
            return deciding
        return None if left is None or right is None else not deciding

    def _call(self, node: FunctionCall) -> Value:
        _check_count(node.function, len(node.arguments))
        if node.function == "isnull":
            value = self.value(node.arguments[0])
            return self.value(node.arguments[1]) if value is None else value
        arguments = tuple(self.value(argument) for argument in node.arguments)
        if node.function == "IN":
            return any(_equal(arguments[0], other) for other in arguments[1:])
        if node.function == "lookup":
            table, field, *keys = arguments
            if not isinstance(table, str) or not isinstance(field, str):
                raise CalculationError("lookup names its table and field as texts")
            if any(key is None for key in keys):
                return None
            return _convert(self.lookup(table, field, tuple(keys)))
        function = FUNCTIONS[node.function]
        for index, argument in enumerate(arguments):
            _of(argument, function.types_at(index), node.function)
        if any(argument is None for argument in arguments):
            return None
        return _limit(function.compute(*arguments))


def _convert(value: Value) -> Value:
    """A value from outside in the form that the language computes with."""
    type_of(value)
    if isinstance(value, Decimal):
        return strip_zeros(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    return short(value) if isinstance(value, str) else value


def _of(value: Value, expected: frozenset[Type], what: str) -> Any:
    """A value of one of the wanted types, or null."""
    if value is not None and type_of(value) not in expected:
        shown = " or ".join(sorted(expected))
        raise CalculationError(f"{what} needs {shown}, not {type_of(value)}")
    return value


def _equal(left: Value, right: Value) -> bool:
    if left is None or right is None:
        return left is right
    if type_of(left) != type_of(right):
        raise CalculationError(f"{type_of(left)} and {type_of(right)} cannot be compared")
    return left == right


def _binary(operator: str, left: Value, right: Value) -> Value:
    if operator in {"==", "!="}:
        return _equal(left, right) == (operator == "==")
    expected = _ORDERED if operator in _ORDER else _ADDABLE if operator == "+" else _NUMBERS
    first, second = _of(left, expected, operator), _of(right, expected, operator)
    if first is None or second is None:
        return None
    if type_of(first) != type_of(second):
        raise CalculationError(f"{operator} needs operands of one type")
    if operator in _ORDER:
        return _ORDER[operator](first, second)
    return _limit(_ARITHMETIC[operator](first, second))


def _limit(value: Value) -> Value:
    if isinstance(value, Decimal):
        return strip_zeros(value)
    return short(value) if isinstance(value, str) else value


def _check_count(name: str, given: int) -> None:
    """Refuse what `check` would have refused, in a tree that was not checked."""
    function = FUNCTIONS.get(name)
    if function is None and name not in SPECIAL:
        raise CalculationError(f"there is no function {name[:80]}")
    least, most = (function.least, function.most) if function else SPECIAL[name]
    if given < least or (most is not None and given > most):
        raise CalculationError(f"{name} takes another number of arguments than {given}")
