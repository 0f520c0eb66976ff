"""Answers of the Data Explorer: rows by meter, and how they are written as JSON in a hurry."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from meterlake.model.values import wire
from meterlake.model.values.money import plain

_NULL: Final = "null"


@dataclass(frozen=True, slots=True)
class ExplorerTable:
    """Rows of one meter with the same keys.

    Attributes:
        fixed: The members that every row begins with.
        keys: The other members.
        rows: Their values: text, Decimal, naive UTC instants, None.
    """

    fixed: dict[str, str]
    keys: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]

    def documents(self) -> Iterator[dict[str, Any]]:
        """The rows as wire documents."""
        for row in self.rows:
            values = (_instant(v) if isinstance(v, datetime) else v for v in row)
            yield {**self.fixed, **dict(zip(self.keys, values, strict=True))}

    def texts(self) -> list[str]:
        """The rows as JSON. Column by column: that takes a fifth of the time of row by row."""
        members = [f"{_escape(wire.dumps({k: v})[1:-1])}" for k, v in self.fixed.items()]
        members += [f"{_escape(wire.dumps(key))}:%s" for key in self.keys]
        template = "{" + ",".join(members) + "}"
        columns = [_column_texts(column) for column in zip(*self.rows, strict=True)]
        return [template % row for row in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True)
class ExplorerAnswer:
    """What a question came to.

    Attributes:
        tables: One or none for each meter.
        more: Whether there are more rows than these.
        order: Which row of which table comes when; table after table if None.
    """

    tables: tuple[ExplorerTable, ...]
    more: bool
    order: tuple[tuple[int, int], ...] | None = None

    def documents(self) -> list[dict[str, Any]]:
        """The rows as wire documents, in their order."""
        return self._sort_key([list(table.documents()) for table in self.tables])

    def to_json(self) -> bytes:
        """The whole answer of the wire: `{"data": [...], "hasMoreData": ...}`."""
        texts = self._sort_key([table.texts() for table in self.tables])
        more = "true" if self.more else "false"
        return f'{{"data":[{",".join(texts)}],"hasMoreData":{more}}}'.encode()

    def _sort_key(self, tables: list[list[Any]]) -> list[Any]:
        if self.order is None:
            return [row for rows in tables for row in rows]
        return [tables[table][row] for table, row in self.order]


def _escape(text: bytes) -> str:
    return text.decode().replace("%", "%%")


def _column_texts(column: Sequence[Any]) -> list[str]:
    sample = next((value for value in column if value is not None), None)
    if isinstance(sample, Decimal):
        return [_NULL if value is None else plain(value) for value in column]
    write: Callable[[Any], str] = _quoted_instant if isinstance(sample, datetime) else _quote
    # Accounts, days and values of fields come again and again.
    known = {value: _NULL if value is None else write(value) for value in set(column)}
    return [known[value] for value in column]


def _quote(value: Any) -> str:
    return wire.dumps(value).decode()


def _quoted_instant(value: datetime) -> str:
    return f'"{_instant(value)}"'


def _instant(value: datetime) -> str:
    return f"{value.isoformat()}Z"
