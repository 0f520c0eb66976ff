"""Names of exported objects. They follow from the job, so that a second attempt finds the first's."""

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from meterlake.model.configuration.exports import PartitionOrder
from meterlake.model.work.export_request import Format

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SHOWN_MAX: Final = 60


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
