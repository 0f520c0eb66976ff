"""What integrations there can be: the systems that are installed, as their declarations say."""

from collections.abc import Iterator
from typing import Any, Final

from meterlake.model.configuration.integration_systems import (
    ConfigSetting,
    IntegrationSystem,
    systems,
)
from meterlake.model.configuration.integrations import IntegrationConfig
from meterlake.model.errors import NotFound
from meterlake.model.rules.integrations import fields_of
from meterlake.pipeline.config.entities import Document
from meterlake.stores import Stores

_KIND: Final = "IntegrationSystem"
_CREDENTIALS: Final = "credentials"


def available_config(
    stores: Stores, org_id: str, name: str | None = None, entity_type: str | None = None
) -> Document:
    """What can be configured, by the type of entities, and which systems are in use.

    Raises:
        NotFound: No such system is installed.
    """
    found = [find_system(name)] if name is not None else list(_systems(None))
    types = [each for each in _types(found) if entity_type is None or _is(each, entity_type)]
    with stores.state.reading(org_id) as reader:
        configs = [record.entity for record in reader.all(IntegrationConfig)]
    used = {each.destination.upper() for each in configs}
    return {
        "supportedEntities": {each: _entity(each, found) for each in types},
        "selectedConfigurations": {
            each.name: options_of(each.settings()) for each in found if each.name in used
        },
        "globalConfigurationOptions": options_of(_common_settings()),
    }


def available_systems(entity_type: str | None = None) -> list[Document]:
    """The systems that are installed, or those that take a type of entities."""
    return [
        {
            "identifier": each.name,
            "displayName": each.display_name,
            "validationSupported": True,
            "supportedAuthTypes": [type_.value for type_ in each.credentials],
        }
        for each in _systems(entity_type)
    ]


def entities_of_system(name: str) -> list[Document]:
    """What a system takes, and what entities are mapped to there.

    Raises:
        NotFound: No such system is installed.
    """
    system = find_system(name)
    taken = [{"entityType": each, "sent": True} for each in system.entity_types]
    mapped = [
        {"entityType": entity, "externalTable": table, "sent": False}
        for entity, table in system.tables.items()
        if entity not in system.entity_types
    ]
    return [*taken, *mapped]


def sign_in_options(name: str, entity_type: str) -> Document:
    """The ways to sign in to a system, and the fields that each needs.

    Raises:
        NotFound: No such system is installed, or it does not take the entities.
    """
    system = find_system(name)
    if not any(_is(each, entity_type) for each in system.entity_types):
        raise NotFound(f"entity type of {system.name}", entity_type)
    return options_of(_credential_settings(system))


def option_values(name: str, option: str) -> Document:
    """What an option of a system can be; the first value's members stand beside the list.

    The contract types the answer as one value, its text speaks of several.

    Raises:
        NotFound: No such system is installed, or it has no such option.
    """
    for each in find_system(name).settings():
        if each.name == option:
            values = [
                {"id": value, "label": value.replace("_", " ").lower()} for value in each.values
            ]
            return {**(values[0] if values else {}), "values": values}
    raise NotFound(f"option of {name.upper()}", option)


def mapping_config() -> Document:
    """Which entities are mapped to what of which system; other names may be used, too."""
    mapped = [each for each in _systems(None) if each.tables]
    return {
        "m3terEntities": sorted({entity for each in mapped for entity in each.tables}),
        "externalSystems": [
            {
                "name": each.name,
                "tables": sorted(set(each.tables.values())),
                "allowCustomExternalTables": True,
            }
            for each in mapped
        ],
    }


def find_system(name: str) -> IntegrationSystem:
    """A system, by its name in whatever case.

    Raises:
        NotFound: It is not installed.
    """
    found = systems().get(name.upper())
    if found is None:
        raise NotFound(_KIND, name)
    return found


def options_of(settings: tuple[ConfigSetting, ...]) -> Document:
    """Settings as the wire has them."""
    return {"empty": not settings, "settings": [each.to_wire() for each in settings]}


def _entity(entity_type: str, found: list[IntegrationSystem]) -> Document:
    takers = [each for each in found if entity_type in each.entity_types]
    return {
        "readableName": entity_type,
        "destinations": [_destination(each) for each in takers],
        "entityConfigurationOptions": options_of(
            _common_settings() if entity_type == "Bill" else ()
        ),
        "released": True,
    }


def _destination(system: IntegrationSystem) -> Document:
    own = tuple(each for each in system.settings() if each not in _common_settings())
    return {
        "apiName": system.name,
        "destination": system.name,
        "displayName": system.display_name,
        "destinationConfigOptions": options_of(own),
        "authConfigOptions": options_of(_credential_settings(system)),
        "released": True,
        "authType": system.credentials[0].value if system.credentials else "",
        "categories": list(system.categories),
    }


def _common_settings() -> tuple[ConfigSetting, ...]:
    return IntegrationSystem(name="", display_name="", entity_types=()).settings()


def _credential_settings(system: IntegrationSystem) -> tuple[ConfigSetting, ...]:
    kinds = ConfigSetting(
        name=f"{_CREDENTIALS}.type",
        type="string",
        required=system.needs_credentials,
        description="The way to sign in.",
        values=tuple(each.value for each in system.credentials),
    )
    fields = (
        _field_setting(type_, name) for type_ in system.credentials for name in fields_of(type_)
    )
    return (kinds, *fields) if system.credentials else ()


def _field_setting(type_: Any, name: str) -> ConfigSetting:
    return ConfigSetting(
        name=f"{_CREDENTIALS}.{name}",
        type="string",
        required=True,
        description=f"Of credentials of the type {type_.value}.",
    )


def _systems(entity_type: str | None) -> Iterator[IntegrationSystem]:
    for _, each in sorted(systems().items()):
        if entity_type is None or any(_is(type_, entity_type) for type_ in each.entity_types):
            yield each


def _types(found: list[IntegrationSystem]) -> list[str]:
    return sorted({type_ for each in found for type_ in each.entity_types})


def _is(entity_type: str, name: str) -> bool:
    return entity_type.lower() == name.lower()
