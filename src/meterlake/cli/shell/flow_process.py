"""A module of `flows` in a process of its own: it imports Prefect, which commands never do."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

_POLL_S: Final = 0.1


def run_flow_module(
    module: str, arguments: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})
) -> int:
    """Run a module with this process's input and output until it ends.

    Args:
        module: Such as `flows.demo`.
        arguments: Those of its command line.
        environment: What it has besides this process's.

    Returns:
        Its exit code.

    Raises:
        KeyboardInterrupt: Ctrl-C reached it and us.
    """
    command = [sys.executable, "-m", module, *arguments]
    # A folder named `flows` in the working directory must not be taken for ours.
    given = {**os.environ, **environment, "PYTHONSAFEPATH": "1"}
    sys.stdout.flush()
    with subprocess.Popen(command, env=given) as child:  # noqa: S603 - our own program
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        interrupted = False
        while child.poll() is None:
            try:
                time.sleep(_POLL_S)
            except KeyboardInterrupt:
                interrupted = True  # It reached the child, too, which stops its own children first.
    if interrupted:
        raise KeyboardInterrupt
    return child.returncode
