"""A TCP relay between meterlake and what it needs, as a process: it cuts, hangs and delays.

It reads commands from its standard input, one JSON object a line: `{"open": [[host, port], [host,
port]]}` listens at the first address and leads to the second one; `{"route": [host, port], "mode":
…}` changes what becomes of its connections. Each is answered by a line.

| mode   | connections that are there            | new ones               |
|--------|---------------------------------------|------------------------|
| open   | pass                                  | pass                   |
| cut    | are reset                             | are reset              |
| silent | say nothing more, until another mode  | are taken, say nothing |
| slow   | each piece comes 50 to 250 ms later   | the same               |
| deaf   | answers are kept back                 | the same               |
"""

import asyncio
import json
import random
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

Address = tuple[str, int]

_PIECE: Final = 1 << 16
_SLOW_S: Final = (0.05, 0.25)
_LINGER_NOT: Final = struct.pack("ii", 1, 0)
_ROOT: Final = Path(__file__).parents[2]


class Relay:
    """The other end of the process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def open(self, listen: Address, target: Address) -> None:
        """Begin to lead connections on."""
        self._order({"open": [listen, target]})

    def set(self, route: Address, mode: str) -> None:
        """Change what becomes of the connections of an address."""
        self._order({"route": route, "mode": mode})

    def _order(self, order: dict[str, Any]) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == "done\n", "the relay has ended"


@contextmanager
def relay() -> Iterator[Relay]:
    """Run one until the body ends."""
    command = [sys.executable, "-m", "tests.soak.relay"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=_ROOT) as process:
        try:
            yield Relay(process)
        finally:
            process.kill()


class _Route:
    """What leads from one address to another."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self._mode = "open"
        self._passable = asyncio.Event()
        self._passable.set()
        self._answers = asyncio.Event()
        self._answers.set()
        self._writers: set[asyncio.StreamWriter] = set()

    def set(self, mode: str) -> None:
        self._mode = mode
        (self._passable.clear if mode == "silent" else self._passable.set)()
        (self._answers.clear if mode == "deaf" else self._answers.set)()
        if mode == "cut":
            for writer in list(self._writers):
                _reset(writer)

    async def lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Take one connection, from its beginning to its end."""
        self._writers.add(writer)
        try:
            await self._pass()
            there, back = await asyncio.open_connection(*self._target)
        except OSError:
            _reset(writer)
        else:
            self._writers.add(back)
            answers = self._pump(there, writer, answers=True)
            await asyncio.gather(self._pump(reader, back), answers)
            self._writers.discard(back)
        finally:
            self._writers.discard(writer)

    async def _pass(self) -> None:
        await self._passable.wait()
        if self._mode == "cut":
            raise ConnectionResetError
        if self._mode == "slow":
            await asyncio.sleep(random.uniform(*_SLOW_S))

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool = False
    ) -> None:
        try:
            while data := await reader.read(_PIECE):
                if answers:
                    await self._answers.wait()
                await self._pass()
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except (OSError, RuntimeError):
            _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a router does that lost it: the peer sees no orderly end."""
    with suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    writer.transport.abort()


async def _obey(next_line: Callable[[], Any]) -> None:
    routes: dict[Address, _Route] = {}
    while line := await asyncio.to_thread(next_line):
        order = json.loads(line)
        if "open" in order:
            (host, port), target = order["open"]
            route = routes[host, port] = _Route(tuple(target))
            await asyncio.start_server(route.lead, host, port)
        else:
            routes[tuple(order["route"])].set(order["mode"])
        sys.stdout.write("done\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_obey(sys.stdin.readline))
