"""One form of all log lines: `2026-10-01T12:00:00.000Z WARNING meterlake.worker: what happened`.

A record is one line, whatever its message holds. Only mistakes of ours have more: their traceback.
"""

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final

from meterlake.model.values.redaction import redact_logs

OURS: Final = "meterlake"


class LogLine(logging.Formatter):
    """A record with its instant in UTC, its level and its logger."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the traceback of a mistake of ours behind it."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        message = " ".join(record.getMessage().splitlines())
        line = f"{at.replace('+00:00', 'Z')} {record.levelname} {record.name}: {message}"
        if record.exc_info and record.exc_info[0] and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        return f"{line}\n{record.exc_text}" if record.exc_text else line


def log_to_stderr() -> None:
    """Have this process log to its error stream; of libraries only what is wrong is news."""
    redact_logs()
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(LogLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger(OURS).setLevel(logging.INFO)
    logging.captureWarnings(capture=True)


def server_logging() -> dict[str, Any]:
    """The same for a server that configures its own: uvicorn, in each of its processes."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"line": {"()": f"{__name__}.{LogLine.__name__}"}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "line",
                "stream": "ext://sys.stderr",
            }
        },
        "root": {"handlers": ["stderr"], "level": "WARNING"},
        "loggers": {
            OURS: {"level": "INFO"},
            # It has a level of its own.
            "uvicorn.error": {"level": "WARNING"},
        },
    }
