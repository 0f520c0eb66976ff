"""Tokens of pages that lead on in the list that gave them, and in no other."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from meterlake.model.errors import Invalid

NEXT_TOKEN: Final = "nextToken"  # noqa: S105  # the name of a parameter
_MARK_BYTES: Final = 6


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
        raise Invalid(NEXT_TOKEN, token, "the nextToken of the page before, of the same list")
    return inner
