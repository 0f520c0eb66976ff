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
from meterlake.stores.state.core.stored_configuration import StoredConfiguration, field_equals

AUTHOR: Final = "INTEGRATIONS"


@dataclass(frozen=True, slots=True)
class SentBill:
    """A bill as a connector sends it.

    Attributes:
        document: As the API shows it, with its lines.
        account: As the API shows it.
        options: What the configuration says, read.
        credentials: With their secrets readable; None if there are none.
        mappings: What the account and the bill are called there: by entity and id.
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
            mappings=_read_mappings(reader, config, stored),
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
            for record in _mappings_of(transaction, config, entity, id, table)[:1]:
                if record.entity.external_id != external_id:
                    changed = record.entity.model_copy(update={"external_id": external_id})
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


def _read_mappings(
    reader: Reader, config: Record[IntegrationConfig], bill: StoredBill
) -> dict[tuple[str, str], str]:
    """What the account and the bill are there; nothing else is read, however many mappings there are."""
    tables = system_of(config.entity.destination).tables
    needed = (("Account", bill.content.key.account_id), ("Bill", bill.id))
    found = {
        (entity, id_): _mappings_of(reader, config, entity, id_, tables.get(entity))
        for entity, id_ in needed
    }
    return {key: records[0].entity.external_id for key, records in found.items() if records}


def _mappings_of(
    reader: Reader, config: Record[IntegrationConfig], entity: str, id: str, table: str | None
) -> list[Record[ExternalMapping]]:
    """The mapping that counts is the first one.

    That of the integration comes before the one for all of its system; of several that were
    written before there could only be one, the oldest.
    """
    known = field_equals(reader, ExternalMapping, "m3ter_id", id)
    scopes = [(entity, id, config.entity.destination.upper(), each) for each in (config.id, None)]
    found = [
        each
        for each in reader.matching(ExternalMapping, known)
        if _is_of(each.entity, scopes, table)
    ]
    return sorted(
        found,
        key=lambda each: (each.entity.integration_config_id is None, each.created, each.id),
    )


def _is_of(
    mapping: ExternalMapping, scopes: list[tuple[str, str, str, str | None]], table: str | None
) -> bool:
    entity, id_, system, there, config_id = mapping.scope()
    is_table = table is None or there == table.upper()
    return is_table and (entity, id_, system, config_id) in scopes
