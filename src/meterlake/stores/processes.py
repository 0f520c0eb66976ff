"""Child processes that end when we do, however that happens."""

import multiprocessing
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import IO, Final

from meterlake.model.errors import Busy
from meterlake.stores.files.locks import hold_lock

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
    error = None if log is None else subprocess.STDOUT
    process = _start(command, environment, folder, log, error)
    try:
        yield process
    finally:
        stop(process)


def answering(command: Sequence[str], environment: Mapping[str, str], folder: Path | None) -> Child:
    """Start a child that reads orders and writes answers, a line each; whoever has it stops it.

    Args:
        command: The program and its arguments; it has to call `orders`.
        environment: All of its environment.
        folder: Where it runs; here if None.
    """
    return _start(command, environment, folder, subprocess.PIPE)


def _start(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: Path | None,
    output: IO[bytes] | int | None,
    error: int | None = None,
) -> Child:
    return subprocess.Popen(  # noqa: S603
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=error,
        # Ctrl-C on the terminal is ours alone to handle: children end in the right order.
        start_new_session=True,
    )


@contextmanager
def reserve_port(port: int) -> Iterator[bool]:
    """Whether a port of 127.0.0.1 is free, for whoever listens there while the body runs.

    Nobody else who asks so gets it meanwhile, although the port stays open for who listens.
    """
    path = Path(tempfile.gettempdir(), f"meterlake-port-{os.getuid()}-{port}")
    with ExitStack() as stack:
        try:
            stack.enter_context(
                hold_lock(
                    path,
                    Busy(
                        "the port", "another server has it; choose another port, or end that server"
                    ),
                )
            )
            with socket.socket() as probe:
                # What a server that has just ended leaves is no obstacle to servers.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except (Busy, OSError):
            stack.close()
            yield False
            return
        yield True


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


def stop(process: Child) -> None:
    """End a child: it is asked to, and killed if it takes too long."""
    assert process.stdin is not None
    with suppress(BrokenPipeError):  # It has ended, with an order that it never read.
        process.stdin.close()
    try:
        process.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def end_with_parent() -> None:
    """Stop this process when its standard input ends: only the parent holds the other end."""
    threading.Thread(target=_until_input_ends, daemon=True).start()


def orders(order: Callable[[bytes], object]) -> None:
    """Call a function with each line that the parent writes, on a thread; end when it ends.

    Lines are read at once, whatever this process does: a parent never waits for a full pipe.
    """
    threading.Thread(target=_read_orders, args=(order,), daemon=True).start()


def answers() -> IO[bytes]:
    """Where the parent reads answers; what else is printed goes to the error stream from now on."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(kept, "wb", buffering=0)


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


def _read_orders(order: Callable[[bytes], object]) -> None:
    rest = b""
    while block := os.read(0, 1 << 16):
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            order(line)
    os.kill(os.getpid(), signal.SIGTERM)


def _until_ended(supervisor: BaseProcess) -> None:
    supervisor.join()
    os.kill(os.getpid(), signal.SIGTERM)
