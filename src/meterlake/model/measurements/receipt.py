"""What became of one source: the books that must balance, and where to look further.

Uploads: what may be asked for, and where the job of a file stands.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final, Literal, NamedTuple

from pydantic import Field

from meterlake.model.measurements.rejection import Reason, Rejection
from meterlake.model.values.entity import Value
from meterlake.model.values.fields import FileLength, Text

SAMPLE_MAX: Final = 100
NAME_MAX: Final = 100
CONTENT_TYPE_MAX: Final = 100
LENGTH_MAX: Final = 1 << 30
# What an HTTP header may hold: a content type is sent back to us in one.
_VISIBLE: Final = r"^[!-~](?:[ -~]*[!-~])?$"


class Requeued(NamedTuple):
    """Where a row of a requeued source comes from: a rejected row of another source.

    `identity`, `row` and `part` are those under which it came in first, `attempt` is the attempt
    that rejected it there last. `tries` counts how often it was requeued, with this time. `status`
    is what it had when it was chosen, `author` who gives it in.
    """

    identity: str
    attempt: int
    row: int
    part: int
    tries: int
    edited: bool
    status: str = "open"
    author: str | None = None


Format = Literal["csv", "ndjson", "json", "parquet"]
Compression = Literal["gzip", "zstd", "zip"]


@dataclass(frozen=True, slots=True)
class SourceFormat:
    """How a file's bytes are to be read."""

    format: Format
    compression: Compression | None = None

    def __str__(self) -> str:
        return f"{self.format}.{self.compression}" if self.compression else self.format


@dataclass(frozen=True, slots=True)
class Delivery:
    """One arrival of one file.

    Attributes:
        id: Unique to the arrival.
        name: The file's name.
        received_at: Aware UTC.
        own: Written by ourselves out of what arrived: then equal bytes of another arrival are not
            the same measurements once more.
        origins: Where its rows come from, one by one, if all of them were rejected before.
        deaths: How many processes died at its job; None if it has none, such as a file that was
            dropped into a folder.
    """

    id: str
    name: str
    received_at: datetime
    own: bool = False
    origins: tuple[Requeued, ...] = ()
    deaths: int | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The outcome of one attempt at one source.

    `received = accepted + repeats + rejected` holds always; for a source that failed whole all
    four are zero. `sample` holds the first rejected rows, `reasons` their number by reason.
    `incomplete` counts the accepted measurements that lack a derived value; `errors` are the first
    of these values. `ignored` are columns that are not read, and names of ours that were perhaps
    meant; the ledger keeps them as the `detail` of a source that is done.
    """

    delivery: Delivery
    identity: str
    attempt: int
    sha256: str
    size_bytes: int
    format: str
    mapping: str | None
    status: Literal["done", "failed"]
    received: int = 0
    accepted: int = 0
    repeats: int = 0
    rejected: int = 0
    rounded: int = 0
    reasons: dict[Reason, int] = field(default_factory=dict)
    reason: Reason | None = None
    detail: str | None = None
    snapshot: int | None = None
    new_accounts: int = 0
    sample: tuple[Rejection, ...] = ()
    incomplete: int = 0
    errors: tuple[Rejection, ...] = ()
    ignored: dict[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        assert self.received == self.accepted + self.repeats + self.rejected, self
        assert self.rejected == sum(self.reasons.values()), self
        assert self.incomplete <= self.accepted, self

    def to_wire(self) -> dict[str, Any]:
        """The report that is written beside the file, and the line of `--json`."""
        return {
            "name": self.delivery.name,
            "status": self.status,
            "received": self.received,
            "accepted": self.accepted,
            "repeats": self.repeats,
            "rejected": self.rejected,
            "incomplete": self.incomplete,
            "rounded": self.rounded,
            "newAccounts": self.new_accounts,
            "reasons": {str(reason): count for reason, count in sorted(self.reasons.items())},
            "reason": self.reason and str(self.reason),
            "detail": self.detail,
            "ignoredColumns": [
                {"name": name, "suggestion": meant} for name, meant in self.ignored.items()
            ],
            "identity": self.identity,
            "attempt": self.attempt,
            "delivery": self.delivery.id,
            "receivedAt": self.delivery.received_at,
            "sha256": self.sha256,
            "sizeBytes": self.size_bytes,
            "format": self.format,
            "mapping": self.mapping,
            "snapshot": self.snapshot,
            "rejectedSample": [_row_document(row) for row in self.sample],
            "incompleteSample": [_row_document(row) for row in self.errors],
        }


def _row_document(row: Rejection) -> dict[str, Any]:
    return {
        "row": row.row,
        "reason": str(row.reason),
        "field": row.field,
        "meter": row.meter,
        "uid": row.uid,
        "detail": row.detail,
        "original": row.original,
    }


class History(NamedTuple):
    """What the ledger knows of a source: all its attempts, and the newest that was not refused whole."""

    attempts: int
    same_delivery: Receipt | None
    done: Receipt | None


# Of a source that never came.
UNKNOWN: Final = History(0, None, None)


class UploadStatus(StrEnum):
    """Where the job of a file stands."""

    NOT_UPLOADED = "notUploaded"
    RUNNING = "running"
    FAILED = "failed"
    SUCCEEDED = "succeeded"


class UploadRequest(Value):
    """The file that will come."""

    file_name: Annotated[Text, Field(min_length=1, max_length=NAME_MAX)]
    content_type: Annotated[
        Text, Field(min_length=1, max_length=CONTENT_TYPE_MAX, pattern=_VISIBLE)
    ]
    content_length: Annotated[FileLength, Field(le=LENGTH_MAX)]
