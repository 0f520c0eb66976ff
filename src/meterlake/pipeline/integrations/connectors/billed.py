"""What connectors of bills read and write: the bill, its account, credentials and mappings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.bills.requests import BillStatus
from meterlake.model.configuration.integration_systems import system_of
from meterlake.model.configuration.integrations import (
    ExternalMapping,
    IntegrationConfig,
    IntegrationCredentials,
)
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import Conflict, Invalid, NotFound
from meterlake.model.rules.integrations import find_shared
from meterlake.model.values.entity import Record
from meterlake.model.values.secrets import with_secrets
from meterlake.pipeline.billing.bill_documents import bill_response
from meterlake.pipeline.config.entities import create_in, delete_in
from meterlake.pipeline.integrations.connectors.connector import (
    Exchange,
    Failed,
    FailureKind,
    Outgoing,
    Sent,
)
from meterlake.stages.events.integration_deliveries import ON_APPROVAL
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.versions import last_version
from meterlake.stores.state.billing.stored_bills import StoredBill
from meterlake.stores.state.core.stored_configuration import StoredConfiguration, field_equals
from meterlake.stores.state.events.log import read_events
from meterlake.stores.state.integrations.handed_over import may_be_there, other_ids
from meterlake.stores.state.integrations.runs import RunContent

AUTHOR: Final = "INTEGRATIONS"


@dataclass(frozen=True, slots=True)
class SentBill:
    """A bill as a connector sends it, or takes it back.

    Attributes:
        document: As the API shows it, with its lines; of a deleted bill, as it was last.
        account: As the API shows it.
        options: What the configuration says, read.
        credentials: With their secrets readable; None if there are none.
        mappings: What the account and the bill are called there: by entity and id.
        is_deleted: Whether the bill is no more.
        is_wanted: Whether it is to be sent as it is now.
        may_be_there: Whether it may have been sent before.
        other_ids: The ids under which it was sent before it was deleted and made again.
    """

    stored: StoredBill
    document: dict[str, Any]
    account: dict[str, Any]
    config: Record[IntegrationConfig]
    options: Any
    credentials: IntegrationCredentials | None
    mappings: Mapping[tuple[str, str], str]
    is_deleted: bool = False
    is_wanted: bool = True
    may_be_there: bool = True
    other_ids: Sequence[str] = ()

    def mapped(self, entity: str, id: str | None) -> str | None:
        """What an entity is called there."""
        return self.mappings.get((entity, id or ""))

    @property
    def reason_not_to_send(self) -> Sent | None:
        """What becomes of a run that has nothing to send any more."""
        if self.is_deleted:
            return nothing_sent("the bill is deleted")
        return None if self.is_wanted else nothing_sent("the bill waits for another approval")

    @property
    def reason_not_to_take_back(self) -> Sent | None:
        """What becomes of a run that has nothing to take back."""
        if not self.is_deleted:
            return nothing_sent("the bill is there")
        return None if self.may_be_there else nothing_sent("the bill never was")


def nothing_sent(why: str) -> Sent:
    """The end of a run that has nothing to do."""
    return Sent(exchange=Exchange(request=f"nothing is sent: {why}"))


def read_bill(outgoing: Outgoing) -> SentBill | Failed:
    """Read all that the run of a bill needs; it waits for State."""
    config, content = outgoing.config, outgoing.content
    if config is None:
        return Failed(kind=FailureKind.INVALID, error="the run has no configuration")
    with outgoing.organization.reading() as reader:
        try:
            stored, is_deleted = _read_stored(reader, content.entity_id)
            options = system_of(config.entity.destination).read_options(config.entity.config_data)
        except (NotFound, Invalid) as error:
            return Failed(kind=FailureKind.INVALID, error=str(error))
        credentials = _read_credentials(outgoing, reader, config)
        shared = config.entity.integration_credentials_id
        if credentials is None and shared is not None:
            missing = f"no integration to the same host has the credentials {shared} any more"
            return Failed(kind=FailureKind.UNAUTHENTICATED, error=missing)
        approved = config.entity.config_data.get(ON_APPROVAL) is not True
        # Of a deleted bill, another one may have taken its place: that one stands for itself.
        others = [] if is_deleted else other_ids(reader, content)
        document = bill_response(stored, None)
        # What the account and the bill are there; nothing else is read, however many mappings there
        # are.
        tables = system_of(config.entity.destination).tables
        bill_ids = (("Bill", id_) for id_ in (stored.id, *others))
        needed = (("Account", stored.content.key.account_id), *bill_ids)
        found = {
            (entity, id_): _mappings_of(reader, config, entity, id_, tables.get(entity))
            for entity, id_ in needed
        }
        mappings = {key: records[0].entity.external_id for key, records in found.items() if records}
        was_sent = may_be_there(reader, outgoing.run_id, content)
        try:
            account = reader.get(Account, stored.content.key.account_id).to_wire()
        except NotFound:
            # It was deleted after its bill.
            account = {"id": stored.content.key.account_id}
        return SentBill(
            stored=stored,
            document=document | (_read_last(reader, content) if is_deleted else {}),
            account=account,
            config=config,
            options=options,
            credentials=credentials,
            mappings=mappings,
            is_deleted=is_deleted,
            is_wanted=approved or stored.status is BillStatus.APPROVED,
            may_be_there=was_sent or ("Bill", stored.id) in mappings,
            other_ids=others,
        )


def _read_stored(reader: Reader, id: str) -> tuple[StoredBill, bool]:
    """A bill, or what a deleted one said last; whether it is deleted.

    Raises:
        NotFound: There never was such a bill.
    """
    try:
        return bills.get(reader, id), False
    except NotFound:
        last = last_version(reader, id)
    stored = StoredBill(
        id=id,
        version=last.version,
        status=BillStatus.PENDING,
        locked=False,
        content=last.content,
        created=last.modified,
        created_by=last.modified_by,
        modified=last.modified,
        modified_by=last.modified_by,
    )
    return stored, True


def _read_last(reader: Reader, content: RunContent) -> dict[str, Any]:
    """What the event says of the bill that was deleted, as long as it is kept: its number, status."""
    event = read_events(reader, [content.event_id] if content.event_id else [])
    found = [each.event.data.get("oldDto") or {} for each in event.values()]
    return dict(found[0]) if content.is_deletion and found else {}


def forget_mapping(outgoing: Outgoing, entity: str, ids: Sequence[str], table: str) -> None:
    """Remove what entities are called there that are deleted here."""
    config = outgoing.config
    assert config is not None
    with outgoing.organization.transaction(AUTHOR) as transaction:
        for id_ in ids:
            for record in _mappings_of(transaction, config, entity, id_, table):
                delete_in(transaction, record)


def owner_of(outgoing: Outgoing, entity: str, table: str, external_id: str) -> str | None:
    """The entity that is called so there, as the integration itself wrote it."""
    config = outgoing.config
    assert config is not None
    with outgoing.organization.reading() as reader:
        known = field_equals(reader, ExternalMapping, "external_id", external_id)
        scope = (config.entity.destination.upper(), table.upper(), config.id)
        for each in reader.matching(ExternalMapping, known):
            kind, id_, *there = each.entity.scope()
            if kind == entity and tuple(there) == scope:
                return id_
    return None


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
        with outgoing.organization.transaction(AUTHOR) as transaction:
            for record in _mappings_of(transaction, config, entity, id, table)[:1]:
                if record.entity.external_id != external_id:
                    changed = record.entity.model_copy(update={"external_id": external_id})
                    transaction.update(record.id, record.version, changed)
                return
            create_in(transaction, outgoing.organization.stores, mapping)
    except Conflict:
        return  # Another try wrote it at the same time.


def _read_credentials(
    outgoing: Outgoing, reader: Reader, config: Record[IntegrationConfig]
) -> IntegrationCredentials | None:
    found, shared = config.entity.credentials, config.entity.integration_credentials_id
    if found is None and shared is not None:
        found = find_shared(config.entity, StoredConfiguration(reader))
    return (
        None if found is None else with_secrets(found, outgoing.organization.stores.secrets.decrypt)
    )


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
