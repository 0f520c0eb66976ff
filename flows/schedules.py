"""When flows run by themselves: what `prefect.yaml` deploys, served here without a work pool.

`meterlake serve` starts `python -m flows.schedules --home HOME --api URL` beside its own Prefect
server: every deployment is on its pages, and is run by this process. What the worker does all the
time (drop folders, inboxes, due exports) has no schedule here, and can be started by hand. So can
every schedule of exports: there is a deployment for each.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from cyclopts import App

from flows.kinds import flow_of
from flows.server import STARTUP_S, client_environment
from meterlake.settings import Settings
from meterlake.stores.files.durable import make_private
from meterlake.stores.processes import end_with_parent


class Deployment(NamedTuple):
    """A flow with parameters of its own and a schedule in UTC, unless people start it."""

    name: str
    flow: str  # See `flow_of`.
    cron: str | None = None
    parameters: Mapping[str, Any] = MappingProxyType({})
    worked: bool = False  # By the worker of `serve`, all the time.


DEPLOYMENTS: Final = (
    Deployment("ingest", "ingest", "*/5 * * * *", worked=True),
    Deployment("inbox", "inbox", "*/2 * * * *", worked=True),
    Deployment("upload-due", "upload_due", "*/2 * * * *", worked=True),
    Deployment("ingest-summary", "ingest_summary", "2 * * * *"),
    Deployment("aggregate", "aggregate", "10 3 * * *", {"month": "current"}),
    Deployment("aggregate-last", "aggregate", "15 3 * * *", {"month": "last"}),
    # Bills by a schedule are what organizations say: see `bill-due`.
    Deployment("bill", "bill", parameters={"month": "last"}),
    Deployment("bill-due", "bill_due", "*/5 * * * *", worked=True),
    Deployment(
        "export-usage",
        "export",
        "20 4 2 * *",
        {"source": "usage", "format": "parquet", "month": "last"},
    ),
    Deployment(
        "export-operational",
        "export",
        "40 4 * * *",
        {"source": "operational", "format": "parquet"},
    ),
    Deployment("export-schedules", "export:export_due", "*/5 * * * *", worked=True),
    Deployment("publish", "publish", "50 * * * *"),
    Deployment("maintain", "maintain", "35 * * * *"),
    Deployment("check", "check", "5 5 * * *"),
    Deployment("verify", "verify", "15 5 * * *"),
    Deployment("deliver", "deliver", "*/5 * * * *", worked=True),
    Deployment("close-month", "close_month", parameters={"month": "last"}),
    Deployment("backfill", "backfill", parameters={"wait": True}),
    Deployment("backfill-decision", "backfill_decision"),
)
# Flows without a deployment in the file, by the names of `flow_of`, and the reason.
NOT_DEPLOYED: Final = {
    "upload": "the worker starts a run for the uploads that wait",
    "backfill_job": "the worker starts a run for each step of a backfill over the API",
    "bill_job": "the worker starts a run for each bill job that waits",
    "statement": "the worker starts a run for the statements that wait",
    "export:export_job": "the worker starts a run for each export that waits",
    "export:export_schedule": "`meterlake serve` makes a deployment for each schedule of exports",
}


def serve_schedules(*, home: Path, api: str) -> None:
    """Serve all deployments until the parent ends; the server may still be on its way up.

    Args:
        home: The home folder.
        api: The URL of the Prefect server's API.
    """
    end_with_parent()
    make_private()
    environment = client_environment(home, api, os.environ)
    # The runs are children of this process; what they work on stands in their parameters too.
    os.environ.clear()
    os.environ.update(environment)
    if not _answers(api):
        sys.exit(f"no Prefect server answers at {api}")
    # Made here, because Prefect makes coroutines of them where a loop runs.
    without = Settings(home=home).without
    asyncio.run(run_all([_served(each, home, without) for each in DEPLOYMENTS], home))


async def run_all(deployments: Sequence[Any], home: Path) -> None:
    """Run deployments, and those of the schedules of exports, until this is cancelled."""
    from prefect.runner import Runner  # noqa: PLC0415  (after its environment is set)

    from flows.export_deployments import keep_up_to_date  # noqa: PLC0415

    runner = Runner(pause_on_shutdown=False, limit=2)
    for each in deployments:
        await runner.aadd_deployment(each)
    kept = asyncio.create_task(keep_up_to_date(runner, home))
    try:
        await runner.start()
    finally:
        kept.cancel()


def _served(deployment: Deployment, home: Path, without: Collection[str] = ()) -> Any:
    from prefect.client.schemas.objects import (  # noqa: PLC0415
        ConcurrencyLimitConfig,
        ConcurrencyLimitStrategy,
    )
    from prefect.schedules import Cron  # noqa: PLC0415
    from prefect.types.entrypoint import EntrypointType  # noqa: PLC0415

    flow = flow_of(deployment.flow)
    is_off = deployment.worked or deployment.name in without
    cron = None if is_off else deployment.cron
    return flow.to_deployment(
        deployment.name,
        schedule=Cron(cron, timezone="UTC") if cron else None,
        parameters={"home": str(home.absolute()), **deployment.parameters},
        entrypoint_type=EntrypointType.MODULE_PATH,
        concurrency_limit=ConcurrencyLimitConfig(
            limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE
        ),
    )


def _answers(api: str) -> bool:
    """Whether a server answers within the time that one needs to start."""
    give_up = time.monotonic() + STARTUP_S
    while time.monotonic() < give_up:
        try:
            with build_opener(ProxyHandler({})).open(f"{api}/health", timeout=5):
                return True
        except (URLError, OSError):
            time.sleep(0.5)
    return False


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    app = App(name="python -m flows.schedules", version_flags=(), result_action="return_value")
    app.default(serve_schedules)
    app()
