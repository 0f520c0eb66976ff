"""Where a job stands."""

from enum import StrEnum
from typing import Final


class JobStatus(StrEnum):
    """Where a job stands."""

    # It cannot begin yet: the file that it is for did not come.
    AWAITING_FILE = "AWAITING_FILE"
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"

    @property
    def description(self) -> str:
        """As the end of a sentence about the job."""
        return _DESCRIPTIONS[self]


_DESCRIPTIONS: Final = {
    JobStatus.AWAITING_FILE: "it waits for its file",
    JobStatus.PENDING: "it waits",
    JobStatus.RUNNING: "it is running",
    JobStatus.COMPLETE: "it has succeeded",
    JobStatus.FAILED: "it has failed",
    JobStatus.CANCELLED: "it was cancelled",
}

# Jobs that ended so may be run again.
AGAIN: Final = (JobStatus.FAILED, JobStatus.CANCELLED)
