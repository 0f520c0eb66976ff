"""The files of entities, bills and their lines in an export: one per type."""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from itertools import chain, islice
from typing import Any, Final

from sqlalchemy import ColumnElement

from meterlake.model.catalog.plans import Pricing
from meterlake.model.customers.accounts import Account
from meterlake.model.errors import NotFound
from meterlake.model.resources import resource_of, response
from meterlake.model.values.entity import Deletion, Entity, Record
from meterlake.model.values.money import ZERO
from meterlake.model.values.secrets import mask_secrets
from meterlake.pipeline.billing.bill_documents import bill_document, line_documents
from meterlake.pipeline.export.staging import ExportStaging, StagedDocuments
from meterlake.stages.export.documents import (
    Document,
    band_deletions,
    band_documents,
    computed_differs,
)
from meterlake.stages.export.exported_columns import (
    BALANCE_TRANSACTIONS,
    BANDS,
    BILLS,
    FOCUS,
    LINES,
    Export,
)
from meterlake.stages.export.focus import Names, focus_document
from meterlake.stages.export.manifest import ExportPart, WrittenFile
from meterlake.stores.state import Reader
from meterlake.stores.state.billing.bills import bills
from meterlake.stores.state.billing.bills.named import names_changed
from meterlake.stores.state.billing.credits import balances
from meterlake.stores.state.billing.stored_bills import StoredBill
from meterlake.stores.state.core.entity_history import PastConfiguration, changes_at, entities_at

# How many balances are asked at once what they hold.
_ASKED: Final = 500
_Documents = Generator[Document, None, None]
_Changes = Iterator[Record[Any] | Deletion]


def stage_operational(staging: ExportStaging, exports: Iterable[Export]) -> Iterator[WrittenFile]:
    """Write the files of some types: all of each, or what changed.

    One reader serves them all: bills have no history, and if one was calculated again between two
    readers, its lines were not those of its total. A reader holds up no writer.
    """
    with staging.stores.state.reading(staging.place.org_id) as reader:
        for export in exports:
            read = _DOCUMENTS.get(export.name, _entities)
            # FOCUS has no such column, and its rows no such end.
            changes = staging.request.changes_since is not None and export is not FOCUS
            columns, part = export.columns_of(changes=changes), ExportPart(export.key_type)
            with (
                StagedDocuments(staging, part, columns) as staged,
                # Whatever happens, no query is left open when the reader is.
                closing(read(staging, reader, export)) as documents,
            ):
                for document in documents:
                    staged.add(document)
            yield from staged.files()


def _entities(staging: ExportStaging, reader: Reader, export: Export) -> _Documents:
    assert export.entity is not None
    configuration = PastConfiguration(reader, staging.at)
    for each in _find_changes(staging, reader, export.entity, configuration):
        if isinstance(each, Deletion):
            yield each.to_wire()
        else:
            yield response(mask_secrets(each), configuration)


def _find_changes(
    staging: ExportStaging, reader: Reader, kind: type[Entity], configuration: PastConfiguration
) -> _Changes:
    """The entities of a kind as they were when the job was created, or those that changed."""
    since = staging.request.changes_since
    if since is None:
        return entities_at(reader, kind, staging.at)
    changes: _Changes = changes_at(reader, kind, since, staging.at)
    if resource_of(kind).computed is None:
        return changes
    before = PastConfiguration(reader, since)
    same = (each for each in entities_at(reader, kind, staging.at) if each.modified < since)
    return chain(changes, (each for each in same if computed_differs(each, configuration, before)))


def _balances(staging: ExportStaging, reader: Reader, export: Export) -> _Documents:
    documents = _entities(staging, reader, export)
    while some := list(islice(documents, _ASKED)):
        ids = [each["id"] for each in some if "deleted" not in each]
        amounts = balances.amounts(reader, ids, staging.at, as_of=True)
        for each in some:
            yield each if "deleted" in each else {**each, "amount": amounts.get(each["id"], ZERO)}


def _transactions(staging: ExportStaging, reader: Reader, export: Export) -> _Documents:
    del export
    since = staging.request.changes_since
    for balance_id, booked in balances.one_by_one(reader, since, staging.at):
        yield {"balanceId": balance_id, **booked.to_wire()}


def _bands(staging: ExportStaging, reader: Reader, export: Export) -> _Documents:
    del export
    since = staging.request.changes_since
    configuration = PastConfiguration(reader, staging.at)
    for each in _find_changes(staging, reader, Pricing, configuration):
        if isinstance(each, Record):
            yield from band_documents(each)
        if since is not None:
            try:
                before = reader.as_of(Pricing, each.id, since)
            except NotFound:
                continue  # The pricing is younger.
            yield from band_deletions(before, each)


def _bills(staging: ExportStaging, reader: Reader, export: Export) -> _Documents:
    del export
    for bill in _stored_bills(staging, reader):
        yield bill_document(bill)


def _lines(staging: ExportStaging, reader: Reader, export: Export) -> _Documents:
    del export
    for bill in _stored_bills(staging, reader):
        yield from line_documents(bill)


def _focus(staging: ExportStaging, reader: Reader, export: Export) -> _Documents:
    del export
    provider = staging.stores.state.organization(staging.place.org_id).name
    configuration = PastConfiguration(reader, staging.at)
    # The organization's name never changes; all else comes from the bill.
    since = staging.request.changes_since
    renamed = None if since is None else names_changed(reader, since, staging.at)
    for bill in _stored_bills(staging, reader, renamed):
        account_id = bill.content.key.account_id
        try:
            account = reader.as_of(Account, account_id, staging.at).entity.name
        except NotFound:  # The account is younger, where clocks differ between machines.
            account = str(bill.content.body.get("accountCode", account_id))
        for line in line_documents(bill):
            yield focus_document(bill.to_wire(), line, Names(provider, account, configuration))


def _stored_bills(
    staging: ExportStaging, reader: Reader, also: ColumnElement[bool] | None = None
) -> Iterable[StoredBill]:
    month = None if staging.month is None else str(staging.month)
    return bills.one_by_one(reader, month, staging.request.changes_since, also)


_DOCUMENTS: Final[dict[str, Callable[[ExportStaging, Reader, Export], _Documents]]] = {
    "balances": _balances,
    BALANCE_TRANSACTIONS.name: _transactions,
    BANDS.name: _bands,
    BILLS.name: _bills,
    FOCUS.name: _focus,
    LINES.name: _lines,
}
