"""Uploads: what may be asked for, and where the job of a file stands."""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from meterlake.model.values.entity import Value
from meterlake.model.values.fields import FileLength, Text

NAME_MAX: Final = 100
CONTENT_TYPE_MAX: Final = 100
LENGTH_MAX: Final = 1 << 30
# What an HTTP header may hold: a content type is sent back to us in one.
_VISIBLE: Final = r"^[!-~](?:[ -~]*[!-~])?$"


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
