"""Work pools: where the runs of deployments have their processes, containers or pods."""

import copy
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import prefect
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import WorkPoolCreate, WorkPoolUpdate

from flows.outcome import Row
from flows.server_objects import TAG, ServerObject
from meterlake.model.errors import Conflict

PoolType: TypeAlias = Literal["process", "docker", "kubernetes"]
# Work pools have no tags.
MARK: Final = "Made by `meterlake deploy`."
# Prefect asks GitHub for newer ones first; those that it brings along do.
_TEMPLATES: Final = "server/api/collections_data/views/aggregate-worker-metadata.json"
_PACKAGES: Final = {
    "process": "prefect",
    "docker": "prefect-docker",
    "kubernetes": "prefect-kubernetes",
}


def pool_name(pool: PoolType) -> str:
    """The name of the work pool of a type.

    >>> pool_name("process"), pool_name("docker")
    ('meterlake', 'meterlake-docker')
    """
    return TAG if pool == "process" else f"{TAG}-{pool}"


class WorkPools:
    """The work pools of some types.

    Args:
        client: Who asks the server.
        types: Of which types there is to be a pool.
        image: What containers and pods run.
    """

    kind = "work pool"

    def __init__(self, client: SyncPrefectClient, types: Sequence[PoolType], image: str) -> None:
        self._client = client
        self._types = {pool_name(each): each for each in types}
        self._image = image

    def specify(self) -> Mapping[str, Row]:
        """What is to be there, by name."""
        return {
            name: {"type": pool, "template": _template(pool, self._image)}
            for name, pool in self._types.items()
        }

    def read(self) -> Mapping[str, ServerObject]:
        """What is there, by name; a pool that somebody else made is left as it is.

        Raises:
            Conflict: It has one of our names and another type.
        """
        found = {}
        for pool in self._client.read_work_pools(limit=200):
            is_ours = (pool.description or "").startswith(MARK)
            content = {"type": pool.type, "template": pool.base_job_template}
            if (wanted := self._types.get(pool.name)) is not None:
                if pool.type != wanted:
                    raise Conflict(f"the work pool {pool.name} is of type {pool.type}")
                if not is_ours:
                    content = self.specify()[pool.name]
            found[pool.name] = ServerObject(str(pool.id), content, is_ours)
        return found

    def create(self, name: str, content: Row) -> str:
        """Make a pool.

        Returns:
            Its id.
        """
        wanted = WorkPoolCreate(
            name=name,
            type=content["type"],
            description=MARK,
            base_job_template=content["template"],
        )
        return str(self._client.create_work_pool(wanted).id)

    def update(self, name: str, found: ServerObject, content: Row) -> None:
        """Change a pool, which keeps its id."""
        del found
        changed = WorkPoolUpdate(base_job_template=content["template"])
        self._client.update_work_pool(name, changed)

    def remove(self, name: str, found: ServerObject) -> None:
        """Remove a pool."""
        del found
        self._client.delete_work_pool(name)


def _template(pool: PoolType, image: str) -> dict[str, Any]:
    """The base job template of a type, as Prefect brings it along, with our image."""
    path = Path(prefect.__file__).parent / _TEMPLATES
    known = json.loads(path.read_text("utf-8"))[_PACKAGES[pool]][pool]
    template: dict[str, Any] = copy.deepcopy(known["default_base_job_configuration"])
    properties = template["variables"]["properties"]
    if "image" in properties:
        properties["image"]["default"] = image
    return template
