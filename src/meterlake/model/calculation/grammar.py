"""How a text is read as a calculation.

The parser is LALR: no text, however odd, makes it recurse or go back. Whatever is refused is an
`InvalidCalculation` with its column.
"""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Final

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from meterlake.model.calculation.mistakes import InvalidCalculation, nearest
from meterlake.model.calculation.tree import (
    IDENTIFIER,
    Chain,
    Choice,
    FunctionCall,
    Literal,
    Name,
    Node,
    Power,
    Signed,
)
from meterlake.model.values.money import EXACT, parse_number

LENGTH_MAX: Final = 5000
# Parentheses and functions within one another; far below what Python's own stack allows.
DEPTH_MAX: Final = 50
NODES_MAX: Final = 1000

GRAMMAR: Final = rf"""
?start: choice
?choice: either | either "?" choice ":" choice
?either: both (OR both)* -> chain
?both: compared (AND compared)* -> chain
?compared: sum (COMPARE sum)* -> chain
?sum: product (SIGN product)* -> chain
?product: signed (TIMES signed)* -> chain
?signed: SIGN signed | power
?power: atom | atom "^" signed
?atom: NUMBER -> number
    | TEXT -> text
    | TRUE -> true
    | FALSE -> false
    | NULL -> null
    | name
    | name "(" arguments ")" -> call
    | "(" choice ")" -> nested
name: IDENTIFIER ("." (IDENTIFIER | TEXT))*
arguments: (choice ("," choice)*)?

OR: "OR"
AND: "AND"
TRUE: "true"
FALSE: "false"
NULL: "null"
COMPARE: "==" | "!=" | "<=" | ">=" | "<" | ">"
SIGN: "+" | "-"
TIMES: "*" | "/" | "%"
NUMBER: /[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{{1,4}})?/
TEXT: /"(?:[^"\\]|\\.)*"/s
IDENTIFIER: /{IDENTIFIER}/
SPACE: /[ \t\r\n]+/
%ignore SPACE
"""

_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {'"': '"', "\\": "\\", "n": "\n", "t": "\t"}
# How other languages spell it.
_SPELLINGS: Final = {"&&": "AND", "||": "OR", "<>": "!=", "&": "AND", "|": "OR", "=": "=="}


@dataclass(frozen=True, slots=True)
class _Part:
    """A node on its way up, with how deep and how large the tree below it is."""

    node: Node
    depth: int = 1
    nodes: int = 1


def parse(text: str) -> Node:
    """Read a calculation; what its names and functions mean is not looked at.

    Raises:
        InvalidCalculation: The text is no calculation, or longer, deeper or larger than allowed.
    """
    if not text.strip():
        raise InvalidCalculation("a calculation is needed, there is only empty space", 1)
    if len(text) > LENGTH_MAX:
        raise InvalidCalculation(f"longer than {LENGTH_MAX:,} characters", LENGTH_MAX + 1)
    lone = re.search("[\ud800-\udfff]", text)
    if lone:
        raise InvalidCalculation("half a character (a lone surrogate)", lone.start() + 1)
    try:
        part: _Part = _parser().parse(text)  # type: ignore[assignment]  # our transformer's result
    except UnexpectedInput as error:
        raise _mistake(error, text) from None
    return part.node


@cache
def _parser() -> Lark:
    # The basic lexer keeps AND, OR, true, false and null reserved wherever they stand.
    return Lark(GRAMMAR, parser="lalr", lexer="basic", transformer=_Builder())


def _mistake(error: UnexpectedInput, text: str) -> InvalidCalculation:
    at = error.pos_in_stream
    if isinstance(error, UnexpectedToken) and error.token.type == "$END":
        return InvalidCalculation("something is missing at the end", len(text) + 1)
    assert at is not None, error
    if isinstance(error, UnexpectedCharacters):
        if text[at] == '"':
            return InvalidCalculation("a text without its closing quote", at + 1)
        if text[at] == "'":
            return InvalidCalculation("texts stand in double quotes", at + 1)
        spelling = _SPELLINGS.get(text[at : at + 2]) or _SPELLINGS.get(text[at])
        return InvalidCalculation(f"{text[at]!r} has no meaning here", at + 1, spelling)
    assert isinstance(error, UnexpectedToken), error
    word = str(error.token)
    keyword = nearest(word, ("AND", "OR")) if error.token.type == "IDENTIFIER" else None
    shown = word if len(word) <= 40 else word[:40] + "…"  # noqa: PLR2004  # one line of a message
    return InvalidCalculation(f"`{shown}` does not fit here", at + 1, keyword)


def _column(token: Token) -> int:
    assert token.start_pos is not None, token
    return token.start_pos + 1


def _join(node: Node, *below: _Part) -> _Part:
    depth = 1 + max((part.depth for part in below), default=0)
    nodes = 1 + sum(part.nodes for part in below)
    if depth > DEPTH_MAX:
        raise InvalidCalculation(f"nested more than {DEPTH_MAX} levels deep", node.column)
    if nodes > NODES_MAX:
        raise InvalidCalculation(f"more than {NODES_MAX:,} operands and operators", node.column)
    return _Part(node, depth, nodes)


@v_args(inline=True)
class _Builder(Transformer[Token, _Part]):
    """Builds the tree from the bottom while the parser reads."""

    def number(self, token: Token) -> _Part:
        exact, read = Decimal(token), parse_number(token)
        if read is None:
            raise InvalidCalculation("a number with more than 26 integer digits", _column(token))
        if exact != read:
            raise InvalidCalculation("a number with more than 12 decimals", _column(token))
        return _Part(Literal(EXACT.normalize(read), column=_column(token)))

    def text(self, token: Token) -> _Part:
        return _Part(Literal(_unescape(token), column=_column(token)))

    def true(self, token: Token) -> _Part:
        return _Part(Literal(True, column=_column(token)))

    def false(self, token: Token) -> _Part:
        return _Part(Literal(False, column=_column(token)))

    def null(self, token: Token) -> _Part:
        return _Part(Literal(None, column=_column(token)))

    def name(self, first: Token, *more: Token) -> _Part:
        parts = (_unescape(each) if each.type == "TEXT" else str(each) for each in more)
        return _Part(Name((str(first), *parts), column=_column(first)))

    def arguments(self, *arguments: _Part) -> tuple[_Part, ...]:
        return arguments

    def call(self, function: _Part, arguments: tuple[_Part, ...]) -> _Part:
        name = function.node
        assert isinstance(name, Name), name
        if not all(re.fullmatch(IDENTIFIER, part) for part in name.parts):
            raise InvalidCalculation("the name of a function has no quotes", name.column)
        nodes = tuple(each.node for each in arguments)
        return _join(FunctionCall(name.key, nodes, column=name.column), *arguments)

    def nested(self, inner: _Part) -> _Part:
        # Parentheses leave no node behind, but they count as a level.
        return _Part(inner.node, _join(inner.node, inner).depth, inner.nodes)

    def signed(self, sign: Token, operand: _Part) -> _Part:
        return _join(Signed(str(sign), operand.node, column=_column(sign)), operand)

    def power(self, base: _Part, exponent: _Part) -> _Part:
        node = Power(base.node, exponent.node, column=base.node.column)
        return _join(node, base, exponent)

    def chain(self, first: _Part, *rest: Token | _Part) -> _Part:
        if not rest:
            return first
        operators = [str(each) for each in rest if isinstance(each, Token)]
        operands = [each for each in rest if isinstance(each, _Part)]
        pairs = zip(operators, (each.node for each in operands), strict=True)
        node = Chain(first.node, tuple(pairs), column=first.node.column)
        return _join(node, first, *operands)

    def choice(self, condition: _Part, chosen: _Part, otherwise: _Part) -> _Part:
        column = condition.node.column
        node = Choice(condition.node, chosen.node, otherwise.node, column=column)
        return _join(node, condition, chosen, otherwise)


def _unescape(token: Token) -> str:
    def character(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            at = _column(token) + 1 + match.start()
            raise InvalidCalculation(f"{match[0]!r} is no escape; \\\\ is a backslash", at)
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(character, token[1:-1])
