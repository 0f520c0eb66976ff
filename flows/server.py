"""A Prefect server of one home: its database and its password in the home folder, on 127.0.0.1 only.

Nothing here imports Prefect before its environment is set.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from cyclopts import App, Parameter

from flows import ENVIRONMENT
from meterlake.model.errors import Unavailable
from meterlake.stores.files.durable import make_private
from meterlake.stores.prefect_access import (
    CLIENT_VARIABLE,
    SERVER_VARIABLE,
    announce,
    ensure_password,
    password_for,
    server_folder,
)
from meterlake.stores.processes import Child, child, end_with_parent, free_port

HOST: Final = "127.0.0.1"
STARTUP_S: Final = 120
_TOLD_BYTES: Final = 2000
# By default each state of a task is a transaction of its own, which costs as much as a small file.
_TOGETHER: Final = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
}


def server_url(port: int) -> str:
    """Where people look at the runs."""
    return f"http://{HOST}:{port}"


def server_environment(home: Path, port: int, given: Mapping[str, str]) -> dict[str, str]:
    """The environment of a server and of who uses it.

    Args:
        home: The home folder.
        port: The server's port.
        given: The environment around; what it says about other Prefect servers is left out.
    """
    folder = server_folder(home)
    password = ensure_password(home)
    kept = {name: value for name, value in given.items() if not name.startswith("PREFECT_")}
    packages = [str(Path(__file__).resolve().parents[1]), *filter(None, [kept.get("PYTHONPATH")])]
    direct = [*filter(None, [kept.get("NO_PROXY") or kept.get("no_proxy")]), HOST]
    return {
        **kept,
        **ENVIRONMENT,
        **_TOGETHER,
        "PREFECT_HOME": str(folder),
        "PREFECT_API_URL": f"{server_url(port)}/api",
        "PREFECT_SERVER_UI_API_URL": f"{server_url(port)}/api",
        SERVER_VARIABLE: password,
        CLIENT_VARIABLE: password,
        # Pages of other origins; beside it, `flows.guard` looks at hosts and at sockets.
        "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": server_url(port),
        "PREFECT_SERVER_CSRF_PROTECTION_ENABLED": "true",
        # Prefect would unpack its pages beside its code, where we may not be allowed to write.
        "PREFECT_SERVER_UI_STATIC_DIRECTORY": str(folder / "ui"),
        "PYTHONPATH": os.pathsep.join(packages),
        "NO_PROXY": ",".join(direct),
        "no_proxy": ",".join(direct),
    }


def client_environment(home: Path, api: str, given: Mapping[str, str]) -> dict[str, str]:
    """The environment of who uses a server that may be anybody's.

    Args:
        home: The home folder.
        api: The URL of the server's API.
        given: The environment around; what it says about credentials is kept, except for the home's
            own server, whose password is in the home.
    """
    direct = [*filter(None, [given.get("NO_PROXY") or given.get("no_proxy")]), HOST]
    password = password_for(home, api)
    return {
        **ENVIRONMENT,
        **given,
        **({} if password is None else {CLIENT_VARIABLE: password}),
        "PREFECT_HOME": str(server_folder(home)),
        "PREFECT_API_URL": api,
        "NO_PROXY": ",".join(direct),
        "no_proxy": ",".join(direct),
    }


@contextmanager
def serving(home: Path, port: int) -> Iterator[Child]:
    """Run a server as a child while the body runs; it answers some seconds later."""
    folder = server_folder(home)
    make_private()
    folder.mkdir(0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-m", "flows.server", "--home", str(home.absolute())]
    command += ["--port", str(port), "--as-child"]
    environment = server_environment(home, port, os.environ)
    # In its own folder, because Prefect reads settings from where it is started.
    with (
        _log(home).open("ab") as log,
        child(command, environment, folder, log) as process,
    ):
        yield process


def wait_until_it_answers(process: Child, home: Path, port: int) -> None:
    """Wait until a server is healthy.

    Raises:
        Unavailable: It ended, or did not answer in time; with the end of its log.
    """
    give_up = time.monotonic() + STARTUP_S
    while process.poll() is None and time.monotonic() < give_up:
        if _is_healthy(port):
            return
        time.sleep(0.2)
    log = _log(home).read_bytes()[-_TOLD_BYTES:]
    raise Unavailable("the Prefect server", log.decode(errors="replace").strip() or "no answer")


def _log(home: Path) -> Path:
    return server_folder(home) / "server.log"


def _is_healthy(port: int) -> bool:
    # Without proxies, whatever the environment says: the server is on this machine.
    try:
        with build_opener(ProxyHandler({})).open(f"{server_url(port)}/api/health", timeout=5) as it:
            return bool(it.status == 200)  # noqa: PLR2004
    except (URLError, OSError):
        return False


def serve(
    *,
    home: Path,
    port: Annotated[int, Parameter(show_default=False)] = 0,
    as_child: Annotated[bool, Parameter(negative="", show=False)] = False,
) -> None:
    """Run the Prefect server of a home until Ctrl-C, to look at its runs.

    Args:
        home: The home folder.
        port: The port on 127.0.0.1; any free one by default.
        as_child: Say nothing, and stop when standard input ends.
    """
    make_private()
    port = port or free_port()
    environment = server_environment(home, port, os.environ)
    os.environ.clear()
    os.environ.update(environment)
    page = announce(home, server_url(port))
    if as_child:
        end_with_parent()
    else:
        sys.stdout.write(f"Prefect: {server_url(port)} (Ctrl-C stops it)\n")
        sys.stdout.write(f"Sign in: {page.as_uri()}\n")
        sys.stdout.flush()
    import uvicorn  # noqa: PLC0415  (it imports Prefect, after the environment is set)

    uvicorn.run(
        "flows.guard:create_app",
        factory=True,
        host=HOST,
        port=port,
        log_level="warning",
        # A page that is open in a browser holds its connection for ever.
        timeout_graceful_shutdown=2,
    )


if __name__ == "__main__":
    app = App(name="python -m flows.server", version_flags=(), result_action="return_value")
    app.default(serve)
    app()
