"""Statements of bills: what is asked for, in which formats they are, and whether they are current."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import Field

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Flag, Id
from meterlake.model.work.jobs import JobKind

KIND: Final = JobKind.STATEMENT
METERS_MAX: Final = 10
BILLS_MAX: Final = 10

_MeterIds = Annotated[tuple[Id, ...], Field(max_length=METERS_MAX)]


class StatementFormat(StrEnum):
    """How a statement is written."""

    JSON = "json"
    CSV = "csv"


class StatementStatus(StrEnum):
    """Whether a file shows its bill as it is.

    A file is STALE if its bill has another content since the file was made. It is INVALIDATED if a
    later job made another file of the bill, or if the bill was deleted.
    """

    LATEST = "LATEST"
    STALE = "STALE"
    INVALIDATED = "INVALIDATED"


class StatementJobFilters(Value):
    """Which usage a statement has."""

    meter_ids: _MeterIds | None = None


class StatementJobRequest(Value):
    """The bill of which a statement is made."""

    bill_id: Id
    include_csv_format: Flag | None = None
    filters: StatementJobFilters | None = None


class StatementsBatchJobRequest(Value):
    """The bills of which statements are made, each by a job of its own."""

    bill_ids: Annotated[tuple[Id, ...], Field(min_length=1, max_length=BILLS_MAX)]
    include_csv_format: Flag | None = None
    filters: StatementJobFilters | None = None


@dataclass(frozen=True, slots=True)
class StatementOrder:
    """The parameters of a job: the bill, the formats, and the meters; all meters if none is named."""

    bill_id: str
    csv: bool = False
    meter_ids: tuple[str, ...] = ()

    @property
    def formats(self) -> tuple[StatementFormat, ...]:
        """What is written; JSON always is."""
        only_json = (StatementFormat.JSON,)
        return (*only_json, StatementFormat.CSV) if self.csv else only_json

    def to_wire(self) -> dict[str, Any]:
        """The order as the parameters of a job."""
        filters = {"filters": {"meterIds": list(self.meter_ids)}} if self.meter_ids else {}
        return {"billId": self.bill_id, "includeCsvFormat": self.csv, **filters}

    @classmethod
    def from_wire(cls, parameters: Mapping[str, Any]) -> Self:
        """The order of a job."""
        filters = parameters.get("filters", {})
        return cls(
            bill_id=parameters["billId"],
            csv=parameters["includeCsvFormat"],
            meter_ids=tuple(filters.get("meterIds", ())),
        )
