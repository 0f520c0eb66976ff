"""Child processes that end when we do, however that happens."""

import multiprocessing
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Final

Child = subprocess.Popen[bytes]

# More than the grace that the API gives its requests: who is killed loses what it was writing.
_STOP_S: Final = 10
_POLL_S: Final = 0.1


@contextmanager
def child(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path | None = None,
    log: IO[bytes] | None = None,
) -> Iterator[Child]:
    """Run a command as a child while the body runs; it has to call `end_with_parent`.

    Args:
        command: The program and its arguments.
        environment: All of its environment.
        folder: Where it runs; here if None.
        log: Where its output goes; to ours if None.
    """
    process = subprocess.Popen(  # noqa: S603
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=None if log is None else subprocess.STDOUT,
        # Ctrl-C on the terminal is ours alone to handle: children end in the right order.
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _stop(process)


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(process: Child) -> int:
    """Wait until a child ends by itself, open to Ctrl-C; its exit code."""
    # Polars restarts system calls that SIGINT interrupts: a plain `wait` would go on for ever.
    while (code := process.poll()) is None:
        time.sleep(_POLL_S)
    return code


def _stop(process: Child) -> None:
    assert process.stdin is not None
    process.stdin.close()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def end_with_parent() -> None:
    """Stop this process when its standard input ends: only the parent holds the other end."""
    threading.Thread(target=_until_input_ends, daemon=True).start()


def end_with_supervisor() -> None:
    """Stop this process when the one that spawned it with `multiprocessing` ends, if one did.

    A supervisor that is killed stops nobody: its workers would hold the port for ever.
    """
    supervisor = multiprocessing.parent_process()
    if supervisor is not None:
        threading.Thread(target=_until_ended, args=(supervisor,), daemon=True).start()


def _until_input_ends() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _until_ended(supervisor: BaseProcess) -> None:
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)
