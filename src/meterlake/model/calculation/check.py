"""What can be known to be wrong before a calculation is computed: its names and its types."""

from collections.abc import Iterable
from decimal import Decimal

from meterlake.model.calculation.functions import FUNCTIONS, SPECIAL
from meterlake.model.calculation.mistakes import InvalidCalculation, nearest
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
from meterlake.model.calculation.types import (
    CONSTANTS,
    CalculationScope,
    Type,
    type_of,
)
from meterlake.model.values.money import parse_number, plain


def check(node: Node, scope: CalculationScope, expected: Type | None = None) -> Type:
    """Find unknown names and operands of the wrong type.

    Args:
        node: The calculation.
        scope: What it may name.
        expected: What its result must be; None if anything will do.

    Returns:
        The type of its result; NULL if it can only be null.

    Raises:
        InvalidCalculation: The first mistake from the left.
    """
    found = _type(node, scope)
    if expected is not None:
        _need(node, found, {expected}, "the result")
    return found


def _type(node: Node, scope: CalculationScope) -> Type:  # noqa: PLR0911  # one for each kind of node
    match node:
        case Literal():
            return type_of(node.value)
        case Name():
            return _name(node, scope)
        case Signed():
            return _operand(node.operand, scope, Type.NUMBER, f"`{node.sign}`")
        case Power():
            _operand(node.base, scope, Type.NUMBER, "`^`")
            return _operand(node.exponent, scope, Type.NUMBER, "`^`")
        case Chain():
            return _chain(node, scope)
        case Choice():
            _operand(node.condition, scope, Type.BOOLEAN, "the condition before `?`")
            chosen, otherwise = _type(node.chosen, scope), _type(node.otherwise, scope)
            return _common(node.otherwise, chosen, otherwise, "the part after `:`")
        case FunctionCall():
            return _call(node, scope)


def _name(node: Name, scope: CalculationScope) -> Type:
    if node.key in CONSTANTS:
        return type_of(CONSTANTS[node.key])
    if node.key not in scope.names:
        known = {*CONSTANTS, *scope.names, "true", "false", "null"}
        raise _unknown("name", node.key, node.column, known)
    return scope.names[node.key]


def _operand(node: Node, scope: CalculationScope, expected: Type, what: str) -> Type:
    _need(node, _type(node, scope), {expected}, what)
    return expected


def _chain(node: Chain, scope: CalculationScope) -> Type:
    found = _type(node.first, scope)
    at = node.first
    for operator, operand in node.rest:
        _need(at, found, _LEFT.get(operator, _ANY), f"`{operator}`")
        right = _type(operand, scope)
        allowed = _LEFT.get(operator, _ANY)
        if operator in _COMPARISONS and {found, right} == {Type.NUMBER, Type.TEXT}:
            raise _uncomparable(operator, at, operand, found, right)
        _need(operand, right, allowed if found == Type.NULL else {found}, f"`{operator}`", allowed)
        if operator in {"OR", "AND", "==", "!=", "<", ">", "<=", ">="}:
            result = Type.BOOLEAN
        elif operator == "+":
            result = right if found == Type.NULL else found
        else:
            result = Type.NUMBER
        found, at = result, operand
    return found


def _uncomparable(
    operator: str, left: Node, right: Node, found: Type, other: Type
) -> InvalidCalculation:
    """A text is compared with a number: what is constant is written as the other, else a number."""
    rule = f"`{operator}` needs {found} on both sides, not {other}"
    text, number = (left, right) if found == Type.TEXT else (right, left)
    hint: str | None = f"toNumber({text.key if isinstance(text, Name) else '…'})"
    if isinstance(text, Literal) and isinstance(text.value, str):
        hint = text.value if parse_number(text.value) is not None else None
    elif (
        isinstance(number, Literal)
        and isinstance(number.value, Decimal)
        and operator in {"==", "!="}
    ):
        hint = f'"{plain(number.value)}"'
    return InvalidCalculation(rule, right.column, hint)


def _common(node: Node, first: Type, second: Type, what: str) -> Type:
    if first == Type.NULL:
        return second
    _need(node, second, {first}, what)
    return first


def _call(node: FunctionCall, scope: CalculationScope) -> Type:
    function = FUNCTIONS.get(node.function)
    if function is None and node.function not in SPECIAL:
        raise _unknown("function", node.function, node.column, {*FUNCTIONS, *SPECIAL})
    limits = (function.least, function.most) if function else SPECIAL[node.function]
    _count(node, *limits)
    if node.function == "lookup":
        return _lookup(node, scope)
    types = [_type(argument, scope) for argument in node.arguments]
    if function is None:
        first = types[0]
        for argument, found in zip(node.arguments[1:], types[1:], strict=True):
            first = _common(argument, first, found, f"an argument of {node.function}")
        return first if node.function == "isnull" else Type.BOOLEAN
    for index, (argument, found) in enumerate(zip(node.arguments, types, strict=True)):
        what = f"argument {index + 1} of {node.function}"
        _need(argument, found, function.types_at(index), what)
    return function.gives


def _lookup(node: FunctionCall, scope: CalculationScope) -> Type:
    code, field = (_constant(argument) for argument in node.arguments[:2])
    if code not in scope.tables:
        raise _unknown("lookup table", code, node.arguments[0].column, scope.tables)
    table = scope.tables[code]
    if field not in table.fields:
        raise _unknown(f"field of {code}", field, node.arguments[1].column, table.fields)
    keys = node.arguments[2:]
    if len(keys) != len(table.keys):
        rule = f"lookup needs as many keys as the table has ({len(table.keys)}), not {len(keys)}"
        raise InvalidCalculation(rule, node.column)
    for key, expected in zip(keys, table.keys, strict=True):
        _operand(key, scope, expected, "a key of lookup")
    return table.fields[field]


def _constant(node: Node) -> str:
    if isinstance(node, Literal) and isinstance(node.value, str):
        return node.value
    raise InvalidCalculation("lookup names its table and field in double quotes", node.column)


def _count(node: FunctionCall, least: int, most: int | None) -> None:
    given = len(node.arguments)
    if given < least or (most is not None and given > most):
        expected = f"{least} or more" if most is None else str(least)
        if most is not None and most != least:
            expected = f"{least} to {most}"
        rule = f"{node.function} takes {expected} arguments, not {given}"
        raise InvalidCalculation(rule, node.column)


_ANY = frozenset(Type)
_NUMBERS = frozenset({Type.NUMBER})
_BOOLEANS = frozenset({Type.BOOLEAN})
_ORDERED = frozenset({Type.NUMBER, Type.TEXT, Type.INSTANT})
_COMPARISONS = frozenset({"==", "!=", "<", ">", "<=", ">="})
_LEFT = {
    "OR": _BOOLEANS,
    "AND": _BOOLEANS,
    "+": frozenset({Type.NUMBER, Type.TEXT}),
    **dict.fromkeys(("<", ">", "<=", ">="), _ORDERED),
    **dict.fromkeys(("-", "*", "/", "%"), _NUMBERS),
}


def _need(
    node: Node, found: Type, expected: Iterable[Type], what: str, also: Iterable[Type] | None = None
) -> None:
    """Refuse a type that is not wanted; null is welcome everywhere."""
    if found == Type.NULL or found in expected:
        return
    shown = " or ".join(sorted(each for each in expected if each != Type.NULL))
    cast = {Type.NUMBER: "toNumber(…)", Type.TEXT: "toText(…)", Type.INSTANT: "toInstant(…)"}
    hints = [cast[each] for each in expected if each in cast and Type.TEXT in {each, found}]
    # Where two operands differ, only a cast that the operator could then use is of help.
    useful = hints if also is None or set(expected) <= set(also) else []
    hint = useful[0] if len(useful) == 1 else None
    raise InvalidCalculation(f"{what} needs {shown}, not {found}", node.column, hint)


def _unknown(what: str, name: str, column: int, known: Iterable[str]) -> InvalidCalculation:
    shown = name if len(name) <= 80 else name[:80] + "…"  # noqa: PLR2004  # one line of a message
    return InvalidCalculation(f"unknown {what} `{shown}`", column, nearest(name, known))
