"""`meterlake deploy`: all that belongs on a Prefect server of one's own."""

import re
from typing import Annotated, Final, Literal

from cyclopts import App, Parameter

from meterlake.cli.flow_process import run_flow_module
from meterlake.cli.options import NO_HOME_OPTIONS, HomeOptions
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

    What is there already and as it is to be stays unchanged and keeps its id; what an earlier
    version made and this one does not is removed. Workers of the first pool run the deployments;
    their environment says which home they work on.

    Example: `meterlake deploy --dry-run`

    Args:
        pool: The types of work pools; the deployments go to the first.
        image: What containers and pods run.
        webhook: URL that automations post to: runs that died, bills that failed, files that are late.
        dry_run: Only tell what would be done.
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
