"""Machines of the soak: each has a home, processes, perhaps a network and a clock of its own."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import IO, Final

import httpx

from meterlake.settings import Settings
from meterlake.stores.processes import free_port
from tests.commands import command_environment
from tests.soak.clocks import shifted_clock

Process = subprocess.Popen[bytes]
SCHEDULER: Final = "Dask scheduler"
DASK_WORKER: Final = "Dask worker"
# What answers when it is asked whether it is ready, and ends well when it is asked to.
SERVERS: Final = ("api", "worker")
_DASK: Final = (SCHEDULER, DASK_WORKER)
_PORTS: Final = {"api": 8000, "worker": 8001, SCHEDULER: 8786, DASK_WORKER: 8787}
_MAIN: Final = ("-c", "from meterlake.cli import main; main()")
# A process that waits for a job uses no processor for so long.
_LOOK_S: Final = 0.3
_NUMBERS: Final = count(1)


class Network:
    """Where the processes of a machine run; this one is the network of the tests themselves."""

    host = "127.0.0.1"
    gateway = "127.0.0.1"
    command: Sequence[str] = ()

    def port(self, role: str) -> int:  # noqa: ARG002
        """A port for a process."""
        return free_port()

    def set_cable(self, *, plugged: bool) -> None:
        """A real network may be cut off; this one has no cable."""


class Namespace(Network):
    """A network namespace with a cable to a switch on this machine."""

    def __init__(self) -> None:
        number = next(_NUMBERS)
        own = f"{os.getpid() % 100000}n{number}"
        self.name = f"soak{own}"
        self._cable, self._switch = f"skc{own}", f"sks{own}"
        # A net of a machine is chosen by the process, so that two soaks do not meet.
        prefix = f"10.{200 + number}.{os.getpid() % 250}"
        self._net = f"{prefix}.0/24"
        self.gateway, self.host = f"{prefix}.1", f"{prefix}.2"
        self.command = ("ip", "netns", "exec", self.name)

    def port(self, role: str) -> int:
        """See `Network.port`."""
        return _PORTS[role]

    def set_cable(self, *, plugged: bool) -> None:
        """Pull the cable out of the switch: packets vanish, and nobody is told."""
        _ip("link", "set", self._cable, *(("master", self._switch) if plugged else ("nomaster",)))

    def make(self) -> None:
        """Make it."""
        # Whatever becomes of the switch, nothing for this net ever leaves this machine.
        _ip("route", "add", "unreachable", self._net, "metric", "4000")
        _ip("netns", "add", self.name)
        _ip("link", "add", self._switch, "type", "bridge")
        _ip("addr", "add", f"{self.gateway}/24", "dev", self._switch)
        _ip("link", "set", self._switch, "up")
        _ip("link", "add", self._cable, "type", "veth", "peer", "eth0", "netns", self.name)
        _ip("link", "set", self._cable, "master", self._switch, "up")
        # The cable has the switch's address: what comes out of it when it is pulled is not for us.
        Path(f"/proc/sys/net/ipv4/conf/{self._cable}/rp_filter").write_text("1")
        _ip("-n", self.name, "addr", "add", f"{self.host}/24", "dev", "eth0")
        for device in ("eth0", "lo"):
            _ip("-n", self.name, "link", "set", device, "up")

    def remove(self) -> None:
        """Remove it, with its cable and its switch; what can still be sent there goes nowhere."""
        for words in (
            ("netns", "del", self.name),
            ("link", "del", self._cable),
            ("link", "del", self._switch),
            ("route", "del", "unreachable", self._net, "metric", "4000"),
        ):
            with suppress(subprocess.CalledProcessError):
                _ip(*words)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@contextmanager
def namespaces(number: int) -> Iterator[list[Namespace]]:
    """Networks for machines; they go with the body.

    Raises:
        OSError: This machine does not permit it, or has no program `ip`.
    """
    made: list[Namespace] = []
    with ExitStack() as opened:
        try:
            for _ in range(number):
                made.append(Namespace())
                opened.callback(made[-1].remove)
                made[-1].make()
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            reason = getattr(error, "stderr", b"") or str(error).encode()
            raise OSError(reason.decode().strip()) from error
        yield made


def namespaces_missing() -> str | None:
    """Why no network namespaces can be made here, or None."""
    try:
        with namespaces(1) as [own]:
            subprocess.run([*own.command, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespaces: {error}"
    return None


@dataclass(slots=True)
class Service:
    """A process that is started again whenever it ends.

    Attributes:
        down_until: Before this moment (of `time.monotonic`) nobody starts it.
        exits: How often it ended by itself, by exit code.
    """

    role: str
    port: int
    process: Process | None = None
    down_until: float = 0.0
    killed: bool = False
    exits: list[int] = field(default_factory=list)


class Machine:
    """One machine.

    Args:
        name: What it is called.
        settings: What its processes are told.
        logs: The folder for what they write.
        network: Where they run.
        clock_s: How far its clock is ahead.
        dask: Whether a Dask cluster of its own, with one worker, carries its fan-outs.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        logs: Path,
        network: Network,
        clock_s: int = 0,
        *,
        dask: bool = False,
    ) -> None:
        self.name = name
        self.settings = settings
        self.network = network
        self.clock_s = clock_s
        self._logs = logs
        self._environment = command_environment(settings, METERLAKE_SEGMENT_COPIES="objects")
        if clock_s:
            self._environment |= shifted_clock(clock_s)
        roles = (*SERVERS, *(_DASK if dask else ()))
        self.services = [Service(role, network.port(role)) for role in roles]
        self.runner = f"dask://127.0.0.1:{self.service(SCHEDULER).port}" if dask else "threads"
        self._commands: set[int] = set()

    def url(self, role: str) -> str:
        """Where a process answers."""
        [port] = [each.port for each in self.services if each.role == role]
        return f"http://{self.network.host}:{port}"

    def service(self, role: str) -> Service:
        """One of its processes."""
        return next(each for each in self.services if each.role == role)

    def start(self, service: Service) -> None:
        """Start a process."""
        with self._log(service.role.replace(" ", "-")) as log:
            service.process = self._popen(self._command_of(service), log)
        service.killed = False

    def _command_of(self, service: Service) -> list[str]:
        local = ["--host", "127.0.0.1", "--no-dashboard"]
        if service.role == SCHEDULER:
            return [*_dask("scheduler"), *local, "--port", str(service.port)]
        if service.role == DASK_WORKER:
            # Without a nanny nobody else starts it again.
            address = self.runner.replace("dask://", "tcp://")
            return [*_dask("worker"), address, *local, "--nthreads", "1", "--no-nanny"]
        words = ["serve", "--api-only"] if service.role == "api" else ["worker"]
        return [*_MAIN, *words, "--host", self.network.host, "--port", str(service.port)]

    def look(self) -> None:
        """Start what has ended, and note what ended by itself."""
        for service in self.services:
            code = service.process.poll() if service.process else None
            if service.process and code is None:
                continue
            if service.process and not service.killed:
                service.exits.append(code or 0)
                service.down_until = max(service.down_until, time.monotonic() + 1)
            service.process = None
            if time.monotonic() >= service.down_until:
                self.start(service)

    def kill(self, service: Service, down_s: float) -> None:
        """End a process at once; it stays away for a while."""
        service.down_until = time.monotonic() + down_s
        if service.process and service.process.poll() is None:
            service.killed = True
            _signal(service.process, signal.SIGKILL)
            service.process.wait()

    def vanish(self, down_s: float) -> None:
        """Lose all processes at once, and the network with them, before anybody can say goodbye."""
        self.network.set_cable(plugged=False)
        for service in self.services:
            self.kill(service, down_s)
        self.kill_commands()

    def freeze(self, *, frozen: bool) -> None:
        """Stop all processes where they are, or let them go on."""
        for service in self.services:
            if service.process and service.process.poll() is None:
                _signal(service.process, signal.SIGSTOP if frozen else signal.SIGCONT)

    def stop(self, patience_s: float = 60) -> dict[str, int | None]:
        """Ask all processes to end; the exit codes, None of those that had to be killed."""
        for service in self.services:
            if service.role in _DASK:
                self.kill(service, patience_s)
        running = [each for each in self.services if each.process and each.process.poll() is None]
        for service in running:
            assert service.process
            service.killed = True
            _signal(service.process, signal.SIGTERM)
        found: dict[str, int | None] = {}
        for service in running:
            assert service.process
            try:
                found[service.role] = service.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                found[service.role] = None
                _signal(service.process, signal.SIGKILL)
        return found

    def run(self, *words: str, patience_s: float = 300) -> tuple[int, str]:
        """Run a command of meterlake to its end: its exit code, and what it says."""
        with self._log("commands") as log:
            process = self._popen([*_MAIN, *words], log, subprocess.PIPE)
            self._commands.add(process.pid)
            try:
                out, _ = process.communicate(timeout=patience_s)
            except subprocess.TimeoutExpired:
                _signal(process, signal.SIGKILL)
                out, _ = process.communicate()
                log.write(f"hung for {patience_s} s: {words}\n".encode())
                return -99, out.decode()
            finally:
                self._commands.discard(process.pid)
        return process.returncode, out.decode()

    def kill_commands(self) -> int:
        """Kill the commands that run now; how many."""
        pids = list(self._commands)
        for pid in pids:
            with suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        return len(pids)

    def kill_flow_runs(self) -> int:
        """Kill the processes that run flows for the worker and are at work now; how many."""
        before = {pid: _used(pid) for pid in self._flow_processes()}
        time.sleep(_LOOK_S)
        pids = [pid for pid, used in before.items() if _used(pid) > used]
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(pids)

    def _flow_processes(self) -> Iterator[int]:
        home = os.fsencode(self.settings.home.absolute())
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            # Whoever has just ended has no words any more.
            with suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if b"flows.runner" in words and home in words:
                    yield int(path.parent.name)

    def is_ready(self, role: str) -> bool:
        """Whether a server says that it is ready; Dask is not asked."""
        if role not in SERVERS:
            return False
        try:
            return httpx.get(f"{self.url(role)}/readyz", timeout=5).is_success
        except httpx.HTTPError:
            return False

    def _popen(self, words: Sequence[str], log: IO[bytes], out: int | None = None) -> Process:
        return subprocess.Popen(
            [*self.network.command, sys.executable, "-W", "ignore", *words],
            env=self._environment,
            cwd=self.settings.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL if out is None else out,
            stderr=log,
            start_new_session=True,
        )

    def _log(self, role: str) -> IO[bytes]:
        return (self._logs / f"{self.name}-{role}.log").open("ab")


def _used(pid: int) -> int:
    """How much of a processor a process has used, in ticks; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return int(fields[11]) + int(fields[12])


def _dask(kind: str) -> list[str]:
    return ["-m", f"distributed.cli.dask_{kind}"]


def _signal(process: Process, number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
