"""As many values at once as a statement takes."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

# Databases limit the parameters of a statement; SQLite's old limit of 999 is the lowest.
CHUNK: Final = 400
T = TypeVar("T")


def chunks_of(items: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """Some items after the other, in their order.

    >>> list(chunks_of("abcde", 2))
    [['a', 'b'], ['c', 'd'], ['e']]
    """
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk
