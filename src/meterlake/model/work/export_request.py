"""What an export is asked for: the parameters of its job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from meterlake.model.configuration.queries import UsageQueryRequest
from meterlake.model.values.period import Month, Period, parse_instant
from meterlake.model.work.jobs import JobKind

# What the jobs of exports are called in State.
KIND: Final = JobKind.EXPORT


class Source(StrEnum):
    """The two families of exports; one export has types of one family."""

    USAGE = "usage"
    OPERATIONAL = "operational"


class Format(StrEnum):
    """How the files of an export are written."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"

    @property
    def suffix(self) -> str:
        """The end of a file's name."""
        return ".parquet" if self is Format.PARQUET else f".{self.value}.gz"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRequest:
    """What is to be exported, how, and to where.

    Attributes:
        to: A folder, or an `s3://` or `gs://` URL, beside the destinations. An export that goes
            nowhere, and is not kept, goes to `exports/<organization>` of the home.
        destination_ids: Destinations of the organization.
        types: Names of `EXPORTS`; all of the source if there is none.
        month: Measurements, quantities and bills of this month of the organization only.
        usage: Which usage: from when until when, of which meters and accounts, folded or raw.
        changes_since: Entities that changed, or were deleted, from then on only.
        file_bytes: The size at which a file is followed by another one; the settings' if None.
        spreadsheet: Whether cells of CSV are made safe for programs that run formulas.
        keep: Whether the files are kept for their download, too.
    """

    source: Source
    format: Format = Format.CSV
    to: str | None = None
    destination_ids: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    month: Month | None = None
    usage: UsageQueryRequest = field(default_factory=UsageQueryRequest)
    changes_since: datetime | None = None
    file_bytes: int | None = None
    spreadsheet: bool = False
    keep: bool = False

    @property
    def period(self) -> Period | None:
        """The time of the usage, in UTC; None if it is not limited by instants."""
        start, end = self.usage.start_date, self.usage.end_date
        return None if start is None or end is None else Period(start, end)

    def to_wire(self) -> dict[str, Any]:
        """The request as the parameters of a job."""
        return {
            "source": self.source.value,
            "format": self.format.value,
            "to": self.to,
            "destinationIds": list(self.destination_ids),
            "types": list(self.types),
            "month": None if self.month is None else str(self.month),
            "usage": self.usage.model_dump(by_alias=True, exclude_none=True),
            "changesSince": self.changes_since,
            "fileBytes": self.file_bytes,
            "spreadsheet": self.spreadsheet,
            "keep": self.keep,
        }

    @classmethod
    def from_wire(cls, parameters: Mapping[str, Any]) -> "ExportRequest":
        """The request of a job; those of older versions say less."""
        since = parameters.get("changesSince")
        return cls(
            source=Source(parameters["source"]),
            format=Format(parameters["format"]),
            to=parameters.get("to"),
            destination_ids=tuple(parameters.get("destinationIds", ())),
            types=tuple(parameters["types"]),
            month=None if parameters.get("month") is None else Month.parse(parameters["month"]),
            usage=UsageQueryRequest.model_validate(parameters.get("usage", {}), by_alias=True),
            changes_since=parse_instant(since) if isinstance(since, str) else since,
            file_bytes=parameters.get("fileBytes"),
            spreadsheet=parameters.get("spreadsheet", False),
            keep=parameters.get("keep", False),
        )
