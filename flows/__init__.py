"""Prefect flows around the verbs of `meterlake.pipeline`: schedules, retries, fan-out, artifacts.

Importing this package sets what Prefect needs to be quiet and to work offline, so it has to be
imported before Prefect, which reads its settings when it is imported.
"""

import logging
import os
import sys
from typing import Final

from meterlake.model.errors import MeterlakeError
from meterlake.model.redaction import redact_logs

ENVIRONMENT: Final = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # A temporary server takes 8 to 17 s on two cores; Prefect gives up after 20.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


def _without_trace(record: logging.LogRecord) -> bool:
    """Tell a failure of the world, or a refusal, in one line: it says what there is to do."""
    if isinstance(sys.exception(), MeterlakeError):
        record.exc_info = record.exc_text = None
    return True


# Before Prefect makes its first record: its logs go into its database.
redact_logs()
for _name in ("prefect.flow_runs", "prefect.task_runs"):
    logging.getLogger(_name).addFilter(_without_trace)
for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)
