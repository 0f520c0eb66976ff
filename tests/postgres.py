"""A throw-away PostgreSQL server for tests; as root it runs as the user `postgres`."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_S = 20
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


@contextmanager
def postgres() -> Iterator[str]:
    """A running server: `postgresql://…` of its first database, reached by a socket only."""
    folder = Path(
        tempfile.mkdtemp(prefix="pg-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    )
    identity: dict[str, Any] = {}
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)
        identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    common = {"cwd": folder, "env": {**os.environ, "HOME": str(folder), "TZ": "UTC"}, **identity}
    data = folder / "data"
    make = [
        "-D",
        str(data),
        "-U",
        "meterlake",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
    ]
    subprocess.run([program("initdb"), *make], check=True, stdout=subprocess.DEVNULL, **common)
    options = {**OPTIONS, "unix_socket_directories": str(folder)}
    settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [program("postgres"), "-D", str(data), *settings], stdout=log, stderr=log, **common
        )
    try:
        _wait(folder, server)
        yield f"postgresql://meterlake@/postgres?host={folder}"
    finally:
        server.send_signal(signal.SIGINT)  # it ends the sessions that are left
        server.wait(START_S)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(folder: Path, server: subprocess.Popen[bytes]) -> None:
    ready = [program("pg_isready"), "-q", "-h", str(folder), "-U", "meterlake", "-d", "postgres"]
    until = time.monotonic() + START_S
    while subprocess.run(ready, check=False).returncode != 0:
        if server.poll() is not None or time.monotonic() > until:
            raise RuntimeError((folder / "log").read_text())
        time.sleep(0.02)
