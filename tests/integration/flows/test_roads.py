"""Each kind of work runs from the command line, a deployment, a schedule, and in `close-month`."""

import asyncio
from typing import Any, NamedTuple

import pytest

from meterlake.cli.app import build
from meterlake.pipeline.closing.close_month import ClosingStep
from tests.integration.flows.test_deployments import DEPLOYMENTS, ROOT, kind

pytestmark = pytest.mark.filterwarnings("ignore")


class Road(NamedTuple):
    """How one kind of work is begun."""

    command: str
    deployment: str
    sub_flow: str
    step: ClosingStep
    is_scheduled: bool = True


ROADS = {
    "upload-URL ingest": Road("uploads ingest", "upload-due", "upload-due", ClosingStep.INGEST),
    "aggregate": Road("aggregate", "aggregate", "aggregate", ClosingStep.AGGREGATE),
    # Bills by a schedule are those that organizations want: see `bill-due`.
    "bill": Road("bill", "bill", "bill", ClosingStep.BILL, False),
    "usage export": Road("export usage", "export-usage", "export-job", ClosingStep.EXPORT_USAGE),
    "operational export": Road(
        "export operational", "export-operational", "export-job", ClosingStep.EXPORT_OPERATIONAL
    ),
    "publish": Road("publish", "publish", "publish", ClosingStep.PUBLISH),
    "reconcile": Road("check reconciliation", "check", "check", ClosingStep.RECONCILE),
    "maintain": Road("maintain", "maintain", "maintain", ClosingStep.MAINTAIN),
    "deliver": Road("integrations deliver", "deliver", "deliver", ClosingStep.DELIVER),
    # What it corrects somebody has to say: its schedule is added with its parameters.
    "backfill": Road(
        "backfill start", "backfill", "backfill-decision", ClosingStep.BACKFILL, False
    ),
}
each_road = pytest.mark.parametrize("road", ROADS.values(), ids=ROADS)


@each_road
def test_there_is_a_command(road: Road) -> None:
    found, _, left = build().parse_commands(road.command.split())

    assert (list(found), left) == (road.command.split(), [])


@each_road
def test_there_is_a_deployment_with_its_schedule(road: Road) -> None:
    [deployment] = [each for each in DEPLOYMENTS if each["name"] == road.deployment]

    assert ("schedules" in deployment) is road.is_scheduled


@each_road
def test_closing_a_month_does_it_in_a_flow_of_its_own(road: Road) -> None:
    from prefect import Flow

    from flows import closing

    flows = {each.name for each in vars(closing).values() if isinstance(each, Flow)}
    assert road.sub_flow in flows
    assert {each.step for each in ROADS.values()} | {
        ClosingStep.FILES,
        ClosingStep.REVIEW,
    } == set(ClosingStep)


@each_road
def test_the_table_of_the_manual_says_so(road: Road) -> None:
    page = (ROOT / "docs" / "flows.md").read_text()
    row = f"| `meterlake {road.command}` | `{road.deployment}` |"

    [line] = [each for each in page.splitlines() if row in each]
    assert line.endswith(f"| `{road.sub_flow}` |")
    assert ("| yes |" in line) is road.is_scheduled


@pytest.mark.long
@pytest.mark.usefixtures("prefect")
def test_a_backfill_runs_by_a_schedule_that_somebody_adds() -> None:
    runs = asyncio.run(_schedule_backfill({"mode": "re-aggregate", "month": "last"}))

    assert runs
    assert all(each["month"] == "last" for each in runs)


async def _schedule_backfill(parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """The parameters of the runs that Prefect's scheduler makes of a backfill."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.server.services.scheduler import schedule_deployments

    from flows.kinds import flow_of

    [entrypoint] = [each["entrypoint"] for each in DEPLOYMENTS if each["name"] == "backfill"]
    flow = flow_of(kind(entrypoint))
    flow.validate_parameters(parameters)
    async with get_client() as client:
        flow_id = await client.create_flow(flow)
        id_ = await client.create_deployment(flow_id, "backfill-by-schedule", parameters=parameters)
        await client.create_deployment_schedules(id_, [(CronSchedule(cron="5 3 * * *"), True)])
        await schedule_deployments()
        found = await client.read_flow_runs(limit=200)
        return [each.parameters for each in found if each.deployment_id == id_]
