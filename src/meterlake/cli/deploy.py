"""`meterlake deploy`: all that belongs on a Prefect server of one's own."""

import re
from typing import Annotated, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.shell.flow_process import run_flow_module
from meterlake.cli.shell.options import NO_HOME_OPTIONS, HomeOptions
from meterlake.model.errors import Invalid, Required

PoolType = Literal["process", "docker", "kubernetes"]
Pools = Annotated[tuple[PoolType, ...], Parameter(negative="", consume_multiple=True)]
_HTTP: Final = re.compile(r"https?://[^/?#\s]+(/\S*)?")


def register(app: App) -> None:
    """Add the command."""
    app.command(deploy)


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
