"""The server process: `python -m meterlake.api`; `meterlake serve` starts it as a child."""

import logging
import sys
from typing import Annotated, Final

import uvicorn
from cyclopts import App, Parameter

from meterlake.api.server.protocol import TimedProtocol
from meterlake.model.values.log_lines import redact_logs, server_logging
from meterlake.stores.processes import end_with_parent

# Less than `meterlake serve` waits before it kills: a request that hangs must not cost the others.
_GRACE_S: Final = 8


def run(
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    workers: int = 1,
    as_child: Annotated[bool, Parameter(negative="", show=False)] = False,
) -> None:
    """Answer requests until stopped; what was begun is finished first.

    Args:
        host: The address to listen on.
        port: The port.
        workers: How many processes answer.
        as_child: Stop when standard input ends, too.
    """
    if as_child:
        end_with_parent()
    redact_logs()
    logging.captureWarnings(capture=True)
    # Nobody prints them, and every line of the access log would ask for them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    uvicorn.run(
        "meterlake.console.app:app",
        factory=True,
        host=host,
        port=port,
        workers=workers,
        log_config=server_logging(),
        access_log=False,
        server_header=False,
        http=TimedProtocol,
        ws="none",
        timeout_graceful_shutdown=_GRACE_S,
    )


if __name__ == "__main__":
    App(default_command=run, result_action="return_value")()
    sys.exit(0)
