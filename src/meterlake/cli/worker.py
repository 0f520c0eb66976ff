"""Processes that others look after: `meterlake worker`, `meterlake health`, and `meterlake deploy` to Prefect."""

import logging
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, Parameter
from cyclopts.types import Port
from cyclopts.validators import Number

from meterlake.cli.shell.options import NO_HOME_OPTIONS, HomeOptions, Switch
from meterlake.cli.shell.output import Output
from meterlake.cli.shell.signals import run_flow_module
from meterlake.model.errors import Invalid, Required
from meterlake.model.values.log_lines import log_to_stderr

if TYPE_CHECKING:
    from meterlake.settings import Settings


Seconds = Annotated[float, Parameter(validator=Number(gt=0))]
PoolType = Literal["process", "docker", "kubernetes"]
Pools = Annotated[tuple[PoolType, ...], Parameter(negative="", consume_multiple=True)]
_HTTP: Final = re.compile(r"https?://[^/?#\s]+(/\S*)?")


def register(app: App) -> None:
    """Add the commands."""
    app.command(worker)
    app.command(health)
    app.command(deploy)


def worker(
    *,
    host: str = "127.0.0.1",
    port: Port | None = None,
    grace: Seconds = 25.0,
    no_flows: Annotated[bool, Parameter(negative="")] = False,
    options: HomeOptions = NO_HOME_OPTIONS,
) -> None:
    """Do all waiting work, for all organizations, without an API, until you stop it.

    You may run any number, on one machine or on several. If you stop it with Ctrl-C or SIGTERM, it
    finishes the work that it has begun, or gives it back for the next worker.

    Example: `meterlake worker --port 8001`

    Args:
        host: The address on which it answers about its health.
        port: The port of /healthz, /readyz and /metrics; if you leave it out, none.
        grace: Seconds that work in progress may take when you stop it; then it gives the work back.
        no_flows: Run jobs here, also if METERLAKE_PREFECT_URL names a Prefect server.
    """
    from meterlake.settings import as_environment

    log_to_stderr()
    settings = options.settings()
    _check(settings)
    arguments = ["--grace", str(grace), "--host", host]
    arguments += [] if port is None else ["--port", str(port)]
    kept = {name: value for name, value in os.environ.items() if name != "METERLAKE_CHILD"}
    environment = {
        **kept,
        **as_environment(settings),
        "METERLAKE_HOME": str(settings.home.absolute()),
        "PYTHONSAFEPATH": "1",
        **({"METERLAKE_PREFECT_URL": ""} if no_flows else {}),
    }
    sys.stdout.flush()
    # A signal that comes before the worker can hear it waits until it can.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))
    # Not a child: a signal reaches the worker itself, and its exit code is the command's.
    os.execve(sys.executable, [sys.executable, "-m", "meterlake.worker", *arguments], environment)  # noqa: S606


def health(
    *,
    url: str = "http://127.0.0.1:8000",
    timeout: Seconds = 10.0,
    json: Switch = False,
) -> None:
    """Ask a server or a worker whether it is ready; the exit code is 1 if it is not.

    Example: `meterlake health --url http://127.0.0.1:8001`

    Args:
        url: Its address, without a path.
        timeout: Seconds after which no answer is a bad answer.
        json: Print one JSON object per line instead of a table.
    """
    from meterlake.stores.readiness import check_ready

    check_ready(url, timeout)
    Output(json=json).record({"url": url, "status": "ready"})


def _check(settings: "Settings") -> None:
    """Open the home once: a missing one is one clear line, without the worker's name before it."""
    from meterlake.stores import open_stores
    from meterlake.stores.dependent_settings import settings_without_effect

    with open_stores(settings, lasting=True) as stores:
        for sentence in settings_without_effect(stores.settings):
            logging.getLogger("meterlake.worker").warning("%s", sentence)


def deploy(
    *,
    pool: Pools = ("process",),
    image: str = "meterlake:latest",
    webhook: Annotated[str | None, Parameter(show_default=False)] = None,
    dry_run: Annotated[bool, Parameter(negative="")] = False,
    options: HomeOptions = NO_HOME_OPTIONS,
) -> int:
    """Put work pools, deployments and automations on the server of METERLAKE_PREFECT_URL.

    Correct objects stay unchanged and keep their ids; the command removes objects that only an
    earlier version makes. Workers of the first pool run the deployments; you choose their home in
    their environment.

    Example: `meterlake deploy --dry-run`

    Args:
        pool: The types of work pools; the deployments go to the first.
        image: The image of containers and pods.
        webhook: The URL to which automations post: runs that died, bills that failed, files that
            are late.
        dry_run: Show what it would do, and do nothing.
    """
    settings = options.settings()
    if not settings.prefect_url:
        raise Required("METERLAKE_PREFECT_URL")
    if webhook is not None and _HTTP.fullmatch(webhook) is None:
        raise Invalid("--webhook", webhook, "it must be an http:// or https:// URL")
    arguments = ["--api", settings.prefect_url, "--home", str(settings.home.absolute())]
    arguments += [text for each in pool for text in ("--pool", each)]
    arguments += ["--image", image]
    arguments += [] if webhook is None else ["--webhook", webhook]
    arguments += ["--dry-run"] * dry_run + ["--json"] * options.json
    return run_flow_module("flows.deploy", arguments)
