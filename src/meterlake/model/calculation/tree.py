"""A calculation as an immutable tree, and how a tree is written as text.

A run of operators of one level is one node, so `a + b - c` is as deep as `a + b`: only what is
nested makes a tree deep.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, TypeAlias

from meterlake.model.values.money import plain

IDENTIFIER: Final = r"(?:[^\W\d]|\$)(?:\w|\$)*"
RESERVED: Final = frozenset({"AND", "OR", "true", "false", "null"})

# Operators from the loosest to the tightest; `? :` is looser, a sign and `^` are tighter.
LEVELS: Final = (
    ("OR",),
    ("AND",),
    ("==", "!=", "<", ">", "<=", ">="),
    ("+", "-"),
    ("*", "/", "%"),
)
_TERNARY, _UNARY, _POWER, _ATOM = -1, len(LEVELS), len(LEVELS) + 1, len(LEVELS) + 2
_LEVEL_OF: Final = {operator: level for level, row in enumerate(LEVELS) for operator in row}


@dataclass(frozen=True, kw_only=True, slots=True)
class _Placed:
    """A node stands somewhere in the text; two nodes are equal wherever they stand."""

    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Literal(_Placed):
    """A number (never negative), a text, `true`, `false` or `null`."""

    value: Decimal | str | bool | None


@dataclass(frozen=True, slots=True)
class Name(_Placed):
    """A name in one or several parts, such as `files` or `customFields.account.tier`."""

    parts: tuple[str, ...]

    @property
    def key(self) -> str:
        """The name as scopes and values have it: its parts, joined by points."""
        return ".".join(self.parts)


@dataclass(frozen=True, slots=True)
class FunctionCall(_Placed):
    """A function with its arguments."""

    function: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Signed(_Placed):
    """A sign and what follows it."""

    sign: str
    operand: "Node"


@dataclass(frozen=True, slots=True)
class Power(_Placed):
    """`base ^ exponent`."""

    base: "Node"
    exponent: "Node"


@dataclass(frozen=True, slots=True)
class Chain(_Placed):
    """Operands joined by operators of one level, computed from the left."""

    first: "Node"
    rest: tuple[tuple[str, "Node"], ...]


@dataclass(frozen=True, slots=True)
class Choice(_Placed):
    """`condition ? chosen : otherwise`."""

    condition: "Node"
    chosen: "Node"
    otherwise: "Node"


Node: TypeAlias = Literal | Name | FunctionCall | Signed | Power | Chain | Choice


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below a node, from left to right."""
    match node:
        case FunctionCall():
            return node.arguments
        case Signed():
            return (node.operand,)
        case Power():
            return (node.base, node.exponent)
        case Chain():
            return (node.first, *(operand for _, operand in node.rest))
        case Choice():
            return (node.condition, node.chosen, node.otherwise)
    return ()


def walk(node: Node) -> Iterator[Node]:
    """A node and all below it, from left to right."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting.extend(reversed(children(current)))


def names(node: Node) -> tuple[str, ...]:
    """The names that a calculation reads, each once, constants among them."""
    return tuple(dict.fromkeys(part.key for part in walk(node) if isinstance(part, Name)))


def write(node: Node) -> str:  # noqa: PLR0911  # one for each kind of node
    """Write a tree as text with as few parentheses as possible; reading it gives the same tree."""
    match node:
        case Literal():
            return _write_literal(node.value)
        case Name():
            return ".".join(
                part
                if (i == 0 or (re.fullmatch(IDENTIFIER, part) and part not in RESERVED))
                else _write_literal(part)
                for i, part in enumerate(node.parts)
            )
        case FunctionCall():
            return f"{node.function}({', '.join(write(each) for each in node.arguments)})"
        case Signed():
            return node.sign + _within(node.operand, _UNARY)
        case Power():
            return f"{_within(node.base, _ATOM)} ^ {_within(node.exponent, _UNARY)}"
        case Chain():
            tighter = _level(node) + 1
            rest = (f" {operator} {_within(operand, tighter)}" for operator, operand in node.rest)
            return _within(node.first, tighter) + "".join(rest)
        case Choice():
            branches = f"{write(node.chosen)} : {write(node.otherwise)}"
            return f"{_within(node.condition, 0)} ? {branches}"


def _write_literal(value: Decimal | str | bool | None) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, Decimal):
        return plain(value)
    return {None: "null", True: "true", False: "false"}[value]


def _within(node: Node, least: int) -> str:
    return write(node) if _level(node) >= least else f"({write(node)})"


def _level(node: Node) -> int:
    match node:
        case Choice():
            return _TERNARY
        case Chain():
            return _LEVEL_OF[node.rest[0][0]]
        case Signed():
            return _UNARY
        case Power():
            return _POWER
    return _ATOM
