"""Which kinds of work there are, and which runner carries the tasks of a fan-out."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from meterlake.model.errors import Invalid

_DASK_PORT: Final = 8786
_DASK_URL: Final = re.compile(
    r"dask://(?P<host>[A-Za-z0-9._-]+|\[[0-9a-fA-F:]+\])(:(?P<port>\d+))?"
)
_RULE: Final = "it must be threads, processes, dask, or dask://host:port"


class JobKind(StrEnum):
    """What a job is for: all of them are rows of one table."""

    BILL = "bill"
    EXPORT = "export"
    # The closing of a month: whoever does it takes it, step by step.
    CLOSING = "closing"
    # What somebody asks for over the API about the closing of a month.
    CLOSING_STEP = "closing_step"
    # One step of a backfill.
    BACKFILL = "backfill"
    # A file of measurements that comes through a signed URL.
    UPLOAD = "upload"
    # The data of a lookup table: a file that comes or is made, or what was done at once.
    LOOKUP = "lookup"
    # One version of one object of a bucket inbox.
    INBOX_OBJECT = "inbox_object"
    # The statement of a bill: its usage in detail, as files.
    STATEMENT = "statement"
    # A bill that goes to somebody by e-mail.
    BILL_LETTER = "bill_letter"
    # The documents of many bills as one file.
    BILL_DOCUMENTS = "bill_documents"
    # The quantities of a period, which somebody asks for over the API.
    QUANTITIES = "quantities"
    # Something that is handed over to another system: a notification to a webhook, a bill.
    INTEGRATION_RUN = "integration_run"


class RunnerKind(StrEnum):
    """What carries tasks; the values stand on the command line."""

    THREADS = "threads"
    PROCESSES = "processes"
    DASK = "dask"


@dataclass(frozen=True, slots=True)
class FanOutRunner:
    """What carries the tasks of a fan-out.

    Attributes:
        address: The Dask scheduler; None if a cluster is started on this machine.
    """

    kind: RunnerKind
    address: str | None = None

    @classmethod
    def parse(cls, text: str, field: str = "--runner") -> "FanOutRunner":
        """Read a runner as people write it.

        Args:
            text: Such as `processes`, or `dask://scheduler:8786`.
            field: Where it was written.

        Raises:
            Invalid: It is none; the nearest right word is named.
        """
        if text in set(RunnerKind):
            return cls(RunnerKind(text))
        found = _DASK_URL.fullmatch(text)
        if found is not None and 0 < int(found["port"] or _DASK_PORT) < 1 << 16:
            return cls(RunnerKind.DASK, f"tcp://{found['host']}:{found['port'] or _DASK_PORT}")
        near = get_close_matches(text.partition("://")[0].casefold(), RunnerKind, n=1)
        raise Invalid(field, text, f"{_RULE}{f'; did you mean {near[0]}?' if near else ''}")

    def __str__(self) -> str:
        return self.kind if self.address is None else self.address.replace("tcp", "dask", 1)
