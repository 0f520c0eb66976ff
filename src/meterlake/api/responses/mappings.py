"""Bodies and answers about mappings: how files of other programs are read."""

from typing import Annotated, Any

from pydantic import Field

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import Instant, Integer, Text


class MappingTrialRequest(Value):
    """A file, or its beginning, and the mapping to try; none for files in meterlake's own format."""

    name: Annotated[Text, Field(min_length=1, max_length=200)] = Field(
        description="The name that the file would come under."
    )
    content: Text = Field(description="Its bytes in base64, 1,000,000 of them at most.")
    mapping: dict[str, Any] | None = Field(None, description="As in a mapping's file.")


class TriedMeasurement(Value):
    """A measurement that a row becomes; its fields by `<category>.<field>`, as they are stored."""

    meter: Text
    account: Text
    uid: Text
    ts: Instant
    ets: Instant | None = None
    fields: dict[str, Text]


class TriedRejection(Value):
    """Why a measurement of a row would be rejected."""

    reason: Text
    field: Text | None = None
    meter: Text | None = None
    detail: Text


class TriedFileRow(Value):
    """A row of the file: its number, the texts of its columns, and what becomes of it."""

    row: Integer
    values: dict[str, Text]
    measurements: tuple[TriedMeasurement, ...]
    rejected: tuple[TriedRejection, ...]


class MappingTrialResponse(Value):
    """What the file would become: received = accepted + repeats + rejected; its first rows."""

    status: Text
    format: Text
    received: Integer
    accepted: Integer
    repeats: Integer
    rejected: Integer
    reasons: dict[Text, Integer]
    reason: Text | None = None
    detail: Text | None = None
    new_accounts: Integer
    problems: tuple[Text, ...]
    columns: tuple[Text, ...]
    rows: tuple[TriedFileRow, ...]


class MappingSaveRequest(Value):
    """A mapping, as it stands in its file; `name` is that of the path if it is absent."""

    name: Text | None = None
    files: tuple[Text, ...] = Field(description="Patterns of the names of the files it is for.")
    format: Text | None = None
    delimiter: Text | None = None
    nulls: tuple[Text, ...] | None = None
    account: dict[str, Any]
    ts: Any = Field(description="The column of the instant, or a map that says how it is written.")
    ets: Any = None
    uid: tuple[Text, ...] = ()
    measurements: tuple[dict[str, Any], ...]


class MappingDeleteResponse(Value):
    """The mapping that is kept no more."""

    name: Text


class SavedMappingResponse(Value):
    """A saved mapping; one that cannot be read has its problem instead of its members."""

    name: Text
    mapping: dict[str, Any] | None = None
    problem: Text | None = None
    author: Text | None = None
    saved: Instant
