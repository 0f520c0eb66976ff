"""The other end of `child.py`: starts one within limits, asks it, and kills it when it takes too long."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from meterlake.model.custom_sql import InvalidSql
from meterlake.model.errors import Unavailable
from meterlake.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa


Mode = Literal["check", "run"]
_CHILD: Final = Path(__file__).with_name("child.py")
_LIBRARIES: Final = ("duckdb", "pyarrow")
_NO_MEMORY: Final = 77
# However busy the machine is.
_START_S: Final = 60
# The tree of the longest query has some hundred kilobytes.
_ANSWER_MAX: Final = 16 * 2**20
_PIECE: Final = 2**16


class Ended(InvalidSql):
    """The process that planned or ran a query is no more: it was killed, by us or not."""


class Process:
    """A child that answers one request after the other; for one thread.

    Args:
        mode: Whether queries are run there, or only checked.
        memory: What a query may take, such as `256MB`.

    Attributes:
        memory: The same.
        waits: Whether it waits for a request; else its answer to the last one may still come.

    Raises:
        Unavailable: It cannot be started.
    """

    def __init__(self, mode: Mode, memory: str) -> None:
        self.memory = memory
        self.waits = False
        self._socket, theirs = socket.socketpair()
        with theirs:
            try:
                folders = dict.fromkeys(str(_folder(name)) for name in _LIBRARIES)
                # Nothing of ours but where libraries are found; each of the others starts threads, or takes
                # memory in advance.
                kept = {
                    name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ
                }
                environment = {
                    **kept,
                    "TZ": "UTC",
                    "ARROW_DEFAULT_MEMORY_POOL": "system",
                    "OMP_NUM_THREADS": "1",
                    "OPENBLAS_NUM_THREADS": "1",
                }
                self._child = subprocess.Popen(  # noqa: S603 - our own program
                    [sys.executable, "-I", "-S", str(_CHILD), mode, memory, *folders],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                self._socket.close()
                raise _unavailable(error.strerror or str(error)) from error
        try:
            self._answer(monotonic() + _START_S)
        except Ended as error:
            self.close()
            raise _unavailable(error.reason) from error

    @property
    def pid(self) -> int:
        """The id of the process, and of its group."""
        return self._child.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End it at once, with its group."""
        # Not after it was waited for: then its id may be another's.
        if self._child.returncode is None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)
            self._child.wait()
        self._socket.close()

    def ask(
        self, do: str, seconds: float, rows: "pa.Table | None" = None, **request: object
    ) -> dict[str, Any]:
        """What it answers.

        Args:
            do: What it shall do: a method of the child.
            seconds: How long it may take.
            rows: Measurements that go with the request.
            request: What else the request says.

        Raises:
            Ended: It took too long or too much memory, or ended by itself; it is of no more use.
            InvalidSql: DuckDB's error.
        """
        deadline = monotonic() + seconds
        self.waits = False
        if rows is not None:
            request["bytes"] = rows.nbytes
        try:
            self._socket.settimeout(seconds)
            self._socket.sendall(
                json.dumps({"do": do, "seconds": seconds, **request}).encode() + b"\n"
            )
            if rows is not None:
                import pyarrow as pa  # noqa: PLC0415 - it takes long, and is there if there are rows

                # pyarrow asks what it writes to whether it is closed, and flushes it.
                with (
                    self._socket.makefile("wb") as sink,
                    pa.ipc.new_stream(sink, rows.schema) as stream,
                ):
                    stream.write_table(rows)
        except TimeoutError:
            raise self._late(seconds) from None
        except OSError:
            raise self._gone() from None
        answer = self._answer(deadline, seconds)
        if "error" in answer:
            error = _describe_refusal(answer, self.memory)
            if answer.get("over"):
                self.close()
                raise Ended(*error.args)
            raise error
        return answer

    def _answer(self, deadline: float, seconds: float = _START_S) -> dict[str, Any]:
        found = bytearray()
        while not found.endswith(b"\n"):
            try:
                self._socket.settimeout(max(deadline - monotonic(), 0.001))
                piece = self._socket.recv(_PIECE)
            except TimeoutError:
                raise self._late(seconds) from None
            except OSError:
                piece = b""
            if not piece:
                raise self._gone()
            found += piece
            if len(found) > _ANSWER_MAX:
                self.close()
                raise Ended("it is too much to plan")
        answer = json.loads(found)
        assert isinstance(answer, dict)
        self.waits = True
        return answer

    def _late(self, seconds: float) -> Ended:
        self.close()
        return Ended(f"it takes longer than {seconds:g} s")

    def _gone(self) -> Ended:
        """Why there is nobody any more."""
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(1)
        self.close()
        code = self._child.returncode
        if code == _NO_MEMORY:
            return Ended(_memory(self.memory))
        if code == -signal.SIGXCPU:
            return Ended("it takes longer than it may")
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return Ended(f"the process that ran it ended ({how})")


def _folder(library: str) -> Path:
    """Where a library is imported from, without importing it."""
    spec = find_spec(library)
    assert spec is not None, library
    assert spec.origin is not None, library
    return Path(spec.origin).absolute().parents[1]


def _describe_refusal(answer: Mapping[str, Any], memory: str) -> InvalidSql:
    """What DuckDB says, with the place if it tells one."""
    text = str(answer["error"])
    if text == "memory":
        return InvalidSql(_memory(memory))
    try:
        found = json.loads(text[text.find("{") :])
    except ValueError:
        return InvalidSql(text.partition("\n")[0])
    position = found.get("position")
    reason = str(found.get("exception_message", text)).partition("\n")[0]
    if not position:
        return InvalidSql(reason)
    return InvalidSql(reason, max(int(position) - int(answer["moved"]), 0))


def _memory(memory: str) -> str:
    return f"it needs more memory than {memory}"


def _unavailable(detail: str) -> Unavailable:
    return Unavailable("the process of custom SQL", detail)


class SqlLimits(NamedTuple):
    """What the SQL of an aggregation may take.

    Attributes:
        memory: Such as `256MB`, for one account; nothing is put on disk.
        seconds: How long it may be planned and run for one account.
        run_seconds: How long it may take for all accounts of a run together.
    """

    memory: str = "256MB"
    seconds: float = 10
    run_seconds: float = 3600


LIMITS: Final = SqlLimits()


def limits_of(settings: Settings) -> SqlLimits:
    """The limits that the settings name."""
    return SqlLimits(
        settings.custom_sql_memory, settings.custom_sql_seconds, settings.custom_sql_run_seconds
    )
