"""Prefect's lines in the form of all log lines, with the run that they are about."""

import logging
from typing import Any

from meterlake.model.values.log_lines import LogLine


class FlowLogLine(LogLine):
    """A record of Prefect; what its configuration says of forms is left out."""

    def __init__(self, **_: Any) -> None:
        super().__init__()

    def format(self, record: logging.LogRecord) -> str:
        """The line, which names the run where the record has one."""
        run = getattr(record, "task_run_name", None) or getattr(record, "flow_run_name", None)
        if run is None:
            return super().format(record)
        shown = logging.makeLogRecord(record.__dict__)
        shown.msg, shown.args = f"{run!r}: {record.getMessage()}", ()
        return super().format(shown)
