"""The standard verbs of declared resources: create, retrieve, list, search, update, delete.

All take and give documents of the wire. A write runs the rules of its entity, and of what refers to
it, in the transaction that stores it; rules read what they need through `StoredConfiguration`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

from pydantic import ValidationError

from meterlake.model.configuration.access import SYSTEM
from meterlake.model.configuration.exports import ExportDestination
from meterlake.model.errors import Invalid, NotFound, Required
from meterlake.model.resources import BY_ENTITY, RESOURCES, Resource, entity_references, response
from meterlake.model.resources.listing import FilterValues, Search
from meterlake.model.rules import Proposed
from meterlake.model.rules.proposed import display_name
from meterlake.model.rules.references import existing
from meterlake.model.values import wire
from meterlake.model.values.entity import E, Entity, Record
from meterlake.model.values.ids import derived_id
from meterlake.model.values.problems import read
from meterlake.model.values.secrets import (
    holds_secrets,
    keep_masked,
    mask_secrets,
    with_secrets,
)
from meterlake.pipeline.config.duckdb_rules import custom_sql_rules
from meterlake.pipeline.config.hooks import hooks_of, refuse_named, release
from meterlake.pipeline.config.lone_price_changes import EntityEdit, refuse_lone_changes
from meterlake.pipeline.config.webhook_addresses import address_policy, webhook_rules
from meterlake.settings import Settings
from meterlake.stages.config.check import (
    Further,
    affected_records,
    check_rules,
    check_still_valid,
    codes_exist,
)
from meterlake.stores import Organization, Stores
from meterlake.stores.custom_sql import limits_of
from meterlake.stores.objects.destination import permit_destination
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.access import groups
from meterlake.stores.state.core.listing import list_entities, search_entities
from meterlake.stores.state.core.pages import Page
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResourceRef:
    """Where an entity stands in the API.

    Attributes:
        members: The members of its path that are fields: `{"balanceId": ...}`.
        id: None for a new one, and for the one entity of a kind that every organization has once.
    """

    resource: Resource
    members: Mapping[str, str]
    id: str | None = None


# The version after it fits 32 bits, too.
_VERSION_MAX: Final = 2**31 - 1
_NO_FRACTION: Final = ".000000Z"
_BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Changes of these alone cannot break the rules of anything that refers to the entity.
_HARMLESS: Final = frozenset(
    {"name", "description", "custom_fields", "address", "email_address", "purchase_order_number"}
)


def parse(resource: Resource, document: Mapping[str, Any], members: Mapping[str, str]) -> Any:
    """Read an entity from a document and the members of its path.

    Raises:
        Invalid: A field breaks a rule, or says something else than the path; the sentence names the
            first few.
    """
    for name, value in members.items():
        given = document.get(name)
        if given is not None and str(given).lower() != value.lower():
            raise Invalid(name, given, f"it must be {value}, as in the path; or leave it out")
    return read(resource.entity, {**document, **members})


def create(
    organization: Organization, author: str, ref: ResourceRef, document: Document
) -> Document:
    """Create an entity; answers with what `retrieve` would.

    Raises:
        Invalid: A field or a rule is broken.
        Conflict: The code is taken.
    """
    entity = parse(ref.resource, document, ref.members)
    with organization.transaction(author) as transaction:
        record = create_in(transaction, organization.stores, entity)
        return entity_document(record, transaction)


def create_in(transaction: Transaction, stores: Stores, entity: Entity) -> Record[Any]:
    """Create an entity within a transaction, by all its rules.

    Raises:
        Invalid: A rule is broken.
        Conflict: The code is taken.
        Forbidden: It is a price that two persons have to look at.
    """
    entity = keep_masked(None, entity)
    id_ = transaction.new_id()
    now, author = transaction.now, transaction.author
    proposed = Record(id_, 1, entity, now, author, now, author)
    refuse_lone_changes(transaction, author, (EntityEdit(None, proposed),))
    configuration = StoredConfiguration(transaction, (proposed,))
    _check_references(entity, configuration)
    codes_exist(entity, configuration)
    check_rules(Proposed(id_, entity, None, configuration), _further_rules(stores, transaction))
    sealed = with_secrets(entity, stores.secrets.encrypt)
    record = transaction.create(sealed, id_, fresh=True)
    hooks_of(record).after_create(transaction, record)
    return record


def check_new(reader: Reader, stores: Stores, entity: Entity) -> None:
    """Refuse an entity that could not be created; a code that is taken is no matter here.

    Raises:
        Invalid: A rule is broken, or it refers to something that does not exist.
    """
    now = stores.now()
    proposed = Record(derived_id(reader.org_id, "new"), 1, entity, now, SYSTEM, now, SYSTEM)
    configuration = StoredConfiguration(reader, (proposed,))
    _check_references(entity, configuration)
    codes_exist(entity, configuration)
    further = _further_rules(stores, reader)
    check_rules(Proposed(proposed.id, entity, None, configuration), further)


def retrieve(organization: Organization, ref: ResourceRef) -> Document:
    """One entity.

    Raises:
        NotFound: There is none of that id below these members.
    """
    with organization.reading() as reader:
        return entity_document(_find_record(reader, ref), reader)


def single(organization: Organization, kind: type[E]) -> E:
    """The fields of the one entity of a kind that every organization has once."""
    with organization.reading() as reader:
        found: E = _single(reader, BY_ENTITY[kind]).entity
        return found


def is_plain(resource: Resource) -> bool:
    """Whether a stored entity is what the wire shows of it: nothing computed, nothing masked."""
    return (
        resource.computed is None
        and not resource.singleton
        and not resource.path_members
        and not holds_secrets(resource.entity)
    )


def retrieve_json(organization: Organization, ref: ResourceRef) -> bytes:
    """One entity of a plain resource, as JSON, without a look into it.

    Raises:
        NotFound: There is none of that id.
    """
    assert ref.id is not None
    found = organization.state.get_stored(organization.id, ref.resource.entity, ref.id)
    fields = found.body[1:-1]
    envelope = wire.dumps(
        {
            "createdBy": found.created_by,
            "dtCreated": found.created.replace(_NO_FRACTION, "Z"),
            "lastModifiedBy": found.modified_by,
            "dtLastModified": found.modified.replace(_NO_FRACTION, "Z"),
        }
    )
    head = f'{{"id":"{ref.id}","version":{found.version},{fields}{"," if fields else ""}'
    return head.encode() + envelope[1:]


def list_page(
    organization: Organization, resource: Resource, criteria: list[FilterValues], page: Page
) -> Document:
    """One page of a list, the newest first."""
    with organization.reading() as reader:
        records, token = list_entities(reader, resource, criteria, page)
        return envelope([entity_document(record, reader) for record in records], token)


def search(organization: Organization, resource: Resource, criteria: Search) -> Document:
    """One page of a search; `nextToken` is the document to go on from."""
    with organization.reading() as reader:
        records, more = search_entities(reader, resource, criteria)
        token = str(criteria.start + len(records)) if more else None
        return envelope([entity_document(record, reader) for record in records], token)


def envelope(data: list[Document], token: str | None) -> Document:
    """A page as the wire has it."""
    return {"data": data, "nextToken": token} if token else {"data": data}


def update(
    organization: Organization, author: str, ref: ResourceRef, document: Document
) -> Document:
    """Replace an entity's fields; `version` must be the current one.

    Raises:
        Required: There is no version, or a field that requests have to have.
        Invalid: A field or a rule is broken.
        StaleVersion: Someone updated it since the caller read it.
    """
    for name in ref.resource.entity.required_in_requests:
        if document.get(name) is None:
            raise Required(name)
    version = version_of(document)
    entity = parse(ref.resource, document, ref.members)
    with organization.transaction(author) as transaction:
        before = _find_record(transaction, ref)
        if ref.resource.keep_unset is not None:
            names = ref.resource.keep_unset(entity, before.entity) - entity.model_fields_set
            kept = {name: getattr(before.entity, name) for name in names}
            entity = entity.model_copy(update=kept)
        record = update_in(transaction, organization.stores, before, version, entity)
        return entity_document(record, transaction)


def update_in(
    transaction: Transaction, stores: Stores, before: Record[Any], version: int, entity: Entity
) -> Record[Any]:
    """Replace an entity within a transaction, by all rules.

    Raises:
        Invalid: A rule is broken, its own or one of what refers to it.
        StaleVersion: `version` is not the stored one.
        Forbidden: It is a price that two persons have to look at.
    """
    stored = with_secrets(before.entity, stores.secrets.decrypt)
    entity = keep_masked(stored, entity)
    proposed = replace(before, entity=entity, version=before.version + 1)
    refuse_lone_changes(transaction, transaction.author, (EntityEdit(before, proposed),))
    configuration = StoredConfiguration(transaction, (proposed,))
    if version == before.version:
        hooks_of(before).before_update(transaction, entity)
        _check_references(entity, configuration)
        codes_exist(entity, configuration)
        further = _further_rules(stores, transaction)
        check_rules(Proposed(before.id, entity, before.entity, configuration), further)
        _check_referring(transaction, proposed, before.entity, configuration)
    sealed = with_secrets(entity, stores.secrets.encrypt)
    record = transaction.update(before.id, version, sealed)
    hooks_of(before).after_update(transaction, before.id, stored, entity)
    return record


def delete(organization: Organization, author: str, ref: ResourceRef) -> Document:
    """Delete an entity; answers with what it was.

    Raises:
        NotFound: There is none.
        StillReferenced: Something refers to it: another entity, a bill, a transaction.
    """
    with organization.transaction(author) as transaction:
        before = _find_record(transaction, ref)
        gone = entity_document(before, transaction)
        delete_in(transaction, before)
        return gone


def delete_in(transaction: Transaction, record: Record[Any]) -> None:
    """Delete an entity within a transaction.

    Raises:
        StillReferenced: Something refers to it: another entity, a bill, a transaction.
        Forbidden: It is a price that two persons have to look at.
    """
    refuse_lone_changes(transaction, transaction.author, (EntityEdit(record, None),))
    refuse_booked(transaction, record)
    refuse_named(transaction, record)
    release(transaction, record)
    transaction.delete(type(record.entity), record.id)
    groups.forget(transaction, record.id)


def refuse_booked(reader: Reader, record: Record[Any]) -> None:
    """Refuse to let go of what bills and transactions name.

    Raises:
        StillReferenced: There is one that names it.
    """
    hooks_of(record).guard_deletion(reader, record.id)


def as_of(organization: Organization, ref: ResourceRef, at: datetime) -> Document:
    """One entity as it was at an instant: its own fields and its envelope.

    Raises:
        NotFound: There was none.
    """
    with organization.reading() as reader:
        record = reader.as_of(ref.resource.entity, ref.id, at)
        _require_below(ref, record)
        return mask_secrets(record).to_wire()


def id_of(reader: Reader, kind: type[Entity], name: str) -> str:
    """The id of what has a code, or that id.

    Raises:
        NotFound: There is nothing of either.
    """
    found = reader.find(kind, name)
    return reader.get(kind, name).id if found is None else found.id


def version_of(document: Mapping[str, Any]) -> int:
    """The version that an update names.

    Raises:
        Invalid: There is none, or it is no whole number.
    """
    found = document.get("version")
    if found is None:
        raise Required("version")
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found < _VERSION_MAX:
        raise Invalid("version", found, "it must be the current version of the entity")
    return found


def entity_document(record: Record[Any], reader: Reader) -> Document:
    """What the wire shows of a record; secrets are masked."""
    return response(mask_secrets(record), StoredConfiguration(reader))


def _find_record(reader: Reader, ref: ResourceRef) -> Record[Any]:
    if ref.id is None:
        return _single(reader, ref.resource)
    record = reader.get(ref.resource.entity, ref.id)
    _require_below(ref, record)
    return record


def _require_below(ref: ResourceRef, record: Record[Any]) -> None:
    """An entity is found only below the members that it has."""
    fields = record.entity.to_wire()
    if any(fields.get(name) != value for name, value in ref.members.items()):
        raise NotFound(ref.resource.kind, record.id)


def _single(reader: Reader, resource: Resource) -> Record[Any]:
    """The one entity of its kind; where nobody wrote it yet, it has its defaults."""
    for record in reader.all(resource.entity):
        return record
    try:
        entity = resource.entity()
    except ValidationError:
        raise NotFound(resource.kind, "of the organization") from None
    if isinstance(reader, Transaction):
        return reader.create(entity)
    return Record(
        derived_id(reader.org_id, resource.kind), 1, entity, _BEGINNING, SYSTEM, _BEGINNING, SYSTEM
    )


def _check_references(entity: Entity, configuration: StoredConfiguration) -> None:
    """What an entity refers to exists; the rules build on it."""
    for place, kind, id_ in entity_references(entity):
        existing(kind, place, id_, configuration)


def _check_referring(
    transaction: Transaction,
    changed: Record[Any],
    before: Entity,
    configuration: StoredConfiguration,
) -> None:
    """The rules of everything that refers to a changed entity, directly or through others."""
    if all(
        getattr(before, name) == getattr(changed.entity, name)
        for name in type(changed.entity).model_fields
        if name not in _HARMLESS
    ):
        return
    stored = StoredConfiguration(transaction)
    for record in affected_records([changed], partial(_referring, transaction)):
        try:
            check_still_valid(record, stored, configuration)
        except Invalid as error:
            field, value, rule = error.args
            # The field is not one of what the caller sent: say whose it is.
            raise Invalid(f"{display_name(record)}: {field}", value, rule) from None


def _referring(transaction: Transaction, target: Record[Any]) -> Iterator[Record[Any]]:
    kind = type(target.entity)
    for resource in RESOURCES:
        if kind in resource.refs.values() and resource.rules:
            yield from transaction.referring(resource.entity, kind, target.id)


def _further_rules(stores: Stores, reader: Reader) -> Further:
    """The rules that depend on the settings, or on what is no part of the configuration."""
    settings = stores.settings
    sql = custom_sql_rules(limits_of(settings))
    places: Further = {ExportDestination: (partial(_may_be_written_to, settings),)}
    return {**sql, **places, **webhook_rules(address_policy(settings), reader)}


def _may_be_written_to(settings: Settings, new: Proposed[ExportDestination]) -> None:
    """A new destination, or one that moves, is where this server may export to."""
    old = new.before
    if old is None or (old.bucket_name, old.prefix) != (new.entity.bucket_name, new.entity.prefix):
        permit_destination(new.entity, settings)
