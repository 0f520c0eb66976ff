"""Lookup tables: values by key that calculations read, in revisions that are published one at a time."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, WithJsonSchema

from meterlake.model.errors import NotFound
from meterlake.model.values.entity import Configuration, Entity, Record, Value
from meterlake.model.values.fields import (
    Code,
    CustomFieldMap,
    FileLength,
    Id,
    Instant,
    Integer,
    Name,
    Ordinal,
    Text,
)
from meterlake.model.values.ids import derived_id

# What one request may write or read.
ITEMS_MAX: Final = 2000
# What one file may hold.
FILE_MAX: Final = 100 << 20
FILE_NAME_MAX: Final = 100


class LookupTableRevisionFieldType(StrEnum):
    """What a field of a revision holds."""

    STRING = "STRING"
    NUMBER = "NUMBER"


class LookupTableRevisionStatus(StrEnum):
    """Where a revision stands: only drafts are written, only the published one is looked up."""

    DRAFT = "DRAFT"
    PUBLISHED = "PUBLISHED"
    ARCHIVED = "ARCHIVED"


class LookupTableDataJobType(StrEnum):
    """What a job does with the data of a revision."""

    COPY = "COPY"
    UPLOAD = "UPLOAD"
    DOWNLOAD = "DOWNLOAD"
    ARCHIVE = "ARCHIVE"


class LookupTableDataJobStatus(StrEnum):
    """How a job ended."""

    PENDING = "PENDING"
    FAILED = "FAILED"
    SUCCEEDED = "SUCCEEDED"


class LookupTableFileType(StrEnum):
    """How a file writes items."""

    CSV = "text/csv"
    JSONL = "application/jsonl"

    @property
    def suffix(self) -> str:
        """The end of such a file's name."""
        return f".{self.name.lower()}"


class LookupTableDataUploadRequest(Value):
    """The file of items that will come, and the version of the data that it is meant for."""

    file_name: Annotated[Text, Field(min_length=1, max_length=FILE_NAME_MAX)]
    content_type: LookupTableFileType
    content_length: Annotated[FileLength, Field(le=FILE_MAX)]
    version: Integer | None = None


class LookupTableDataDownloadJobRequest(Value):
    """How a file of items is to be written."""

    content_type: LookupTableFileType


class LookupTableDataArchivedRequest(LookupTableDataDownloadJobRequest):
    """How the file of archived items is to be written."""


class LookupTable(Entity):
    """A named table of values; its revisions hold them."""

    name: Name
    code: Code
    custom_fields: CustomFieldMap = Field(default_factory=dict)


_FIELD_NAME: Final = r"^[\p{L}_$][\p{L}_$0-9]*$"
FieldName = Annotated[
    Text,
    Field(min_length=1, max_length=256, pattern=_FIELD_NAME),
    WithJsonSchema({"type": "string", "pattern": _FIELD_NAME, "minLength": 1, "maxLength": 256}),
]


class LookupTableRevisionField(Value):
    """One column of a revision."""

    type: LookupTableRevisionFieldType
    name: FieldName = Field(
        description="The contract lets it out; without it nothing finds the value."
    )


class LookupTableRevision(Entity):
    """The columns of a table at one time, and which of them are its key, in order."""

    lookup_table_id: Id
    name: Name
    fields: Annotated[tuple[LookupTableRevisionField, ...], Field(min_length=2, max_length=10)]
    keys: Annotated[tuple[Text, ...], Field(min_length=1, max_length=5)]
    start_date: Instant | None = None
    custom_fields: CustomFieldMap = Field(default_factory=dict)


class LookupTableRevisionState(Entity):
    """meterlake's own record of a revision; without it, a revision is a draft without data.

    An entity of its own, so that the history tells which revision was published when. Its version
    is the version of the revision's data.
    """

    lookup_table_id: Id
    revision_id: Id
    status: LookupTableRevisionStatus = LookupTableRevisionStatus.DRAFT
    item_count: Ordinal = 0


def state_id(revision_id: str) -> str:
    """The id of the state of a revision."""
    return derived_id("lookup table revision state", revision_id)


def state_of(revision_id: str, configuration: Configuration) -> LookupTableRevisionState | None:
    """The state of a revision, or None for a draft that never had data."""
    try:
        return configuration.get(LookupTableRevisionState, state_id(revision_id)).entity
    except NotFound:
        return None


def active_revision(
    table: Record[LookupTable], configuration: Configuration
) -> Record[LookupTableRevision] | None:
    """The published revision of a table, or None."""
    for state in configuration.where(LookupTableRevisionState, "lookup_table_id", table.id):
        if state.entity.status is LookupTableRevisionStatus.PUBLISHED:
            return configuration.get(LookupTableRevision, state.entity.revision_id)
    return None


def readable_revision(
    table: Record[LookupTable], configuration: Configuration
) -> Record[LookupTableRevision] | None:
    """The revision whose columns calculations are checked against, or None.

    Before the first one is published it is the first draft: so a table and what reads it are
    configured together. Nothing is looked up before it is published.
    """
    found = active_revision(table, configuration)
    if found is not None:
        return found
    revisions = list(configuration.where(LookupTableRevision, "lookup_table_id", table.id))
    states = [state_of(each.id, configuration) for each in revisions]
    if any(
        state is not None and state.status is not LookupTableRevisionStatus.DRAFT
        for state in states
    ):
        return None
    return min(revisions, key=lambda each: (each.created, each.id), default=None)
