"""Why the calculation of a notification can be true of no event, where reading it shows that.

What is found is certain; that nothing is found says nothing. The side that an event does not have is
null, constants are computed, and what stands beside each other with AND is compared by field.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, TypeAlias

from meterlake.model.calculation import CalculationError, Node, write
from meterlake.model.calculation.mistakes import nearest
from meterlake.model.calculation.tree import Chain, Choice, FunctionCall, Literal, Name, children
from meterlake.model.values.money import exact
from meterlake.stages.events.condition import EventValues, compile_condition, holds

# The words that a field can have, by `new.x` and `old.x`; None: any.
Words: TypeAlias = Callable[[str], Collection[str] | None]

_COMPARED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": eq,
    "!=": ne,
    "<": lt,
    ">": gt,
    "<=": le,
    ">=": ge,
}
_FLIPPED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "==", "!=": "!="}
_BOOLEAN: Final = frozenset({"AND", "OR", *_FLIPPED})
_NOTHING: Final = EventValues({})


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A field beside something that stands there."""

    key: str
    operator: str
    value: Any


def why_never_true(tree: Node, fields: Mapping[str, str], words: Words) -> str | None:
    """Why a calculation is true of no event; None if it may be.

    Args:
        tree: A calculation that was checked.
        fields: The fields that the event has: those of the other side are null.
        words: The words that a field can have.
    """
    with exact():
        return _never(tree, _Event(fields, words))


@dataclass(frozen=True, slots=True)
class _Event:
    fields: Mapping[str, str]
    words: Words

    def has(self, name: Name) -> bool:
        """Whether an event of the type can have the field."""
        return name.key in self.fields


def _never(node: Node, event: _Event) -> str | None:
    match node:
        case Chain(rest=(("AND", _), *_)):
            operands = list(_conjuncts(node))
            found = next(filter(None, (_never(each, event) for each in operands)), None)
            return found or _contradiction(operands)
        case Chain(rest=(("OR", _), *_)):
            operands = [node.first, *(each for _, each in node.rest)]
            reasons = [_never(each, event) for each in operands]
            return None if None in reasons else reasons[0]
        case Choice():
            branches = (_never(node.chosen, event), _never(node.otherwise, event))
            return None if None in branches else branches[0]
    return _never_simple(node, event)


def _conjuncts(node: Node) -> Iterator[Node]:
    if isinstance(node, Chain) and node.rest[0][0] == "AND":
        for each in (node.first, *(each for _, each in node.rest)):
            yield from _conjuncts(each)
    else:
        yield node


def _never_simple(node: Node, event: _Event) -> str | None:
    decided_by = _nulls_that_decide(node, event)
    if decided_by:
        return f"the event has no {decided_by[0]}"
    if _is_constant(node, event) and not _holds(node):
        return f"{write(node)} is not true of it"
    found = _comparison(node)
    if found is None or found.operator != "==" or found.value is None:
        return None
    known = event.words(found.key)
    if known is None or found.value in known:
        return None
    near = nearest(str(found.value), known)
    meant = f"did you mean {near}?" if near else f"one of {', '.join(sorted(known))}"
    return f"{found.key} is never {found.value!r}: {meant}"


def _nulls_that_decide(node: Node, event: _Event) -> list[str]:
    """The absent fields by whose null a condition is not true."""
    match node:
        case Chain(first=first, rest=((operator, second),)) if operator in _FLIPPED:
            if _is_null(first) or _is_null(second):
                return []
            return _nulls(first, event) + _nulls(second, event)
        case FunctionCall(function="IN", arguments=(first, *rest)):
            return [] if any(map(_is_null, rest)) else _nulls(first, event)
    return _nulls(node, event)


def _nulls(node: Node, event: _Event) -> list[str]:
    """The absent fields by which the value of a node is null. A comparison is false, not null."""
    match node:
        case Name():
            return [] if event.has(node) or node.parts[0] not in {"new", "old"} else [node.key]
        case FunctionCall(function="isnull" | "IN") | Choice():
            return []
        case Chain(rest=rest) if {operator for operator, _ in rest} & _BOOLEAN:
            return []
    return [name for each in children(node) for name in _nulls(each, event)]


def _is_null(node: Node) -> bool:
    return isinstance(node, Literal) and node.value is None


def _is_constant(node: Node, event: _Event) -> bool:
    if isinstance(node, Name):
        return not event.has(node)
    return all(_is_constant(each, event) for each in children(node))


def _holds(node: Node) -> bool:
    try:
        return holds(compile_condition(node), _NOTHING)
    except CalculationError:
        return False


def _comparison(node: Node) -> _Comparison | None:
    """A comparison of a field with something that stands there, whichever is first."""
    match node:
        case Chain(first=Name() as name, rest=((operator, Literal(value=value)),)):
            return _Comparison(name.key, operator, value) if operator in _FLIPPED else None
        case Chain(first=Literal(value=value), rest=((operator, Name() as name),)):
            flipped = _FLIPPED.get(operator)
            return None if flipped is None else _Comparison(name.key, flipped, value)
    return None


def _contradiction(operands: list[Node]) -> str | None:
    """What is said of one field and cannot be true together."""
    by_field: dict[str, list[_Comparison]] = defaultdict(list)
    for each in operands:
        found = _comparison(each)
        if found is not None:
            by_field[found.key].append(found)
    for key, said in by_field.items():
        if _excludes_all(said):
            return f"what is said of {key} cannot be true together"
    return None


def _excludes_all(said: list[_Comparison]) -> bool:
    null = [each for each in said if each.value is None]
    if any(each.operator == "==" for each in null):
        return len(said) > len([each for each in null if each.operator == "=="])
    equal = {each.value for each in said if each.operator == "==" and isinstance(each.value, str)}
    unequal = {each.value for each in said if each.operator == "!="}
    if equal & unequal or (len(equal) > 1 and not any(map(_is_moment, equal))):
        return True
    return _is_empty_range([each for each in said if isinstance(each.value, Decimal)])


def _is_moment(text: str) -> bool:
    """Whether a text may be an instant, which another text writes down, too."""
    return text[:4].isdigit()


def _is_empty_range(said: list[_Comparison]) -> bool:
    candidates = {each.value for each in said}
    if not candidates:
        return False
    # Whether any number will do: the ends, what lies between two of them, and what lies beyond.
    ordered = sorted(candidates)
    between = [(one + other) / 2 for one, other in pairwise(ordered)]
    tried = [*ordered, *between, ordered[0] - 1, ordered[-1] + 1]
    return not any(
        all(_COMPARED[each.operator](number, each.value) for each in said) for number in tried
    )
