"""One form of all log lines: `2026-10-01T12:00:00.000Z WARNING meterlake.worker: what happened`.

A record is one line, whatever its message holds. Only mistakes of ours have more: their traceback.

What no log may hold is masked where records are made: credentials, signed links, e-mail addresses.

Every handler sees the masked record, whoever's it is: ours, uvicorn's access log, Prefect's database.
"""

import logging
import re
import sys
from datetime import UTC, datetime
from typing import Any, Final

OURS: Final = "meterlake"
_MASK: Final = "***"
_PARAMETERS: Final = (
    r"x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)"
    r"|signature|access_token|token|code|code_verifier"
)
_SECRETS: Final = r"api_?secret|client_secret|password|secret_?key|(?:access|refresh|id)_token"
# In this order: an address of a database has an @ as well.
_RULES: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), mask)
    for pattern, mask in (
        (
            r"""\b(authorization["']?\s*[:=,]\s*(?:b(?=["']))?["']?)(?:(?:bearer|basic|digest)\s+)?[^\s"',;]+""",
            rf"\1{_MASK}",
        ),
        (r"\b(bearer|basic)\s+[\w.~+/=-]{8,}", rf"\1 {_MASK}"),
        (r"\beyj[\w-]+\.[\w-]+\.[\w-]*", _MASK),
        (rf"""([?&](?:{_PARAMETERS})=)[^&\s"'<>]+""", rf"\1{_MASK}"),
        (r"""(/(?:downloads|uploads|customer|customerpages)/)[^\s"'/?<>]+""", rf"\1{_MASK}"),
        (r"(://)[^/\s@]+@", rf"\1{_MASK}@"),
        (rf"""\b((?:{_SECRETS})["']?\s*[:=]\s*["']?)[^\s"',&}}]+""", rf"\1{_MASK}"),
        (r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+", _MASK),
    )
)
# Most lines of a log hold none of these, and are done with one search.
_SUSPICIOUS: Final = re.compile(
    r"@|eyj|bearer|basic|authorization|/downloads/|/uploads/|/customer|secret|password|token|signature|code"
    r"|credential",
    re.IGNORECASE,
)
_exceptions: Final = logging.Formatter()


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


def redact(text: str) -> str:
    """A text without credentials, signatures of links, and e-mail addresses."""
    if not _SUSPICIOUS.search(text):
        return text
    for pattern, mask in _RULES:
        text = pattern.sub(mask, text)
    return text


def redact_logs() -> None:
    """Mask in every record that this process makes from now on; safe to repeat."""
    logging.setLogRecordFactory(RedactedRecord)


class RedactedRecord(logging.LogRecord):
    """A record whose message, arguments and exception are masked before any handler sees them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Formats such as that of uvicorn's access log take the arguments singly.
        if isinstance(self.args, tuple):
            self.args = tuple(map(_argument, self.args))
        text = super().getMessage()
        if redact(text) != text:
            self.msg, self.args = redact(text), ()
        if self.exc_info and not isinstance(self.exc_info, bool) and self.exc_info[0]:
            text = _exceptions.formatException(self.exc_info)
            self.exc_text = redact(text)
            if self.exc_text != text:
                self.exc_info = None  # Some handlers would format it anew.


def _argument(value: object) -> object:
    if isinstance(value, str):
        return redact(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    masked = redact(text)
    return value if masked == text else masked
