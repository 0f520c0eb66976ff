"""`prefect.yaml`: what it says can be deployed, and what is scheduled gets its runs."""

import asyncio
import importlib
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DEPLOYMENTS = yaml.safe_load((ROOT / "prefect.yaml").read_text())["deployments"]

pytestmark = pytest.mark.filterwarnings("ignore")

# What a form asks for: without it a deployment cannot run.
ASKED = {
    "bill": {},
    "backfill": {"mode": "re-derive"},
    "backfill-decision": {"decision": "revert", "id": "october-again"},
    "close-month": {},
}
each_deployment = pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda each: each["name"])


def flow_of(deployment: dict[str, Any]) -> Any:
    from prefect.flows import load_flow_from_entrypoint

    return load_flow_from_entrypoint(
        str(ROOT / deployment["entrypoint"]), use_placeholder_flow=False
    )


@each_deployment
def test_the_parameters_of_a_deployment_are_those_of_its_flow(deployment: dict[str, Any]) -> None:
    flow = flow_of(deployment)
    parameters = deployment.get("parameters", {})

    assert set(parameters) <= set(inspect.signature(flow.fn).parameters)
    flow.validate_parameters(ASKED.get(deployment["name"], {}) | parameters)


@each_deployment
def test_every_parameter_of_a_form_is_explained(deployment: dict[str, Any]) -> None:
    from prefect.utilities.callables import parameter_schema

    properties = parameter_schema(flow_of(deployment)).properties

    assert {"home", "org"} <= set(properties)
    assert all(field.get("description") for field in properties.values())


@each_deployment
def test_runs_wait_for_each_other_and_schedules_are_in_utc(deployment: dict[str, Any]) -> None:
    # CANCEL_NEW would throw runs away without a word; a local zone skips an hour a year.
    assert deployment["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
    by_hand = deployment["name"] in ASKED
    zones = [schedule["timezone"] for schedule in deployment.get("schedules", ())]
    assert zones == ([] if by_hand else ["UTC"])


@each_deployment
def test_a_deployment_and_its_parameters_are_documented(deployment: dict[str, Any]) -> None:
    text = (ROOT / "docs" / "flows.md").read_text()
    parameters = inspect.signature(flow_of(deployment).fn).parameters

    assert [name for name in [deployment["name"], *parameters] if f"`{name}`" not in text] == []


def test_every_flow_is_deployed_or_named_with_a_reason() -> None:
    from prefect import Flow

    from flows.schedules import NOT_DEPLOYED

    found = set()
    for path in (ROOT / "flows").glob("*.py"):
        module = importlib.import_module(f"flows.{path.stem}")
        for name, value in vars(module).items():
            if isinstance(value, Flow) and value.fn.__module__ == module.__name__:
                found.add(path.stem if name == path.stem else f"{path.stem}:{name}")

    deployed = {kind(each["entrypoint"]) for each in DEPLOYMENTS}
    assert len(found) >= 12
    assert deployed | NOT_DEPLOYED.keys() == found
    assert not deployed & NOT_DEPLOYED.keys()
    assert all(NOT_DEPLOYED.values())
    text = (ROOT / "docs" / "flows.md").read_text()
    assert [reason for reason in NOT_DEPLOYED.values() if reason not in text] == []


@pytest.mark.parametrize("mode", ["retract", "re-aggregate", "re-derive", "replace"])
def test_the_deployment_of_backfills_takes_every_mode(mode: str) -> None:
    from prefect.exceptions import ParameterTypeError

    from meterlake.model.work.backfill import Mode

    [deployment] = [each for each in DEPLOYMENTS if each["name"] == "backfill"]
    flow = flow_of(deployment)
    flow.validate_parameters({"mode": mode})
    assert mode in [each.value for each in Mode]
    with pytest.raises(ParameterTypeError):
        flow.validate_parameters({"mode": f"{mode}s"})


def kind(entrypoint: str) -> str:
    """The name of a flow for `flow_of`."""
    module, _, name = entrypoint.removeprefix("flows/").partition(".py:")
    return name if name == module else f"{module}:{name}"


def test_what_serve_deploys_is_what_the_file_deploys() -> None:
    from flows.schedules import DEPLOYMENTS as SERVED

    assert [(each.name, each.flow, each.cron, each.parameters) for each in SERVED] == [
        (
            each["name"],
            kind(each["entrypoint"]),
            each["schedules"][0]["cron"] if "schedules" in each else None,
            each.get("parameters", {}),
        )
        for each in DEPLOYMENTS
    ]


@pytest.mark.slow
@pytest.mark.usefixtures("prefect")
def test_deploying_all_of_them_gives_each_its_scheduled_runs(tmp_path: Path) -> None:
    """
    With SQLAlchemy 2.1, Prefect 3.8's scheduler never creates a run, while all else works; and
    `prefect deploy --all` leaves deployments out that it does not understand, and goes on.
    """
    from prefect.settings import get_current_settings

    _create_pool()
    shutil.copytree(ROOT / "flows", tmp_path / "flows")
    shutil.copy(ROOT / "prefect.yaml", tmp_path)
    environment = {
        **os.environ,
        **get_current_settings().to_environment_variables(exclude_unset=True),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr

    runs = asyncio.run(_scheduled())

    assert set(runs) == {each["name"] for each in DEPLOYMENTS}
    assert {name for name, count in runs.items() if count == 0} == set(ASKED)
    assert all(count >= 3 for name, count in runs.items() if name not in ASKED), runs


def _create_pool() -> None:
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate

    async def create() -> None:
        async with get_client() as client:
            await client.create_work_pool(WorkPoolCreate(name="meterlake", type="process"))

    asyncio.run(create())


async def _scheduled() -> dict[str, int]:
    """How many runs the scheduler made, by deployment."""
    from prefect.client.orchestration import get_client
    from prefect.server.services.scheduler import schedule_deployments

    await schedule_deployments()
    async with get_client() as client:
        names = {each.id: each.name for each in await client.read_deployments()}
        counts = dict.fromkeys(names.values(), 0)
        for run in await client.read_flow_runs(limit=200):
            if run.deployment_id in names and run.state is not None and run.state.is_scheduled():
                counts[names[run.deployment_id]] += 1
        return counts
