"""Prefect flows around the verbs of `meterlake.pipeline`: schedules, retries, fan-out, artifacts.

Importing this package sets what Prefect needs to be quiet and to work offline, so it has to be
imported before Prefect, which reads its settings when it is imported.
"""

import os
from typing import Final

from meterlake.model.redaction import redact_logs

ENVIRONMENT: Final = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # A temporary server takes 8 to 17 s on two cores; Prefect gives up after 20.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}

# Before Prefect makes its first record: its logs go into its database.
redact_logs()
for _name, _value in ENVIRONMENT.items():
    os.environ.setdefault(_name, _value)
