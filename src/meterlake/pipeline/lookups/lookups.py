"""Lookup tables: publishing revisions, and reading, writing and copying their data.

Everything takes and gives documents of the wire. The `version` of data counts its writes; where a
caller names one, it must be the current one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from meterlake.model.catalog.lookup_keys import LOOKUP_KEY, item_of, key_in_path
from meterlake.model.catalog.lookups import (
    ITEMS_MAX,
    LookupTable,
    LookupTableDataJobType,
    LookupTableFileType,
    LookupTableRevision,
    LookupTableRevisionState,
    LookupTableRevisionStatus,
    active_revision,
    state_id,
)
from meterlake.model.errors import Invalid, NotFound, Required, StaleVersion
from meterlake.model.rules.catalog.derived import lookups_still_hold
from meterlake.model.rules.lookups import check_next, refuse_unless_draft
from meterlake.model.values.entity import Record
from meterlake.model.values.ids import is_id
from meterlake.pipeline.config import entities
from meterlake.pipeline.config.entities import Document, entity_document, version_of
from meterlake.pipeline.jobs.file_jobs import file_to_make, remove_files
from meterlake.stores import Organization
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state import lookups as stored
from meterlake.stores.state.core.stored_configuration import StoredConfiguration

ACTIVE_REVISION: Final = "activeRevision"
_NAME_MAX: Final = 200
_PUBLISHED: Final = LookupTableRevisionStatus.PUBLISHED


@dataclass(frozen=True, slots=True)
class At:
    """A revision of a table, as a path names it.

    Attributes:
        key: The key of one of its items, as the path writes it.
    """

    table_id: str
    revision_id: str
    key: str = ""


def with_active(organization: Organization, tables: list[Document]) -> list[Document]:
    """Tables with the revision that is published; without one, a table stays as it is."""
    with organization.reading() as reader:
        configuration = StoredConfiguration(reader)
        return [
            {**table, ACTIVE_REVISION: entity_document(active, reader)}
            if (
                active := active_revision(
                    configuration.get(LookupTable, table["id"]), configuration
                )
            )
            else table
            for table in tables
        ]


def set_status(
    organization: Organization, author: str, at: At, document: Mapping[str, Any]
) -> Document:
    """Publish a draft, which archives the revision published before, or archive a published one.

    Raises:
        Invalid: The status is none that may follow.
        StaleVersion: The revision is not at the version that the document names.
    """
    status = document.get("status")
    if status is None:
        raise Required("status")
    known = [each.value for each in LookupTableRevisionStatus]
    if status not in known:
        raise Invalid("status", status, f"it must be one of {', '.join(known)}")
    status = LookupTableRevisionStatus(status)
    with organization.transaction(author) as transaction:
        revision = revision_at(transaction, at)
        version = revision.version if document.get("version") is None else version_of(document)
        before = _state(transaction, revision)
        check_next(before.status, status)
        if status is _PUBLISHED:
            table = transaction.get(LookupTable, revision.entity.lookup_table_id)
            published = active_revision(table, StoredConfiguration(transaction))
            if published is not None:
                transaction.update(published.id, published.version, published.entity)
                state = _state(transaction, published)
                _keep(transaction, state, status=LookupTableRevisionStatus.ARCHIVED)
                _keep_file(transaction, published.id)
        _keep_file(transaction, revision.id)
        changed = transaction.update(revision.id, version, revision.entity)
        _keep(transaction, before, status=status)
        _check_lookups(transaction, at, status.value)
        return entity_document(changed, transaction)


def _keep_file(transaction: Transaction, revision_id: str) -> None:
    # What is not a draft any more never changes: its data is written to files by a job.
    stored.add_job(
        transaction, revision_id, LookupTableDataJobType.ARCHIVE, file=file_to_make(transaction)
    )


def archive_key(org_id: str, revision_id: str, type: LookupTableFileType) -> str:
    """The key of the archived data of a revision in the object store."""
    return f"lookups/{org_id}/{revision_id}{type.suffix}"


def _check_lookups(transaction: Transaction, at: At, status: str) -> None:
    table = transaction.get(LookupTable, at.table_id)
    lookups_still_hold(table, StoredConfiguration(transaction), status)


def delete_revision(organization: Organization, author: str, at: At) -> Document:
    """Delete a revision with its data; answers with what it was."""
    with organization.transaction(author) as transaction:
        revision = revision_at(transaction, at)
        gone = entity_document(revision, transaction)
        stored.clear(transaction, revision.id)
        files = stored.delete_jobs(transaction, revision.id)
        if _state_record(transaction, revision.id) is not None:
            transaction.delete(LookupTableRevisionState, state_id(revision.id))
        transaction.delete(LookupTableRevision, revision.id)
        _check_lookups(transaction, at, "deleted")
    remove_files(organization.stores, files)
    for each in LookupTableFileType:
        organization.stores.objects.delete(archive_key(organization.id, revision.id, each))
    return gone


def read_data(
    organization: Organization, at: At, limit: int = ITEMS_MAX, *, keys: bool = False
) -> Document:
    """The items of a revision in the order of their keys, with `keys` each with its `lookupKey`."""
    with organization.reading() as reader:
        revision = revision_at(reader, at)
        return _data(reader, revision.id, stored.items(reader, revision.id, limit), keys=keys)


def read_item(organization: Organization, at: At) -> Document:
    """The item of a key.

    Raises:
        Invalid: It is no key of the revision.
        NotFound: No item has it.
    """
    with organization.reading() as reader:
        revision = revision_at(reader, at)
        return _one(reader, revision, key_in_path(revision.entity, at.key), keys=False)


def write_data(
    organization: Organization,
    author: str,
    at: At,
    document: Mapping[str, Any],
    *,
    keys: bool = False,
) -> Document:
    """Write items into a draft; those of the same keys are replaced. Answers with what was written.

    Raises:
        Invalid: An item breaks a rule, two have the same key, or the revision is no draft.
        StaleVersion: The data is not at the version that the document names.
    """
    with organization.transaction(author) as transaction:
        revision = draft_at(transaction, at, document)
        found = _items(revision.entity, document.get("items"))
        stored.put(transaction, revision.id, found)
        count_again(transaction, revision)
        return _data(transaction, revision.id, sorted(found.items()), keys=keys)


def write_item(
    organization: Organization,
    author: str,
    at: At,
    document: Mapping[str, Any],
    *,
    keys: bool = False,
) -> Document:
    """Write the item of a key into a draft; its key fields say the same as the path.

    Raises:
        Invalid: The item breaks a rule, has another key, or the revision is no draft.
    """
    with organization.transaction(author) as transaction:
        revision = draft_at(transaction, at, document)
        wanted = key_in_path(revision.entity, at.key)
        if document.get("item") is None:
            raise Required("item")
        found, item = item_of(revision.entity, "item", document["item"])
        if found != wanted:
            raise Invalid("item", found, f"it must be an item of the key {wanted}")
        stored.put(transaction, revision.id, {found: item})
        count_again(transaction, revision)
        return _one(transaction, revision, found, keys=keys)


def delete_data(organization: Organization, author: str, at: At) -> Document:
    """Delete all items of a draft.

    Raises:
        Invalid: The revision is no draft.
    """
    with organization.transaction(author) as transaction:
        revision = draft_at(transaction, at, {})
        stored.clear(transaction, revision.id)
        count_again(transaction, revision)
    return {"result": "deleted"}


def delete_item(
    organization: Organization, author: str, at: At, document: Mapping[str, Any]
) -> Document:
    """Delete the item of a key from a draft; answers with what it was.

    Raises:
        NotFound: No item has the key.
    """
    with organization.transaction(author) as transaction:
        revision = draft_at(transaction, at, document)
        found = key_in_path(revision.entity, at.key)
        gone = _one(transaction, revision, found, keys=False)
        stored.remove(transaction, revision.id, [found])
        count_again(transaction, revision)
        return {**gone, **_envelope(_state_record(transaction, revision.id))}


def copy_data(
    organization: Organization, author: str, at: At, document: Mapping[str, Any]
) -> Document:
    """Copy the data of a revision into a draft of the same schema, or into a new draft.

    What the target holds stays, unless the source has an item of the same key.

    Raises:
        Invalid: The target's schema is another one, or it is no draft.
        NotFound: There is no such target in the table.
    """
    with organization.transaction(author) as transaction:
        source = revision_at(transaction, at)
        revision_id = document.get("revisionId")
        if revision_id is None:
            name = f"{source.entity.name[: _NAME_MAX - len(' Copy')]} Copy"
            fresh = source.entity.model_copy(update={"name": name})
            target = entities.create_in(transaction, organization.stores, fresh)
        else:
            if (
                not isinstance(revision_id, str)
                or not is_id(revision_id)
                or revision_id == source.id
            ):
                raise Invalid(
                    "revisionId", revision_id, "it must be the id of another revision of the table"
                )
            target = draft_at(transaction, At(source.entity.lookup_table_id, revision_id), {})
            same = (source.entity.fields, source.entity.keys) == (
                target.entity.fields,
                target.entity.keys,
            )
            if not same:
                raise Invalid(
                    "revisionId", revision_id, "it must be a revision of the same fields and keys"
                )
        stored.copy(transaction, source.id, target.id)
        count_again(transaction, target)
        job = stored.add_job(transaction, source.id, LookupTableDataJobType.COPY, target.id)
        return {"jobId": job.id, "revisionId": target.id}


def revision_at(reader: Reader, at: At) -> Record[LookupTableRevision]:
    """The revision that a path names.

    Raises:
        NotFound: The table has none of that id.
    """
    record = reader.get(LookupTableRevision, at.revision_id)
    if record.entity.lookup_table_id != at.table_id:
        raise NotFound(LookupTableRevision.__name__, at.revision_id)
    return record


def draft_at(
    transaction: Transaction, at: At, document: Mapping[str, Any]
) -> Record[LookupTableRevision]:
    """A revision that may be written, whose data is at the version that a document names.

    Raises:
        Invalid: It is no draft.
        NotFound: The table has none of that id.
        StaleVersion: Its data is at another version.
    """
    revision = revision_at(transaction, at)
    state = _state_record(transaction, revision.id)
    refuse_unless_draft(revision.entity.name, state.entity if state else None)
    if state is not None and document.get("version") is not None:
        given = version_of(document)
        if given != state.version:
            raise StaleVersion("data of revision", revision.id, state.version, given)
    return revision


def _state_record(reader: Reader, revision_id: str) -> Record[LookupTableRevisionState] | None:
    try:
        return reader.get(LookupTableRevisionState, state_id(revision_id))
    except NotFound:
        return None


def _state(
    transaction: Transaction, revision: Record[LookupTableRevision]
) -> LookupTableRevisionState:
    record = _state_record(transaction, revision.id)
    if record is not None:
        return record.entity
    return LookupTableRevisionState(
        lookup_table_id=revision.entity.lookup_table_id, revision_id=revision.id
    )


def _keep(transaction: Transaction, before: LookupTableRevisionState, **changes: Any) -> None:
    state = before.model_copy(update=changes)
    record = _state_record(transaction, state.revision_id)
    if record is None:
        transaction.create(state, state_id(state.revision_id))
    else:
        transaction.update(record.id, record.version, state)


def count_again(transaction: Transaction, revision: Record[LookupTableRevision]) -> None:
    """Note that the data of a revision was written."""
    items = stored.count(transaction, revision.id)
    _keep(transaction, _state(transaction, revision), item_count=items)


def _items(revision: LookupTableRevision, documents: Any) -> dict[str, dict[str, Any]]:
    if documents is None:
        raise Required("items")
    if not isinstance(documents, list):
        raise Invalid("items", documents, "it must be a list")
    if len(documents) > ITEMS_MAX:
        raise Invalid("items", f"{len(documents)} items", f"it must be at most {ITEMS_MAX} items")
    found: dict[str, dict[str, Any]] = {}
    for index, document in enumerate(documents):
        key, item = item_of(revision, f"items[{index}]", document)
        if key in found:
            raise Invalid(f"items[{index}]", key, "it must be a key of its own")
        found[key] = item
    return found


def _one(
    reader: Reader, revision: Record[LookupTableRevision], key: str, *, keys: bool
) -> Document:
    item = stored.item(reader, revision.id, key)
    if item is None:
        raise NotFound("item", key, f" in revision {revision.entity.name!r}; check its key")
    return _data(reader, revision.id, [(key, item)], keys=keys)


def _data(
    reader: Reader,
    revision_id: str,
    found: list[tuple[str, dict[str, Any]]],
    *,
    keys: bool,
) -> Document:
    shown_items = [{**item, LOOKUP_KEY: key} if keys else item for key, item in found]
    return {"items": shown_items, **_envelope(_state_record(reader, revision_id))}


def _envelope(state: Record[LookupTableRevisionState] | None) -> Document:
    if state is None:
        return {"version": 0}
    return {
        "version": state.version,
        "dtCreated": state.created,
        "createdBy": state.created_by,
        "dtLastModified": state.modified,
        "lastModifiedBy": state.modified_by,
    }
