"""A real S3 server: Ceph's gateway over one monitor and one store in memory, on loopback.

Unlike emulators it checks signatures, so what passes here knows its secret.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ACCESS_KEY = "AKIDTEST"
SECRET_KEY = "SECRETTEST"
_PROGRAMS = (
    "ceph",
    "ceph-authtool",
    "ceph-mon",
    "ceph-osd",
    "monmaptool",
    "radosgw",
    "radosgw-admin",
)

_CONFIGURATION = """\
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:{monitor}]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
# Without authentication only the plain mode works; the default hangs.
ms mon client mode = crc
ms client mode = crc
ms cluster mode = crc
ms service mode = crc
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd crush chooseleaf type = 0
mon allow pool size one = true
mon max pg per osd = 2000
mon pg warn min per osd = 0
run dir = {folder}/run
log file = {folder}/log/$name.log
admin socket = {folder}/run/$name.asok
pid file = {folder}/run/$name.pid
[mon]
mon data = {folder}/mon
mon initial members = a
auth allow insecure global id reclaim = true
[osd]
osd data = {folder}/osd
osd objectstore = memstore
memstore device bytes = 2147483648
osd class load list = *
osd class default list = *
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{gateway}
rgw data = {folder}/rgw
keyring = {folder}/keyring
rgw enable usage log = false
rgw dynamic resharding = false
rgw sts key = abcdefghijklmnop
rgw s3 auth use sts = true
"""

# Who may assume a role, and what the role may do: write to one bucket.
TENANT = "123456789012"
MACHINE_KEY = "AKIDMACHINE"
MACHINE_SECRET = "SECRETMACHINE"
ROLE = f"arn:aws:iam::{TENANT}:role/exports"
ROLE_BUCKET = "exports"
_TRUST = {
    "Effect": "Allow",
    "Principal": {"AWS": [f"arn:aws:iam::{TENANT}:user/machine"]},
    "Action": ["sts:AssumeRole"],
}
_MAY = {
    "Effect": "Allow",
    "Action": ["s3:*"],
    "Resource": [f"arn:aws:s3:::{ROLE_BUCKET}", f"arn:aws:s3:::{ROLE_BUCKET}/*"],
}


def missing() -> str | None:
    """Why the server cannot run here; None if it can."""
    absent = [program for program in _PROGRAMS if shutil.which(program) is None]
    if absent:
        return f"not installed: {', '.join(absent)} (apt packages radosgw, ceph-mon, ceph-osd)"
    return None if os.geteuid() == 0 else "Ceph's daemons are started as root"


@contextmanager
def ceph_server(folder: Path) -> Iterator[str]:
    """Start the server with an empty state below `folder` (in some 10 s); yields its URL."""
    gateway, monitor = _free_ports(2)
    _prepare(folder, gateway, monitor)
    cluster = _Cluster(folder)
    try:
        cluster.boot(gateway)
        yield f"http://127.0.0.1:{gateway}"
    finally:
        cluster.stop()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [opened.getsockname()[1] for opened in sockets]
    for opened in sockets:
        opened.close()
    return ports


def _prepare(folder: Path, gateway: int, monitor: int) -> None:
    for name in ("mon", "osd", "rgw", "log", "run"):
        (folder / name).mkdir(parents=True)
    fsid = str(uuid.uuid4())
    (folder / "ceph.conf").write_text(
        _CONFIGURATION.format(folder=folder, fsid=fsid, gateway=gateway, monitor=monitor)
    )
    run = _Cluster(folder).run
    caps = ("--cap", "mon", "allow *", "--cap", "osd", "allow *")
    run(
        "ceph-authtool",
        "--create-keyring",
        f"{folder}/keyring",
        "--gen-key",
        "-n",
        "client.rgw",
        *caps,
    )
    run(
        "ceph-authtool",
        "--create-keyring",
        f"{folder}/mon.keyring",
        "--gen-key",
        "-n",
        "mon.",
        "--cap",
        "mon",
        "allow *",
    )
    run(
        "monmaptool",
        "--create",
        "--addv",
        "a",
        f"[v2:127.0.0.1:{monitor}]",
        "--fsid",
        fsid,
        f"{folder}/monmap",
    )
    run(
        "ceph-mon",
        "--mkfs",
        "-i",
        "a",
        "--monmap",
        f"{folder}/monmap",
        "--keyring",
        f"{folder}/mon.keyring",
    )


class _Cluster:
    """The three daemons, kept in the foreground so that they end with us."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._environment = os.environ | {"CEPH_CONF": str(folder / "ceph.conf")}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command, env=self._environment, check=True, capture_output=True, text=True, timeout=60
        )
        return done.stdout

    def start(self, *command: str) -> None:
        with (self._folder / "log" / f"{command[0]}.out").open("wb") as log:
            self._daemons.append(
                subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)
            )

    def boot(self, gateway: int) -> None:
        self.start("ceph-mon", "-f", "-i", "a")
        identity = str(uuid.uuid4())  # the store's own must be the one that the monitor knows
        self.run("ceph", "--connect-timeout", "30", "osd", "new", identity)
        self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", identity)
        self.run("ceph", "osd", "crush", "add", "osd.0", "1.0", "host=localhost", "root=default")
        self.start("ceph-osd", "-f", "-i", "0")
        user = ("--setuser", "root", "--setgroup", "root")
        self.start("radosgw", "-f", "-n", "client.rgw", *user)
        _wait_for(f"http://127.0.0.1:{gateway}/")
        keys = (f"--access-key={ACCESS_KEY}", f"--secret={SECRET_KEY}")
        self.run("radosgw-admin", "user", "create", "--uid=test", "--display-name=test", *keys)
        self._make_role()

    def _make_role(self) -> None:
        of, role = f"--tenant={TENANT}", "--role-name=exports"
        keys = (f"--access-key={MACHINE_KEY}", f"--secret={MACHINE_SECRET}")
        named = ("--uid=machine", "--display-name=machine")
        self.run("radosgw-admin", "user", "create", of, *named, *keys)
        trust = f"--assume-role-policy-doc={_policy(_TRUST)}"
        self.run("radosgw-admin", "role", "create", role, of, "--path=/", trust)
        may = ("--policy-name=write", f"--policy-doc={_policy(_MAY)}")
        self.run("radosgw-admin", "role-policy", "put", role, of, *may)

    def stop(self) -> None:
        for daemon in reversed(self._daemons):
            daemon.send_signal(signal.SIGKILL)  # nothing of it is to be kept
            daemon.wait()


def _policy(statement: dict[str, object]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _wait_for(url: str) -> None:
    for _ in range(600):
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(url)
