"""The manifest: what an export wrote and from what, so that anyone can check it.

Names of exported objects. They follow from the job, so that a second attempt finds the first's.
"""

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BaseModel, Field, PlainValidator
from pydantic_core import PydanticCustomError

from meterlake.model.configuration.exports import PartitionOrder
from meterlake.model.values.fields import Ordinal, Text
from meterlake.model.values.money import EXACT, ZERO, plain
from meterlake.model.work.export_request import Format
from meterlake.stages.export.column_kinds import ExportColumn, Kind, flat

_KINDS: Final = frozenset(Kind)
# No sum comes near; with plain digits, 1e999999999 would fill all memory.
_DIGITS_MAX: Final = 1000
# The sum of a column; of money for each currency. None where no row has a value.
Sum = Decimal | None | Mapping[str, Decimal]
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SHOWN_MAX: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """One file of an export.

    Attributes:
        key: The key of the object.
        about: What tells it from others of its type: the meter's code and id.
        columns: Its columns.
        sums: The exact sum of every column that can be added up.
        typed: Whether the types of its columns are known; older manifests only name them.
    """

    key: str
    type: str
    about: Mapping[str, str]
    columns: Sequence[ExportColumn]
    rows: int
    size_bytes: int
    sha256: str
    sums: Mapping[str, Sum]
    typed: bool = True

    def to_wire(self) -> dict[str, Any]:
        """The file's entry in the manifest; sums are texts, because few readers keep 38 digits."""
        return {
            "key": self.key,
            "type": self.type,
            **self.about,
            "rows": self.rows,
            "bytes": self.size_bytes,
            "sha256": self.sha256,
            "columns": [_column(column) for column in self.columns],
            "sums": {name: _display(total) for name, total in self.sums.items()},
        }

    @classmethod
    def of(cls, entry: "ManifestFile") -> "WrittenFile":
        """The file of an entry in a manifest, also of an older one, which only names the columns."""
        return cls(
            key=entry.key,
            type=entry.type,
            about={} if entry.meter is None else {"meter": entry.meter},
            columns=tuple(
                ExportColumn(each, Kind.EXACT if each in entry.sums else Kind.TEXT)
                if isinstance(each, str)
                else each
                for each in entry.columns
            ),
            rows=entry.rows,
            size_bytes=entry.bytes,
            sha256=entry.sha256,
            sums=entry.sums,
            typed=not any(isinstance(each, str) for each in entry.columns),
        )


def _column(column: ExportColumn) -> dict[str, str | None]:
    value: dict[str, str | None] = {"name": column.name, "type": column.kind.value}
    return value if column.currency == "" else value | {"currency": column.currency}


def _display(total: Sum) -> Any:
    if isinstance(total, Mapping):
        return {currency: plain(total[currency]) for currency in sorted(total)}
    return None if total is None else plain(total)


def _read_column(value: Any) -> ExportColumn | str:
    match value:
        case str():
            return value
        case {"name": str(name), "type": str(kind)} if kind in _KINDS:
            currency = value.get("currency", "")
            if currency is None or isinstance(currency, str):
                return ExportColumn(name, Kind(kind), currency)
    rule = f"it must be a column: its name, and its type, one of {', '.join(Kind)}"
    raise PydanticCustomError("rule", "{rule}", {"rule": rule})


def _read_sum(value: Any) -> Sum:
    if isinstance(value, Mapping):
        return {currency: _read_total(total) for currency, total in value.items()}
    return None if value is None else _read_total(value)


def _read_total(value: Any) -> Decimal:
    total = summable(value) if isinstance(value, str) else None
    if total is not None:
        return total
    raise PydanticCustomError("rule", "{rule}", {"rule": "it must be sums as text, such as '12.5'"})


def summable(value: Any) -> Decimal | None:
    """A value as a number that can be added up and shown; None if it is none."""
    with suppress(ArithmeticError, TypeError, ValueError):
        number = Decimal(value)
        if number.is_finite() and abs(number.adjusted()) < _DIGITS_MAX:
            return number
    return None


class ManifestFile(BaseModel):
    """The entry of a file as a manifest that comes from elsewhere has it."""

    key: Text
    type: Text
    meter: Text | None = None
    rows: Ordinal
    bytes: Ordinal
    sha256: Annotated[Text, Field(pattern="^[0-9a-f]{64}$")]
    columns: tuple[Annotated[ExportColumn | str, PlainValidator(_read_column)], ...]
    sums: dict[str, Annotated[Sum, PlainValidator(_read_sum)]]


class ReadManifest(BaseModel):
    """What is looked at of a manifest that comes from elsewhere."""

    format: Format
    rows: Ordinal
    bytes: Ordinal
    files: tuple[ManifestFile, ...]


class ExactSums:
    """Running totals of the columns that can be added up."""

    def __init__(self, columns: Iterable[ExportColumn]) -> None:
        """Take those columns of a file that are summed."""
        summed = [each for each in columns if each.summed]
        self._plain = [each for each in summed if not each.currency]
        # Each with the column of its currency.
        self._money = [(each, each.currency) for each in summed if each.currency]
        self._totals: dict[str, Decimal | None] = {each.name: None for each in self._plain}
        self._by_currency: dict[str, dict[str, Decimal]] = {
            each.name: {} for each, _ in self._money
        }
        currencies = dict.fromkeys(ExportColumn(name) for _, name in self._money)
        # To enter a context for each row takes longer than to add.
        self._exact = EXACT.copy()
        # What `add` looks at.
        self.needed = (*self._plain, *(each for each, _ in self._money), *currencies)

    @property
    def totals(self) -> dict[str, Sum]:
        """The sums by column; money without a currency is under an empty one."""
        return {**self._totals, **self._by_currency}

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one row with its values by the names of the columns; absent values do not count."""
        plus, totals = self._exact.add, self._totals
        for column in self._plain:
            value = row[column.name]
            if value is not None:
                totals[column.name] = plus(totals[column.name] or ZERO, value)
        for column, named in self._money:
            value = row[column.name]
            if value is not None:
                by_currency = self._by_currency[column.name]
                currency = row[named] or ""
                by_currency[currency] = plus(by_currency.get(currency, ZERO), value)

    def add_document(self, document: Mapping[str, Any]) -> None:
        """Add one nested document."""
        self.add(flat(document, self.needed))


class ExportPart(NamedTuple):
    """One file of an export.

    Attributes:
        type: What it holds, as `type=` in the key.
        id: What tells it from others of its type in the same export; never shown.
        label: What people tell it by, such as a meter's code.
        number: Which one of several files that hold one thing, from 1; 0 if there is only one.
    """

    type: str
    id: str = ""
    label: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class ObjectPrefix:
    """Where the objects of one job go: below its organization, by the hour of its creation."""

    org_id: str
    job_id: str
    created: datetime

    def file_key(self, part: ExportPart, format: Format) -> str:
        """The key of a file: `orgId=…/date=…/hour=…/type=…/<uuid>_<label>_<type>.csv.gz`.

        One of several files is called `…_<type>-0001.csv.gz`.
        """
        unique = uuid.uuid5(uuid.UUID(self.job_id), f"{part.type}/{part.id}/{format}")
        label = _UNSAFE.sub("-", part.label).strip(".-")[:_SHOWN_MAX]
        name = "_".join(filter(None, (str(unique), label, part.type)))
        number = f"-{part.number:04d}" if part.number else ""
        return f"{self._hour()}/type={part.type}/{name}{number}{format.suffix}"

    def manifest_key(self) -> str:
        """The key of the manifest: `orgId=…/date=…/hour=…/<job id>_manifest.json`."""
        return f"{self._hour()}/{self.job_id}_manifest.json"

    def _hour(self) -> str:
        created = self.created.astimezone(UTC)
        return f"orgId={self.org_id}/date={created:%Y-%m-%d}/hour={created.hour}"


def arrange_key(key: str, order: PartitionOrder) -> str:
    """A key as a destination wants its parts: the time before the type, or after it.

    Args:
        key: As `ObjectPrefix` makes it, the time first. A manifest has no type in its key.
        order: The wanted order.
    """
    if order is PartitionOrder.TIME_FIRST:
        return key
    organization, date, hour, *rest = key.split("/")
    kind = rest[:-1] or ["type=manifest"]
    return "/".join([organization, *kind, date, hour, rest[-1]])
