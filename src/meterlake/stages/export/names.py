"""Names of exported objects. They follow from the job, so that a second attempt finds the first's."""

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SHOWN_MAX: Final = 60


class Format(StrEnum):
    """How the files of an export are written."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"

    @property
    def suffix(self) -> str:
        """The end of a file's name."""
        return ".parquet" if self is Format.PARQUET else f".{self.value}.gz"


class Part(NamedTuple):
    """One file of an export.

    Attributes:
        type: What it holds, as `type=` in the key.
        id: What tells it from others of its type in the same export; never shown.
        label: What people tell it by, such as a meter's code.
    """

    type: str
    id: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the objects of one job go: below its organization, by the hour of its creation."""

    org_id: str
    job_id: str
    created: datetime

    def file_key(self, part: Part, format: Format) -> str:
        """The key of a file: `orgId=…/date=…/hour=…/type=…/<uuid>_<label>_<type>.csv.gz`."""
        unique = uuid.uuid5(uuid.UUID(self.job_id), f"{part.type}/{part.id}/{format}")
        label = _UNSAFE.sub("-", part.label).strip(".-")[:_SHOWN_MAX]
        name = "_".join(filter(None, (str(unique), label, part.type))) + format.suffix
        return f"{self._hour()}/type={part.type}/{name}"

    def manifest_key(self) -> str:
        """The key of the manifest: `orgId=…/date=…/hour=…/<job id>_manifest.json`."""
        return f"{self._hour()}/{self.job_id}_manifest.json"

    def _hour(self) -> str:
        created = self.created.astimezone(UTC)
        return f"orgId={self.org_id}/date={created:%Y-%m-%d}/hour={created:%H}"
