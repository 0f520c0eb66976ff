"""Tokens of pages that lead on in the list that gave them, and in no other."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from meterlake.model.errors import Invalid

NEXT_TOKEN: Final = "nextToken"  # noqa: S105  # the name of a parameter
# What a search is: whoever changes one of these begins anew.
SEARCH: Final = ("searchQuery", "operator", "sortBy", "sortOrder")
POSITION_MAX: Final = 1_000_000
_MARK_BYTES: Final = 6
# The token of a search is a whole number that clients of JavaScript keep exactly, below 2 ** 53.
_POSITIONS: Final = 10_000_000
_SEARCHES: Final = 900_000_000
_RULE: Final = "it must be the nextToken of the page before, of the same list"


def list_mark(operation: str, members: Mapping[str, str]) -> str:
    """What the tokens of a list end with: of the same operation and path it is the same.

    Args:
        operation: The id of the operation.
        members: The members of its path.
    """
    text = "\n".join((operation, *(f"{name}={members[name].lower()}" for name in sorted(members))))
    data = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(data, digest_size=_MARK_BYTES).hexdigest()


def mark_token(answer: Any, mark: str) -> Any:
    """An answer whose token, if it has one, is good for this list only."""
    token = answer.get(NEXT_TOKEN) if isinstance(answer, dict) else None
    return answer if token is None else {**answer, NEXT_TOKEN: f"{token}.{mark}"}


def unmark_token(token: str | None, mark: str) -> str | None:
    """The token as the list itself gave it.

    Raises:
        Invalid: It is of another list.
    """
    if token is None or not mark:
        return token
    inner, _, found = token.rpartition(".")
    if found != mark:
        raise Invalid(NEXT_TOKEN, token, _RULE)
    return inner


def mark_search(position: int, mark: str, words: Iterable[str | None]) -> str:
    """The token of the next page of a search: a number, as clients give it as `fromDocument`, too.

    Args:
        position: The document to go on from.
        mark: The mark of the list.
        words: What the search is: the values of the parameters `SEARCH`.
    """
    return str(_number_of(mark, words) * _POSITIONS + position)


def position_of(name: str, value: int, mark: str, words: Iterable[str | None]) -> int:
    """The document that a token, or a number that a client counted, leads to.

    Args:
        name: The parameter that has it.
        value: The token, or of `fromDocument` perhaps a plain number.
        mark: The mark of the list.
        words: What the search is.

    Raises:
        Invalid: It is the token of another search, or no token.
    """
    if name != NEXT_TOKEN and value <= POSITION_MAX:
        return value
    number, position = divmod(value, _POSITIONS)
    if number != _number_of(mark, words) or position > POSITION_MAX:
        raise Invalid(
            name, value, "it must be the nextToken of the page before, of the same search"
        )
    return position


def _number_of(mark: str, words: Iterable[str | None]) -> int:
    data = "\n".join((mark, *(each or "" for each in words))).encode("utf-8", "surrogatepass")
    return 1 + int.from_bytes(hashlib.blake2b(data, digest_size=8).digest()) % _SEARCHES
