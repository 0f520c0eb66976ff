"""External mappings beyond the standard verbs: what is mapped to what, and what it can be mapped to."""

from typing import Any, Final

from meterlake.api.entities import page
from meterlake.api.server.call import ORGANIZATION, Call, Handler, Operation
from meterlake.pipeline.config import integrations
from meterlake.pipeline.integrations import discovery
from meterlake.pipeline.integrations.discovery import mapping_values

_MAPPINGS: Final = f"{ORGANIZATION}/externalmappings"
_CHOICES: Final = f"{ORGANIZATION}/externalmappingconfiguration"
_PAGE_MAX: Final = 200


async def mappings_of_external(call: Call) -> Any:
    """The mappings of something in another system."""
    return await _mappings(
        call,
        {
            "externalSystem": call.path["system"],
            "externalTable": call.path["externalTable"],
            "externalId": call.path["externalId"],
        },
    )


async def mappings_of_entity(call: Call) -> Any:
    """The mappings of an entity."""
    return await _mappings(
        call, {"m3terEntity": call.path["entity"], "m3terId": call.path["m3terId"]}
    )


async def _mappings(call: Call, criteria: dict[str, str]) -> Any:
    this = page(call, _PAGE_MAX)
    return await call.run(integrations.mappings_of, call.organization, criteria, this)


async def mapping_config(call: Call) -> Any:
    """Which entities are mapped to what."""
    del call
    return discovery.mapping_config()


async def list_mapping_values(call: Call) -> Any:
    """What an entity can be mapped to in another system."""
    return await call.run(
        mapping_values,
        *(call.organization, call.path["destination"], call.path["entityType"]),
        call.path.get("integrationCredentialsId"),
        call.query.text("externalTable"),
    )


def _get(name: str, path: str, handler: Handler) -> Operation:
    return Operation(name, "GET", path, "config:retrieve", "externalmapping", handler)


OPERATIONS: Final = (
    _get("GetExternalMappingConfiguration", _CHOICES, mapping_config),
    _get(
        "GetExternalMappingOptionsForDestination",
        f"{_CHOICES}/values/{{destination}}/{{entityType}}",
        list_mapping_values,
    ),
    _get(
        "GetExternalMappingOptionsForDestinationForCredentialsId",
        f"{_CHOICES}/values/{{destination}}/{{entityType}}/{{integrationCredentialsId}}",
        list_mapping_values,
    ),
    _get(
        "ListExternalMappingsForM3terEntity",
        f"{_MAPPINGS}/external/{{entity}}/{{m3terId}}",
        mappings_of_entity,
    ),
    _get(
        "ListExternalMappingsForExternalSystemAndEntity",
        f"{_MAPPINGS}/externalid/{{system}}/{{externalTable}}/{{externalId}}",
        mappings_of_external,
    ),
)
