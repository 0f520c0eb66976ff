"""What is around one entity, over HTTP: what it refers to, what refers to it, its changes."""

from typing import Any, Final

from meterlake.api.server.call import ORGANIZATION, Call, Operation
from meterlake.api.server.readable_fields import permit_each, visible_rows
from meterlake.model.configuration.permissions import ANYTHING
from meterlake.model.resources import BY_NAME
from meterlake.pipeline.config import relations
from meterlake.pipeline.config.entities import Document

_ENTITY: Final = f"{ORGANIZATION}/configuration/{{kind}}/{{id}}"
_LIMIT_MAX: Final = 1_000


async def list_references(call: Call) -> Any:
    """Without the entities that whoever asks may not see."""
    resource, id_ = relations.resource_named(call.path["kind"]), call.path["id"]
    await permit_each(call, resource.permission, [id_])
    found = await call.run(relations.relations, call.organization, resource, id_)
    found["refersTo"] = await _visible(call, found["refersTo"])
    for each in found["referredBy"]:
        each["entities"] = await _visible(call, each["entities"])
    found["referredBy"] = [each for each in found["referredBy"] if each["entities"]]
    return found


async def list_changes(call: Call) -> Any:
    """Without the changes of entities that whoever asks may not see."""
    resource, id_ = relations.resource_named(call.path["kind"]), call.path["id"]
    await permit_each(call, resource.permission, [id_])
    limit = call.query.integer("limit", relations.REFERRING_MAX, least=1, most=_LIMIT_MAX)
    including = tuple(map(relations.resource_named, call.query.texts("including")))
    found = await call.run(
        relations.history, call.organization, resource, id_, including, limit or 1
    )
    found["data"] = await _visible(call, found["data"])
    return found


async def _visible(call: Call, rows: list[Document]) -> list[Document]:
    """The rows of which whoever asks may read the entity."""
    ids = set()
    for kind in {each["kind"] for each in rows}:
        of_kind = [each for each in rows if each["kind"] == kind]
        ids |= {
            (kind, each["id"])
            for each in await visible_rows(call, BY_NAME[kind].permission, of_kind)
        }
    return [each for each in rows if (each["kind"], each["id"]) in ids]


OPERATIONS: Final = (
    # The right to read the entity itself is needed, whose kind the path says.
    Operation(
        "ListEntityReferences",
        "GET",
        f"{_ENTITY}/references",
        ANYTHING,
        "configuration",
        list_references,
        item="",
    ),
    Operation(
        "ListEntityChanges",
        "GET",
        f"{_ENTITY}/changes",
        ANYTHING,
        "configuration",
        list_changes,
        item="",
    ),
)
