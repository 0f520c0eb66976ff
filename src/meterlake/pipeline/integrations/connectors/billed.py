"""What connectors of bills read and write: the bill, its account, credentials and mappings."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.accounts import Account
from meterlake.model.entity import Record
from meterlake.model.errors import Conflict, Invalid, NotFound
from meterlake.model.integration_systems import system_of
from meterlake.model.integrations import ExternalMapping, IntegrationConfig, IntegrationCredentials
from meterlake.model.rules.integrations import find_shared
from meterlake.model.secrets import with_secrets
from meterlake.pipeline.billing.bill_documents import bill_response
from meterlake.pipeline.config.entities import create_in
from meterlake.pipeline.integrations.connectors.connector import Failed, FailureKind, Outgoing
from meterlake.stores.state import Reader
from meterlake.stores.state.billing import bills
from meterlake.stores.state.billing.stored_bills import StoredBill
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

AUTHOR: Final = "INTEGRATIONS"


@dataclass(frozen=True, slots=True)
class SentBill:
    """A bill as a connector sends it.

    Attributes:
        document: As the API shows it, with its lines.
        account: As the API shows it.
        options: What the configuration says, read.
        credentials: With their secrets readable; None if there are none.
        mappings: What accounts, products and the like are called there: by entity and id.
    """

    stored: StoredBill
    document: dict[str, Any]
    account: dict[str, Any]
    config: Record[IntegrationConfig]
    options: Any
    credentials: IntegrationCredentials | None
    mappings: Mapping[tuple[str, str], str]

    def mapped(self, entity: str, id: str | None) -> str | None:
        """What an entity is called there."""
        return self.mappings.get((entity, id or ""))


def read_bill(outgoing: Outgoing) -> SentBill | Failed:
    """Read all that the run of a bill needs; it waits for State."""
    config, content = outgoing.config, outgoing.content
    if config is None:
        return Failed(kind=FailureKind.INVALID, error="the run has no configuration")
    with outgoing.stores.state.reading(outgoing.org_id) as reader:
        try:
            stored = bills.get(reader, content.entity_id)
            account = reader.get(Account, stored.content.key.account_id)
            options = system_of(config.entity.destination).read_options(config.entity.config_data)
        except (NotFound, Invalid) as error:
            return Failed(kind=FailureKind.INVALID, error=str(error))
        credentials = _read_credentials(outgoing, reader, config)
        shared = config.entity.integration_credentials_id
        if credentials is None and shared is not None:
            missing = f"no integration to the same host has the credentials {shared} any more"
            return Failed(kind=FailureKind.UNAUTHENTICATED, error=missing)
        return SentBill(
            stored=stored,
            document=bill_response(stored, None),
            account=account.to_wire(),
            config=config,
            options=options,
            credentials=credentials,
            mappings=_read_mappings(reader, config),
        )


def write_mapping(outgoing: Outgoing, entity: str, id: str, table: str, external_id: str) -> None:
    """Write down what an entity is called there; what is written already stays."""
    config = outgoing.config
    assert config is not None
    mapping = ExternalMapping(
        m3ter_entity=entity,
        m3ter_id=id,
        external_system=config.entity.destination.upper(),
        external_table=table,
        external_id=external_id,
        integration_config_id=config.id,
    )
    try:
        with outgoing.stores.state.transaction(outgoing.org_id, AUTHOR) as transaction:
            for record in _mappings_of(transaction, config):
                known = record.entity
                if (known.m3ter_entity, known.m3ter_id) == (entity, id):
                    if known.external_id != external_id:
                        changed = known.model_copy(update={"external_id": external_id})
                        transaction.update(record.id, record.version, changed)
                    return
            create_in(transaction, outgoing.stores, mapping)
    except Conflict:
        return  # Another try wrote it at the same time.


def _read_credentials(
    outgoing: Outgoing, reader: Reader, config: Record[IntegrationConfig]
) -> IntegrationCredentials | None:
    found, shared = config.entity.credentials, config.entity.integration_credentials_id
    if found is None and shared is not None:
        found = find_shared(config.entity, StoredConfiguration(reader))
    return None if found is None else with_secrets(found, outgoing.stores.secrets.decrypt)


def _read_mappings(reader: Reader, config: Record[IntegrationConfig]) -> dict[tuple[str, str], str]:
    """Those of the integration come before those that are for all of its system."""
    found = _mappings_of(reader, config)
    ordered = sorted(found, key=lambda each: each.entity.integration_config_id == config.id)
    return {
        (each.entity.m3ter_entity, each.entity.m3ter_id): each.entity.external_id
        for each in ordered
    }


def _mappings_of(
    reader: Reader, config: Record[IntegrationConfig]
) -> list[Record[ExternalMapping]]:
    system = config.entity.destination.upper()
    return [
        each
        for each in reader.all(ExternalMapping)
        if each.entity.external_system.upper() == system
        and each.entity.integration_config_id in {None, config.id}
    ]
