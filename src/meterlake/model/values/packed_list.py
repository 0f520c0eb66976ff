"""A list of very many small things that takes little memory: compressed, some hundreds at a time."""

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeVar, overload

T = TypeVar("T")

# What is packed together: more pack better, fewer are quicker to unpack for one of them.
_TOGETHER: Final = 512
# Higher levels take three times as long for a tenth less.
_LEVEL: Final = 1


class PackedList(Sequence[T]):
    """What is added stays as it is; each reading makes equal things anew."""

    def __init__(self, items: Iterable[T] = ()) -> None:
        self._packs: list[bytes] = []
        self._rest: list[T] = []
        self.extend(items)

    def append(self, item: T) -> None:
        """Add one thing at the end."""
        self._rest.append(item)
        if len(self._rest) == _TOGETHER:
            self._packs.append(zlib.compress(pickle.dumps(self._rest, protocol=5), _LEVEL))
            self._rest = []

    def extend(self, items: Iterable[T]) -> None:
        """Add some things at the end."""
        for item in items:
            self.append(item)

    def __len__(self) -> int:
        return len(self._packs) * _TOGETHER + len(self._rest)

    def __iter__(self) -> Iterator[T]:
        for number in range(len(self._packs)):
            yield from self._unpack(number)
        yield from self._rest

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        pack, number = divmod(at, _TOGETHER)
        return self._rest[number] if pack == len(self._packs) else self._unpack(pack)[number]

    def __eq__(self, other: object) -> bool:
        """Equal to any list of equal things."""
        return isinstance(other, list | PackedList) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))

    def _unpack(self, number: int) -> list[T]:
        # Only what this very object has packed.
        found: list[T] = pickle.loads(zlib.decompress(self._packs[number]))  # noqa: S301
        return found
