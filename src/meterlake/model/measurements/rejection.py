"""Rejected rows: the reasons, and what is kept of each row."""

from enum import StrEnum
from typing import NamedTuple


class Reason(StrEnum):
    """Why a row was rejected, or a whole file could not be read."""

    # One row.
    MALFORMED_ROW = "MalformedRow"
    UNDEFINED_METER = "UndefinedMeter"
    MISSING_FIELD = "MissingField"
    UNKNOWN_FIELD = "UnknownField"
    DUPLICATE_FIELD = "DuplicateField"
    INVALID_NUMBER = "InvalidNumber"
    INVALID_TEXT = "InvalidText"
    INVALID_TIMESTAMP = "InvalidTimestamp"
    FUTURE_TIMESTAMP = "FutureTimestamp"
    INVALID_UID = "InvalidUid"
    INVALID_ACCOUNT_CODE = "InvalidAccountCode"
    DUPLICATE_UID = "DuplicateUid"
    # One derived field of a row: the measurement is kept without it.
    CALCULATION_ERROR = "CalculationError"
    # A whole file.
    UNKNOWN_FORMAT = "UnknownFormat"
    DAMAGED_COMPRESSION = "DamagedCompression"
    INVALID_ENCODING = "InvalidEncoding"
    MISSING_HEADER = "MissingHeader"
    TOO_MANY_COLUMNS = "TooManyColumns"
    DUPLICATE_COLUMN = "DuplicateColumn"
    DAMAGED_FILE = "DamagedFile"
    TOO_LARGE = "TooLarge"
    NO_ACCOUNT = "NoAccount"


class Rejection(NamedTuple):
    """One row that was not accepted; the columns of `rejected` that ingest knows row by row."""

    row: int
    reason: Reason
    detail: str
    original: str = ""
    part: int = 0
    field: str | None = None
    meter: str | None = None
    uid: str | None = None
    # The row in the wire's shape, as far as it could be read as one: to be edited or tried again.
    measurement: str | None = None

    def place(self) -> tuple[int, int]:
        """Where it stands in its file, for sorting."""
        return self.row, self.part
