"""What entities can be mapped to: what other systems have, and what there is here."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from meterlake.model.configuration.integration_systems import STRIPE, STRIPE_TEST, systems
from meterlake.model.configuration.integrations import IntegrationConfig, IntegrationCredentials
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.model.resources import BY_KIND
from meterlake.model.rules.integrations import credentials_id, find_shared
from meterlake.model.values.entity import Entity, Record
from meterlake.model.values.secrets import with_secrets
from meterlake.pipeline.config.entities import Document
from meterlake.pipeline.integrations.connectors.stripe_values import list_stripe_values
from meterlake.settings import Settings
from meterlake.stores import Stores
from meterlake.stores.state import Reader
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

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


def mapping_values(
    stores: Stores,
    org_id: str,
    destination: str,
    entity_type: str,
    credentials: str | None = None,
    table: str | None = None,
) -> list[Document]:
    """What an entity can be mapped to in a system; nothing if nobody is signed in to it.

    Args:
        stores: The home's stores.
        org_id: The organization.
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
        return [_shown(each) for each in _list_here(stores, org_id, table or entity_type)]
    listing = _LISTS.get(name)
    if listing is None:
        return []
    with stores.state.reading(org_id) as reader:
        found = _find_credentials(reader, name, credentials)
    if found is None:
        return []
    opened = with_secrets(found, stores.secrets.decrypt)
    known = (
        table or systems()[name].tables.get(entity_type) or _TABLES.get(entity_type, entity_type)
    )
    values = listing(stores.settings, opened, known)
    return [_shown(each) for each in islice(values, VALUES_MAX)]


def _shown(value: NamedId) -> Document:
    return {"externalId": value[0], "externalName": value[1]}


def _list_here(stores: Stores, org_id: str, kind: str) -> Iterator[NamedId]:
    resource = next((each for name, each in BY_KIND.items() if name.lower() == kind.lower()), None)
    if resource is None or "name" not in resource.entity.model_fields:
        return
    with stores.state.reading(org_id) as reader:
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
