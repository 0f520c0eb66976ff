"""The deployments of `flows.schedules`, and of the schedules of exports, for workers of a pool."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule
from prefect.utilities.callables import parameter_schema

from flows import ENVIRONMENT
from flows.export import export_schedule
from flows.export_deployments import TAG as EXPORT_TAG
from flows.export_deployments import deployment_specs
from flows.kinds import flow_of
from flows.labels import tag_of
from flows.outcome import Row
from flows.parameters import open_home
from flows.schedules import DEPLOYMENTS
from flows.server_objects import TAG, ServerObject
from meterlake.model.errors import NotFound

HEARTBEAT_S: Final = 30
# A run that has no process by then gives its place to the next one.
GRACE_S: Final = 600
_PAGE: Final = 200
_LIMIT: Final = 1


class FlowDeployments:
    """All deployments.

    Args:
        client: Who asks the server.
        pool: The work pool whose workers run them.
        home: The home whose schedules of exports have deployments, too; none has if None.
    """

    kind = "deployment"

    def __init__(self, client: SyncPrefectClient, pool: str, home: Path | None) -> None:
        self._client = client
        self._specs = dict(_specify(pool, home))

    def specify(self) -> Mapping[str, Row]:
        """What is to be there, by the names of flow and deployment."""
        return self._specs

    def read(self) -> Mapping[str, ServerObject]:
        """What is there, by the names of flow and deployment."""
        flows = {each.id: each.name for each in self._pages(self._client.read_flows)}
        return {
            f"{flows[each.flow_id]}/{each.name}": _found(each)
            for each in self._pages(self._client.read_deployments)
        }

    def create(self, name: str, content: Row) -> str:
        """Make a deployment, or give one that is there another content; it keeps its id.

        Returns:
            Its id.
        """
        flow, _, own = name.partition("/")
        limit = content["concurrency"]
        made = self._client.create_deployment(
            flow_id=self._client.create_flow_from_name(flow),
            name=own,
            description=content["description"],
            entrypoint=content["entrypoint"],
            parameters=content["parameters"],
            tags=content["tags"],
            work_pool_name=content["pool"],
            job_variables=content["variables"],
            schedules=[
                DeploymentScheduleCreate(schedule=CronSchedule(cron=cron, timezone=timezone))
                for cron, timezone in content["schedules"]
            ],
            concurrency_limit=limit["limit"],
            concurrency_options=ConcurrencyOptions(
                collision_strategy=ConcurrencyLimitStrategy(limit["strategy"]),
                grace_period_seconds=limit["grace"],
            ),
            parameter_openapi_schema=content["schema"],
            enforce_parameter_schema=True,
        )
        return str(made)

    def update(self, name: str, found: ServerObject, content: Row) -> None:
        """Change a deployment, which keeps its id and its runs."""
        del found
        self.create(name, content)

    def remove(self, name: str, found: ServerObject) -> None:
        """Remove a deployment."""
        del name
        self._client.delete_deployment(UUID(found.id))

    def _pages(self, read: Any) -> Iterator[Any]:
        offset = 0
        while page := read(limit=_PAGE, offset=offset):
            yield from page
            offset += len(page)


def _specify(pool: str, home: Path | None) -> Iterator[tuple[str, Row]]:
    for each in DEPLOYMENTS:
        flow = flow_of(each.flow)
        crons = [[each.cron, "UTC"]] if each.cron else []
        content = _content(flow, pool, dict(each.parameters), crons, [TAG])
        yield f"{flow.name}/{each.name}", content
    for spec in _export_specs(home):
        # The worker's environment says which home it is.
        parameters = {name: value for name, value in spec.parameters.items() if name != "home"}
        tags = [TAG, EXPORT_TAG, tag_of(parameters["org"])]
        content = _content(export_schedule, pool, parameters, [], tags)
        yield f"{export_schedule.name}/{spec.name}", content | {"description": spec.description}


def _export_specs(home: Path | None) -> list[Any]:
    if home is None:
        return []
    try:
        with open_home(home) as stores:
            return list(deployment_specs(stores, home))
    except NotFound:  # The home is on another machine.
        return []


def _content(flow: Any, pool: str, parameters: Row, crons: list[list[str]], tags: list[str]) -> Row:
    schema = parameter_schema(flow).model_dump_for_openapi()
    environment = {**ENVIRONMENT, "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": str(HEARTBEAT_S)}
    return {
        "description": flow.description,
        "entrypoint": f"{flow.fn.__module__}.{flow.fn.__name__}",
        "parameters": parameters,
        "tags": sorted(tags),
        "pool": pool,
        "variables": {"env": environment},
        "schedules": crons,
        "concurrency": {"limit": _LIMIT, "strategy": "ENQUEUE", "grace": GRACE_S},
        "schema": schema,
    }


def _found(deployment: DeploymentResponse) -> ServerObject:
    content = {
        "description": deployment.description,
        "entrypoint": deployment.entrypoint,
        "parameters": deployment.parameters,
        "tags": sorted(deployment.tags),
        "pool": deployment.work_pool_name,
        "variables": deployment.job_variables,
        # Whether somebody paused them is theirs to say.
        "schedules": [
            [
                getattr(each.schedule, "cron", repr(each.schedule)),
                getattr(each.schedule, "timezone", None),
            ]
            for each in deployment.schedules
        ],
        "concurrency": _limit(deployment),
        "schema": deployment.parameter_openapi_schema,
    }
    return ServerObject(str(deployment.id), content, TAG in deployment.tags)


def _limit(deployment: DeploymentResponse) -> Row:
    limit, options = deployment.global_concurrency_limit, deployment.concurrency_options
    return {
        "limit": limit and limit.limit,
        "strategy": options and options.collision_strategy.value,
        "grace": options and options.grace_period_seconds,
    }
