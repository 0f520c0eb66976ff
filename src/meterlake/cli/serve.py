"""`meterlake serve`: the API, the worker and a Prefect server, as children of one process."""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import App, Parameter
from cyclopts.types import Port
from cyclopts.validators import Number

from meterlake.cli.shell.options import INTEGER, NO_HOME_OPTIONS, HomeOptions
from meterlake.cli.shell.output import Output
from meterlake.model.errors import Invalid, Unavailable
from meterlake.model.values.log_lines import log_to_stderr
from meterlake.model.work.automatic_work import AutomaticWork, check_names, left_on

if TYPE_CHECKING:
    from meterlake.settings import Settings
    from meterlake.stores.processes import Child


_START_S: Final = 60
_POLL_S: Final = 0.1
_AGAIN_S: Final = 2
# Prefect's own. One that bookmarks and dashboards can name is worth more than one that is free.
_PREFECT_PORT: Final = 4200
_log: Final = logging.getLogger("meterlake.serve")
_STOPS: Final = "Ctrl-C stops it."


@Parameter(name="*")
@dataclass(frozen=True)
class ServedParts:
    """Which parts are served.

    Attributes:
        no_flows: Leave out Prefect: its server, its schedules, and the runs of jobs.
        api_only: Answer requests and do nothing else; `meterlake worker` does the other work.
        without: Leave this work out; you see the names when you start it.
        prefect_port: The port of Prefect on 127.0.0.1. If another program has the default,
            meterlake takes another port, and says so.
    """

    no_flows: Annotated[bool, Parameter(negative="")] = False
    api_only: Annotated[bool, Parameter(negative="")] = False
    without: Annotated[
        tuple[str, ...], Parameter(negative="", show_default=False, consume_multiple=True)
    ] = ()
    prefect_port: Annotated[Port | None, Parameter(show_default=f"{_PREFECT_PORT}".format)] = None


@dataclass(frozen=True, slots=True)
class Listener:
    """Where requests are answered.

    Attributes:
        host: The address to listen on.
        port: The port of the API.
        workers: The number of processes that answer.
    """

    host: str
    port: int
    workers: int = 1


_ALL_PARTS: Final = ServedParts()


def register(app: App) -> None:
    """Add the command."""
    app.command(serve)


def serve(
    *,
    host: str = "127.0.0.1",
    port: Port = 8000,
    workers: Annotated[int, INTEGER, Parameter(validator=Number(gte=1, lte=64))] = 1,
    parts: ServedParts = _ALL_PARTS,
    options: HomeOptions = NO_HOME_OPTIONS,
) -> int:
    """Serve the API, work the drop folders, and run a Prefect server, until you stop it.

    With Ctrl-C or SIGTERM you stop everything; it first finishes the work that it has begun.

    Example: `meterlake serve --home ./meterlake-home`

    Args:
        host: The address to listen on; other machines do not reach 127.0.0.1.
        port: The port of the API.
        workers: The number of processes that answer requests.
    """
    log_to_stderr()
    settings = leave_out(options.settings(), parts.without)
    return serve_home(settings, Listener(host, port, workers), parts, options.output)


def serve_home(
    settings: "Settings",
    listener: Listener,
    parts: ServedParts,
    output: Output,
    on_ready: "Callable[[str], dict[str, str]]" = lambda _: {},
) -> int:
    """Serve a home until a signal comes.

    Args:
        settings: Where the home is.
        listener: Where requests are answered.
        parts: Which parts are served.
        output: Where the addresses are printed.
        on_ready: Called with the URL when it answers; what it gives is printed, too.
    """
    from meterlake.stores.prefect_access import announce

    links = _prepare(settings)
    host, port, workers = listener.host, listener.port, listener.workers
    environment = _environment(settings, workers)
    with ExitStack() as stack, _stop_signals() as stop:
        # The API shows it, the worker's jobs are runs there.
        environment["METERLAKE_PREFECT_URL"] = prefect = _prefect_api(stack, settings, parts)
        command = ["-m", "meterlake.api", "--host", host, "--port", str(port)]
        command += ["--workers", str(workers), "--as-child"]
        api = stack.enter_context(_child(command, environment))
        url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        _wait_until_ready(api, url, stop)
        if stop:
            return 0
        found = {
            "page": f"{url}/",
            "api": url,
            "console": f"{url}/console",
            "docs": f"{url}/docs",
            "home": str(settings.home.absolute()),
            **_first_links(links, settings.public_url or url),
            **on_ready(url),
        }
        others: list[Child] = []
        if settings.prefect_url is None and prefect:
            found["prefect"] = prefect.removesuffix("/api")
            # A file that only who may read the home can open leads there with the password.
            found["sign_in"] = announce(settings.home, found["prefect"]).as_uri()
            others = _start_prefect(stack, settings, environment, found["prefect"])
        worker = None if parts.api_only else _start_worker(stack, environment)
        work = left_on(settings.without, worker=not parts.api_only, prefect="prefect" in found)
        show_served(found, list(work), output)
        sys.stdout.flush()
        _warn(host, url)
        return _watch(api, worker, others, stop)


def _start_worker(stack: ExitStack, environment: dict[str, str]) -> "_Worker":
    # It looks for the server again and again: jobs that come before it answers run without.
    command = ["-m", "meterlake.worker"]
    return _Worker(lambda: stack.enter_context(_child(command, environment)))


def _warn(host: str, url: str) -> None:
    """Say what other machines reach; on the error stream, where programs look for no results."""
    from meterlake.model.configuration.network_addresses import names_this_machine

    if names_this_machine(host):
        return
    _log.warning(
        "Other machines reach %s: the API, /oauth, /docs and /openapi.json, /healthz, /readyz and"
        " /metrics without a token, and signed links of uploads and downloads, all by plain HTTP."
        " Put a proxy with TLS in front of it. Prefect stays on 127.0.0.1.",
        url,
    )


def _first_links(links: Mapping[str, str], url: str) -> dict[str, str]:
    """The links for people of organizations that nobody signs in to yet, for the printed record."""
    from meterlake.pipeline.access.invitation_email import PATH

    return {
        "first_sign_in"
        if len(links) == 1
        else f"first_sign_in_{code}": f"{url}{PATH}?token={token}"
        for code, token in links.items()
    }


def _prepare(settings: "Settings") -> dict[str, str]:
    """Open the home once: a missing one is told here, and its State is migrated by one process.

    Returns:
        The token of the link for the first person, by the code of organizations without people.
    """
    from meterlake.pipeline.access.tokens import ensure_key
    from meterlake.pipeline.access.users import first_person_links
    from meterlake.stores import open_stores
    from meterlake.stores.dependent_settings import settings_without_effect

    with open_stores(settings, lasting=True) as stores:
        for sentence in settings_without_effect(stores.settings):
            _log.warning("%s", sentence)
        ensure_key(stores.state, stores.secrets)
        return first_person_links(stores.state)


def _environment(settings: "Settings", workers: int) -> dict[str, str]:
    from meterlake.settings import as_environment

    # Children run in folders of their own: what is relative to ours, and our .env, would be lost.
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    environment = {
        **os.environ,
        **as_environment(settings),
        "PYTHONPATH": os.pathsep.join(str(Path(path).absolute()) for path in paths if path),
        "METERLAKE_HOME": str(settings.home.absolute()),
        "METERLAKE_CHILD": "1",
        # A folder named like ours in the working directory must not be taken for it.
        "PYTHONSAFEPATH": "1",
    }
    if workers > 1:
        # Where the processes keep their counts, so that each can tell the sum.
        folder = settings.home.absolute() / "metrics"
        folder.mkdir(0o700, exist_ok=True)
        for old in folder.glob("*.db"):
            old.unlink()
        environment["PROMETHEUS_MULTIPROC_DIR"] = str(folder)
    return environment


@contextmanager
def _child(arguments: list[str], environment: dict[str, str]) -> "Iterator[Child]":
    from meterlake.stores.processes import child

    with child([sys.executable, *arguments], environment) as process:
        yield process


def _prefect_api(stack: ExitStack, settings: "Settings", parts: ServedParts) -> str:
    """Where the API of Prefect is, or will be; empty without flows, or if no server is started.

    Raises:
        Invalid: The port that was named is taken.
    """
    from meterlake.stores.processes import free_port, reserve_port

    if parts.no_flows:
        return ""
    if settings.prefect_url is not None:
        return settings.prefect_url
    if parts.api_only:
        return ""
    port = parts.prefect_port or _PREFECT_PORT
    if not stack.enter_context(reserve_port(port)):
        if parts.prefect_port is not None:
            raise Invalid("--prefect-port", port, "it must be a port of this machine that is free")
        port = free_port()
        _log.warning(
            "port %s is taken: Prefect answers at http://127.0.0.1:%s; --prefect-port names another",
            *(_PREFECT_PORT, port),
        )
    return f"http://127.0.0.1:{port}/api"


def _start_prefect(
    stack: ExitStack, settings: "Settings", environment: dict[str, str], url: str
) -> "list[Child]":
    """Start a Prefect server and who runs its schedules.

    They answer some seconds later, nobody waits for them.
    """
    from meterlake.stores.processes import child

    folder = settings.home.absolute() / "prefect"
    folder.mkdir(0o700, exist_ok=True)
    command = [sys.executable, "-m", "flows.server", "--home", str(settings.home.absolute())]
    log = stack.enter_context((folder / "server.log").open("ab"))
    command += ["--port", url.rpartition(":")[2], "--as-child"]
    server = stack.enter_context(child(command, environment, folder, log))
    command = [sys.executable, "-m", "flows.schedules", "--home", str(settings.home.absolute())]
    command += ["--api", f"{url}/api"]
    log = stack.enter_context((folder / "schedules.log").open("ab"))
    schedules = stack.enter_context(child(command, environment, folder, log))
    return [server, schedules]


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """A list that is empty until a signal asks to stop."""
    signals_seen: list[int] = []
    signals = (signal.SIGTERM, signal.SIGINT)
    before = {
        each: signal.signal(each, lambda number, _: signals_seen.append(number)) for each in signals
    }
    try:
        yield signals_seen
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _wait_until_ready(api: "Child", url: str, stop: list[int]) -> None:
    """Wait until the API answers.

    Raises:
        Unavailable: It ended, or did not answer in time; its log says why.
    """
    from urllib.error import URLError
    from urllib.request import ProxyHandler, build_opener

    opener, give_up = build_opener(ProxyHandler({})), time.monotonic() + _START_S
    while not stop and api.poll() is None and time.monotonic() < give_up:
        try:
            with opener.open(f"{url}/readyz".replace("//0.0.0.0", "//127.0.0.1"), timeout=5):
                return
        except (URLError, OSError):
            time.sleep(_POLL_S)
    if not stop:
        raise Unavailable(
            "the API", f"nothing answers at {url}", "choose another --port if that one is taken"
        )


class _Worker:
    """The process that ingests; one that ended is replaced, else all that comes in would wait."""

    def __init__(self, start: "Callable[[], Child]") -> None:
        self._start = start
        self._begin()

    def _begin(self) -> None:
        self._process = self._start()
        self._again = time.monotonic() + _AGAIN_S

    def replace_if_ended(self) -> int | None:
        """With what it ended, if it did and another one runs in its place."""
        code = self._process.poll()
        # One that cannot even start must not be started without end.
        if code is None or time.monotonic() < self._again:
            return None
        self._begin()
        return code


def _watch(
    api: "Child",
    worker: _Worker | None,
    others: "list[Child]",
    stop: list[int],
) -> int:
    while not stop:
        if worker is not None and (code := worker.replace_if_ended()) is not None:
            _log.warning("the worker ended with %s; another one goes on", code)
        for process in [each for each in others if each.poll() is not None]:
            others.remove(process)
            _log.warning("Prefect has stopped; its logs are in prefect/ of the home")
        if api.poll() is not None:
            raise Unavailable(
                "the API",
                f"its process ended with {api.returncode}",
                "what it wrote before says why",
            )
        time.sleep(_POLL_S)
    return 0


def leave_out(settings: "Settings", names: Sequence[str]) -> "Settings":
    """The settings with what an option leaves out, beside what they leave out.

    Raises:
        Invalid: Nothing has such a name.
    """
    check_names("METERLAKE_WITHOUT", settings.without)
    check_names("--without", names)
    left_out = tuple(dict.fromkeys((*settings.without, *names)))
    return settings.model_copy(update={"without": left_out}) if names else settings


def show_served(found: Mapping[str, str], work: Sequence[AutomaticWork], output: Output) -> None:
    """Print where it answers, and what it does by itself.

    Args:
        found: Addresses and folders, by what they are.
        work: What is not switched off.
        output: Where to.
    """
    rows = [{"name": each.name, "when": each.time, "what": each.what} for each in work]
    if output.json:
        output.line({**found, "byItself": rows})
        return
    output.record(found)
    if rows:
        columns = ("name", "when=when (UTC)", "what")
        output.rows(rows, columns, "What it does by itself")
    output.note(f"--without NAME … leaves some of it out. {_STOPS}" if rows else _STOPS)
