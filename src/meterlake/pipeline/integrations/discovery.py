"""What integrations there can be, as the systems that are installed declare it, and what entities map to there."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from meterlake.model.configuration.integration_systems import (
    STRIPE,
    STRIPE_TEST,
    ConfigSetting,
    IntegrationSystem,
    systems,
)
from meterlake.model.configuration.integrations import IntegrationConfig, IntegrationCredentials
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.model.resources import BY_KIND
from meterlake.model.rules.integrations import credentials_id, fields_of, find_shared
from meterlake.model.values.entity import Entity, Record
from meterlake.model.values.secrets import with_secrets
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.integrations.connectors.stripe_calls import list_stripe_values
from meterlake.settings import Settings
from meterlake.stores import Organization
from meterlake.stores.state import Reader
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

_KIND: Final = "IntegrationSystem"
_CREDENTIALS: Final = "credentials"
# An id and what people call it.
NamedId = tuple[str, str]
ListValues = Callable[[Settings, IntegrationCredentials, str], Iterator[NamedId]]

# So many are shown.
VALUES_MAX: Final = 1_000
_HERE: Final = "M3TER"
_LISTS: Final[Mapping[str, ListValues]] = {
    STRIPE.name: list_stripe_values,
    STRIPE_TEST.name: list_stripe_values,
}
_TABLES: Final = {Account.__name__: "Customer", "Product": "Product"}


def available_config(
    organization: Organization, name: str | None = None, entity_type: str | None = None
) -> Document:
    """What can be configured, by the type of entities, and which systems are in use.

    Raises:
        NotFound: No such system is installed.
    """
    found = [find_system(name)] if name is not None else list(_systems(None))
    types = [
        each
        for each in sorted({type_ for each in found for type_ in each.entity_types})
        if entity_type is None or _is(each, entity_type)
    ]
    with organization.reading() as reader:
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
    destinations: list[Document] = []
    for each in takers:
        own = tuple(each for each in each.settings() if each not in _common_settings())
        destinations.append(
            {
                "apiName": each.name,
                "destination": each.name,
                "displayName": each.display_name,
                "destinationConfigOptions": options_of(own),
                "authConfigOptions": options_of(_credential_settings(each)),
                "released": True,
                "authType": each.credentials[0].value if each.credentials else "",
                "categories": list(each.categories),
            }
        )
    return {
        "readableName": entity_type,
        "destinations": destinations,
        "entityConfigurationOptions": options_of(
            _common_settings() if entity_type == "Bill" else ()
        ),
        "released": True,
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
        ConfigSetting(
            name=f"{_CREDENTIALS}.{name}",
            type="string",
            required=True,
            description=f"Of credentials of the type {type_.value}.",
        )
        for type_ in system.credentials
        for name in fields_of(type_)
    )
    return (kinds, *fields) if system.credentials else ()


def _systems(entity_type: str | None) -> Iterator[IntegrationSystem]:
    for _, each in sorted(systems().items()):
        if entity_type is None or any(_is(type_, entity_type) for type_ in each.entity_types):
            yield each


def _is(entity_type: str, name: str) -> bool:
    return entity_type.lower() == name.lower()


def mapping_values(
    organization: Organization,
    destination: str,
    entity_type: str,
    credentials: str | None = None,
    table: str | None = None,
) -> list[Document]:
    """What an entity can be mapped to in a system; nothing if nobody is signed in to it.

    Args:
        organization: The organization.
        destination: The system; `M3TER` is this one.
        entity_type: What is mapped: `Account`.
        credentials: The id of the credentials to sign in with; those of any integration if None.
        table: The table there; the one that the entities are usually mapped to if None.

    Raises:
        NotFound: There are no such credentials.
        Conflict: The system refuses to say.
        Unavailable: It does not answer.
        Invalid: It has no such table.
    """
    name = destination.upper()
    if name == _HERE:
        return [_shown(each) for each in _list_here(organization, table or entity_type)]
    listing = _LISTS.get(name)
    if listing is None:
        return []
    with organization.reading() as reader:
        found = _find_credentials(reader, name, credentials)
    if found is None:
        return []
    opened = with_secrets(found, organization.stores.secrets.decrypt)
    known = (
        table or systems()[name].tables.get(entity_type) or _TABLES.get(entity_type, entity_type)
    )
    values = listing(organization.settings, opened, known)
    return [_shown(each) for each in islice(values, VALUES_MAX)]


def _shown(value: NamedId) -> Document:
    return {"externalId": value[0], "externalName": value[1]}


def _list_here(organization: Organization, kind: str) -> Iterator[NamedId]:
    resource = next((each for name, each in BY_KIND.items() if name.lower() == kind.lower()), None)
    if resource is None or "name" not in resource.entity.model_fields:
        return
    with organization.reading() as reader:
        records: list[Record[Entity]] = reader.all(resource.entity)
    for each in records[:VALUES_MAX]:
        yield each.id, str(getattr(each.entity, "name", None) or each.id)


def _find_credentials(
    reader: Reader, system: str, wanted: str | None
) -> IntegrationCredentials | None:
    """Those of that id, or of the integration that was made first and has some.

    Raises:
        NotFound: No integration of the system has those of that id.
    """
    configuration = StoredConfiguration(reader)
    for record in reader.all(IntegrationConfig):
        config = record.entity
        known = {credentials_id(record.id), config.integration_credentials_id}
        if config.destination.upper() != system or (wanted is not None and wanted not in known):
            continue
        found = config.credentials or find_shared(config, configuration)
        if found is not None:
            return found
    if wanted is not None:
        raise NotFound(f"credentials of {system}", wanted)
    return None
