"""A throw-away PostgreSQL server for tests; as root it runs as the user `postgres`."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

START_S = 180
OPTIONS = {
    "fsync": "off",
    "full_page_writes": "off",
    "listen_addresses": "",
    "log_min_messages": "fatal",
    "shared_buffers": "32MB",
    "synchronous_commit": "off",
}


def program(name: str) -> str | None:
    """Where a program of the server is, or None."""
    # Debian's wrappers in PATH want a cluster of their own; the real programs lie here.
    packaged = sorted(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")))
    return packaged[-1] if packaged else shutil.which(name)


def missing() -> str | None:
    """Why no server can be started here, or None."""
    absent = [name for name in ("initdb", "postgres", "pg_isready") if program(name) is None]
    return f"PostgreSQL's {', '.join(absent)} not found" if absent else None


class Server:
    """One server in a folder of its own, reached by a socket there."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pg-"))
        self._identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of its first database."""
        return f"postgresql://meterlake@/postgres?host={self.folder}"

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def run(self, name: str, *words: str) -> None:
        """Run one of the server's programs as its user."""
        subprocess.run(
            [program(name), *words], check=True, stdout=subprocess.DEVNULL, **self._common()
        )

    def _common(self) -> dict[str, Any]:
        environment = {**os.environ, "HOME": str(self.folder), "TZ": "UTC"}
        return {"cwd": self.folder, "env": environment, **self._identity}

    def initialize(self) -> None:
        """Make an empty cluster."""
        self.run(
            "initdb",
            *("-D", self._data, "-U", "meterlake", "-A", "trust", "-E", "UTF8"),
            *("--locale=C", "--no-sync"),
        )

    def follow(self, primary: "Server") -> None:
        """Make a copy of a primary, which streams what it commits."""
        names = ("-h", str(primary.folder), "-U", "meterlake", "-D", self._data)
        self.run("pg_basebackup", *names, "-R", "-c", "fast")

    def start(self, **options: str) -> None:
        """Start it and wait until it answers."""
        options = {**OPTIONS, **options, "unix_socket_directories": str(self.folder)}
        settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [program("postgres"), "-D", self._data, *settings],
                stdout=log,
                stderr=log,
                **self._common(),
            )
        _wait(self.folder, self._process)

    def promote(self) -> None:
        """Make a copy the primary."""
        self.run("pg_ctl", "promote", "-w", "-D", self._data)

    def kill(self) -> None:
        """End all its processes as a loss of power does."""
        assert self._process is not None
        found = subprocess.run(
            ["pgrep", "-P", str(self._process.pid)], check=False, capture_output=True, text=True
        )
        for process in (self._process.pid, *map(int, found.stdout.split())):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self._process.wait(START_S)
        self._process = None

    def remove(self) -> None:
        """End it, with the sessions that are left, and remove its folder."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(START_S)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def postgres() -> Iterator[str]:
    """A running server: `postgresql://…` of its first database, reached by a socket only."""
    server = Server()
    try:
        server.initialize()
        server.start()
        yield server.url
    finally:
        server.remove()


class Pair(NamedTuple):
    """A primary, a standby that has all that it commits, and the URL of whichever can write."""

    primary: Server
    standby: Server
    url: str


@contextmanager
def postgres_pair() -> Iterator[Pair]:
    """A primary that acknowledges a commit only when its standby has it."""
    primary, standby = Server(), Server()
    try:
        primary.initialize()
        primary.start(synchronous_commit="on")
        standby.follow(primary)
        standby.start(synchronous_commit="on")
        _order(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
        _order(primary, "SELECT pg_reload_conf()")
        hosts = f"{primary.folder},{standby.folder}"
        url = f"postgresql://meterlake@/postgres?host={hosts}&target_session_attrs=read-write"
        yield Pair(primary, standby, url)
    finally:
        primary.remove()
        standby.remove()


def _order(server: Server, statement: str) -> None:
    server.run(
        "psql", "-h", str(server.folder), "-U", "meterlake", "-d", "postgres", "-qc", statement
    )


def _wait(folder: Path, server: subprocess.Popen[bytes]) -> None:
    ready = [program("pg_isready"), "-q", "-h", str(folder), "-U", "meterlake", "-d", "postgres"]
    until = time.monotonic() + START_S
    while subprocess.run(ready, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError((folder / "log").read_text())
        time.sleep(0.02)
