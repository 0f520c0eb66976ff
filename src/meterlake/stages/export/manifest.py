"""The manifest: what an export wrote and from what, so that anyone can check it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from meterlake.model.money import exact, plain


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One file of an export.

    Attributes:
        key: The key of the object.
        about: What tells it from others of its type: the meter's code.
        columns: The names of its columns.
        sums: The exact sum of every column of numbers; None where no row has a value.
    """

    key: str
    type: str
    about: Mapping[str, str]
    columns: Sequence[str]
    rows: int
    size_bytes: int
    sha256: str
    sums: Mapping[str, Decimal | None]

    def to_wire(self) -> dict[str, Any]:
        """The file's entry in the manifest; sums are texts, because few readers keep 38 digits."""
        sums = {name: None if total is None else plain(total) for name, total in self.sums.items()}
        return {
            "key": self.key,
            "type": self.type,
            **self.about,
            "rows": self.rows,
            "bytes": self.size_bytes,
            "sha256": self.sha256,
            "columns": list(self.columns),
            "sums": sums,
        }


@dataclass(slots=True)
class ExactSums:
    """Running totals of the columns of numbers."""

    names: Sequence[str]
    totals: dict[str, Decimal | None] = field(init=False)

    def __post_init__(self) -> None:
        self.totals = dict.fromkeys(self.names)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one row; absent values do not count."""
        with exact():
            for name in self.names:
                if row[name] is not None:
                    self.totals[name] = (self.totals[name] or Decimal(0)) + row[name]


def sums_of(names: Sequence[str], *parts: Sequence[Decimal | None]) -> dict[str, Decimal | None]:
    """The sum of every column from the parts that it was computed in; None without values."""
    with exact():
        return {
            name: None if found[0] is None else sum(found, Decimal(0))
            for name, *found in zip(names, *parts, strict=True)
        }
