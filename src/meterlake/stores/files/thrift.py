"""Thrift's compact protocol as far as the headers of Parquet need it, and Parquet's packed numbers."""

from typing import Any, Final

Struct = dict[int, Any]

# What damaged bytes raise.
DAMAGED: Final = (ValueError, IndexError, KeyError, TypeError, AttributeError)

# Types of values by their numbers in the protocol.
_TRUE: Final = 1
_FALSE: Final = 2
_DOUBLE: Final = 7
_LIST: Final = 9
_DEPTH_MAX: Final = 16
_VARINT_BYTES_MAX: Final = 10
# Of numbers that are packed together; the format's own writers have 32.
_PART_MAX: Final = 1024


class ThriftReader:
    """Reads values one after the other.

    Attributes:
        place: How many bytes are read.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def struct(self, depth: int = 0) -> Struct:
        """Read a struct: the values of its members by their numbers.

        Raises:
            ValueError: It is damaged; so do the other errors of `DAMAGED` say.
        """
        if depth > _DEPTH_MAX:
            raise ValueError("it is nested too deeply")
        found: Struct = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            found[number] = self._value(head & 0x0F, depth)
        return found

    def length_of_list(self, number: int) -> int:
        """Read a struct as far as a list in it: how many elements that has."""
        at = 0
        while head := self._byte():
            at = at + (head >> 4) if head >> 4 else self._zigzag()
            if at == number and head & 0x0F == _LIST:
                return self._list_head()[0]
            self._value(head & 0x0F, 0)
        return 0

    def deltas(self, count: int) -> list[int]:
        """Read numbers that are stored as differences (DELTA_BINARY_PACKED).

        Raises:
            ValueError: They are damaged, or more than so many; so do other errors of `DAMAGED` say.
        """
        block, parts, total, value = (
            self._varint(), self._varint(), self._varint(), self._zigzag(),
        )  # fmt: skip
        each = block // parts if parts else 0
        if not 0 < each <= _PART_MAX or total > count:
            raise ValueError(f"its blocks have {block} values, {total} in all")
        found = [value] if total else []
        while len(found) < total:
            least = self._zigzag()
            widths = self._take(parts)
            for width in widths:
                if width > 64:  # noqa: PLR2004
                    raise ValueError(f"its numbers have {width} bits")
                if len(found) >= total:
                    break
                bits = int.from_bytes(self._take(width * each // 8), "little")
                mask = (1 << width) - 1
                for _ in range(min(each, total - len(found))):
                    value += least + (bits & mask)
                    bits >>= width
                    found.append(value)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        match kind:
            case 1 | 2:
                found: Any = kind == _TRUE
            case 3:
                found = self._byte()
            case 4 | 5 | 6:
                found = self._zigzag()
            case 7 | 8:
                found = self._take(8 if kind == _DOUBLE else self._varint())
            case 9 | 10:
                length, inner = self._list_head()
                found = [self._element(inner, depth) for _ in range(length)]
            case 12:
                found = self.struct(depth + 1)
            case _:
                raise ValueError(f"a value of type {kind}")
        return found

    def _element(self, kind: int, depth: int) -> Any:
        # In a list a truth value is a byte.
        return self._byte() if kind in {_TRUE, _FALSE} else self._value(kind, depth + 1)

    def _list_head(self) -> tuple[int, int]:
        head = self._byte()
        length = head >> 4
        return (self._varint() if length == 0x0F else length), head & 0x0F  # noqa: PLR2004

    def _byte(self) -> int:
        found = self._data[self.place]
        self.place += 1
        return found

    def _take(self, count: int) -> bytes:
        found = self._data[self.place : self.place + count]
        if len(found) < count:
            raise ValueError("it is cut short")
        self.place += count
        return found

    def _varint(self) -> int:
        found = 0
        for shift in range(_VARINT_BYTES_MAX):
            byte = self._byte()
            found |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:  # noqa: PLR2004
                return found
        raise ValueError("a number has no end")

    def _zigzag(self) -> int:
        found = self._varint()
        return (found >> 1) ^ -(found & 1)
