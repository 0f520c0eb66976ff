"""A Prefect server of one's own with all that belongs on it: `meterlake deploy` starts this.

What is there already stays as it is, and keeps its id; what an earlier version made and this one
does not is removed. Nothing here imports Prefect before its environment is set.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from cyclopts import App, Parameter

from flows.server import client_environment
from meterlake.model.errors import MeterlakeError, Unavailable

IMAGE: Final = "meterlake:latest"
_Pool: TypeAlias = Literal["process", "docker", "kubernetes"]
_Flag = Annotated[bool, Parameter(negative="")]


def deploy(  # noqa: PLR0913 - the options of the command
    *,
    api: str,
    home: Path | None = None,
    pool: tuple[_Pool, ...] = ("process",),
    image: str = IMAGE,
    webhook: str | None = None,
    dry_run: _Flag = False,
    json: _Flag = False,
) -> None:
    """Make a Prefect server have our work pools, deployments and automations.

    Args:
        api: The URL of the server's API.
        home: The home whose schedules of exports have deployments, too.
        pool: The types of work pools; the deployments go to the first.
        image: What containers and pods run.
        webhook: Where automations post what they see.
        dry_run: Only say what would be done.
        json: Print one JSON object per line instead of a table.
    """
    with tempfile.TemporaryDirectory(prefix="meterlake-deploy-") as folder:
        environment = client_environment(home or Path(folder), api, os.environ)
        os.environ.clear()
        # Prefect keeps a folder of its own, which nobody needs afterwards.
        os.environ.update({**environment, "PREFECT_HOME": folder})
        _print(_answered(api, home, pool, image, webhook, dry_run=dry_run), json=json)


def _answered(api: str, *arguments: Any, dry_run: bool) -> list[dict[str, Any]]:
    import httpx  # noqa: PLC0415  (after the environment is set)
    from prefect.exceptions import PrefectException  # noqa: PLC0415

    try:
        return bring_up_to_date(*arguments, dry_run=dry_run)
    except (PrefectException, httpx.HTTPError, RuntimeError) as error:
        raise Unavailable(f"the Prefect server {api}", f"{type(error).__name__}: {error}") from None


def bring_up_to_date(
    home: Path | None,
    pools: Sequence[_Pool],
    image: str = IMAGE,
    webhook: str | None = None,
    *,
    dry_run: bool = False,
) -> list[dict[str, Any]]:
    """Bring the server that Prefect's settings name up to date.

    Args:
        home: The home whose schedules of exports have deployments, too.
        pools: The types of work pools; the deployments go to the first.
        image: What containers and pods run.
        webhook: Where automations post what they see.
        dry_run: Only say what would be done.

    Returns:
        What became of each object.

    Raises:
        Conflict: A work pool with one of our names is of another type.
    """
    from prefect.client.orchestration import get_client  # noqa: PLC0415

    from flows.deployed_automations import Automations, Notifiers  # noqa: PLC0415
    from flows.deployed_flows import FlowDeployments  # noqa: PLC0415
    from flows.deployed_pools import WorkPools, pool_name  # noqa: PLC0415
    from flows.server_objects import synchronize  # noqa: PLC0415

    with get_client(sync_client=True) as client:
        notifiers = Notifiers(client, webhook)
        kinds = (
            WorkPools(client, pools, image),
            FlowDeployments(client, pool_name(pools[0]), home),
            notifiers,
            Automations(client, notifiers),
        )
        return synchronize(kinds, dry_run=dry_run)


def _print(rows: Sequence[dict[str, Any]], *, json: bool) -> None:
    if json:
        _print_lines(rows)
        return
    from flows.command import show  # noqa: PLC0415  (it imports Prefect)

    changed = [row for row in rows if row["outcome"] != "unchanged"]
    if changed:
        show([{**row, "id": row["id"] or ""} for row in changed])
    same = len(rows) - len(changed)
    sys.stdout.write(f"{same} of {len(rows)} unchanged\n")
    sys.stdout.flush()


def _print_lines(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        sys.stdout.write(json.dumps(row) + "\n")
    sys.stdout.flush()


def main() -> int:
    """The command.

    Returns:
        The exit code.
    """
    app = App(name="python -m flows.deploy", version_flags=(), result_action="return_value")
    app.default(deploy)
    try:
        app()
    except MeterlakeError as error:
        kind = type(error).__name__
        message = " ".join(str(error).split())
        text = f"meterlake: {message}"
        if "--json" in sys.argv:
            text = json.dumps({"error": {"code": kind, "message": message}})
        sys.stderr.write(f"{text}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
