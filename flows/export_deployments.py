"""A deployment for every schedule of exports, under a name that people know it by.

The worker runs what is due; a deployment shows what there is, and lets people run a schedule now.
Schedules that are made, changed or deleted while this runs are seen within seconds.
"""

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple
from uuid import UUID

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.exceptions import PrefectException
from prefect.runner import Runner
from prefect.types.entrypoint import EntrypointType

from flows.export import export_schedule
from flows.labels import tag_of
from flows.parameters import open_home
from meterlake.model.errors import MeterlakeError, Unavailable
from meterlake.pipeline.export.control import list_schedules
from meterlake.stores import Stores

LOOK_S: Final = 10
TAG: Final = "export schedule"
# What Prefect does not allow in names.
_BANNED: Final = re.compile(r"[/%&<>]")
_log: Final = logging.getLogger("meterlake.schedules")


class DeploymentSpec(NamedTuple):
    """What a deployment is to look like."""

    name: str
    description: str
    parameters: dict[str, Any]


async def keep_up_to_date(runner: Runner, home: Path) -> None:
    """Have a deployment for every schedule of a home, until this is cancelled."""
    known: dict[str, DeploymentSpec] = {}
    while True:
        try:
            wanted = await asyncio.to_thread(_wanted, home)
            known = await bring_up_to_date(runner, wanted, known)
        except (MeterlakeError, PrefectException, httpx.HTTPError) as error:
            # The next look may succeed; what the worker runs does not depend on it.
            _log.warning("%s: %s", type(error).__name__, error)
        await asyncio.sleep(LOOK_S)


async def bring_up_to_date(
    runner: Runner, wanted: dict[str, DeploymentSpec], known: dict[str, DeploymentSpec]
) -> dict[str, DeploymentSpec]:
    """Make and change deployments, and delete those whose schedules are gone.

    Args:
        runner: Who runs them.
        wanted: What there is to be, by the names of deployments.
        known: What this runner has made so far.

    Returns:
        What it has made now.
    """
    for name, each in wanted.items():
        if known.get(name) != each:
            await runner.aadd_deployment(await _deployment(each))
    for name, id_ in await _found():
        if name not in wanted:
            async with get_client() as client:
                await client.delete_deployment(id_)
    return wanted


def _wanted(home: Path) -> dict[str, DeploymentSpec]:
    with open_home(home) as stores:
        return {each.name: each for each in deployment_specs(stores, home)}


def deployment_specs(stores: Stores, home: Path) -> Iterator[DeploymentSpec]:
    """What the deployments of all schedules look like."""
    for organization in stores.organizations():
        try:
            schedules = list_schedules(organization)
        except Unavailable:
            raise  # Nothing is known of any of them: their deployments stay.
        except MeterlakeError as error:
            _log.warning("the schedules of %s have no deployments: %s", organization.code, error)
            continue
        for schedule in schedules:
            code, name = schedule["code"], schedule["name"]
            parameters = {"org": organization.code, "schedule": code, "name": name}
            known_by = name if name == code else f"{name} ({code})"
            state = schedule["clock"] if schedule["enabled"] else "disabled"
            yield DeploymentSpec(
                _BANNED.sub("-", f"{known_by} of {organization.code}"),
                f"Exports {schedule['sourceType'].lower()} data: {state}. The worker of `meterlake"
                " serve` runs it; a run from here is one more.",
                {"home": str(home.absolute()), **parameters},
            )


async def _deployment(wanted: DeploymentSpec) -> Any:
    made: Any = export_schedule.ato_deployment(
        wanted.name,
        description=wanted.description,
        parameters=wanted.parameters,
        tags=[TAG, tag_of(wanted.parameters["org"])],
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    return await made


async def _found() -> list[tuple[str, UUID]]:
    tagged = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    found, offset = [], 0
    async with get_client() as client:
        while page := await client.read_deployments(
            deployment_filter=tagged, limit=200, offset=offset
        ):
            found += [(each.name, each.id) for each in page]
            offset += len(page)
    return found
