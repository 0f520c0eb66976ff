"""Load a file into a lookup table in one go, as the URL of an upload and a worker do together."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from meterlake.model.catalog.lookups import (
    FILE_MAX,
    LookupTable,
    LookupTableDataJobStatus,
    LookupTableDataJobType,
    LookupTableDataUploadRequest,
    LookupTableFileType,
    LookupTableRevision,
    LookupTableRevisionStatus,
    active_revision,
)
from meterlake.model.errors import Busy, Conflict, Invalid, MeterlakeError, NotFound
from meterlake.model.rules.catalog.derived import meters_looking_up
from meterlake.model.rules.lookups import revision_state
from meterlake.model.values.entity import Record
from meterlake.model.values.problems import read, suggest_name
from meterlake.model.work.jobs import JobKind
from meterlake.pipeline.config import entities
from meterlake.pipeline.ingest.uploads import note_arrival, run_upload
from meterlake.pipeline.jobs.file_jobs import expect_file, key
from meterlake.pipeline.lookups.jobs import delete_job
from meterlake.pipeline.lookups.lookups import At, delete_revision, set_status
from meterlake.stores import Organization, Stores
from meterlake.stores.state import Reader
from meterlake.stores.state import lookups as stored
from meterlake.stores.state.core.stored_configuration import StoredConfiguration
from meterlake.stores.state.ingest.uploads import Upload

_TYPES: Final = {
    ".csv": LookupTableFileType.CSV,
    ".jsonl": LookupTableFileType.JSONL,
    ".ndjson": LookupTableFileType.JSONL,
}
_EMPTY: Final = {
    LookupTableFileType.CSV: (
        "it is empty; name the columns in its first line, also for a table without items"
    ),
    LookupTableFileType.JSONL: (
        "it is empty; write a JSON object with the fields of an item on each line"
    ),
}
_DRAFT: Final = LookupTableRevisionStatus.DRAFT.value
# A worker that took the file has it for so long at most, seen so often.
_WAIT_S: Final = 600
_LOOK_S: Final = 0.2


class LoadFailed(Conflict):
    """A row of the file breaks a rule."""

    text = "nothing of the file came into the lookup table: {0}; mend it, and load it again"


@dataclass(frozen=True, slots=True)
class LookupLoad:
    """What a file is loaded into.

    Attributes:
        table: The code of the table.
        revision: The name of a draft; if None the only draft, or a new one like the published one.
        publish: Whether the revision is published then.
    """

    table: str
    file: Path
    revision: str | None = None
    publish: bool = False


def load_lookup(organization: Organization, author: str, wanted: LookupLoad) -> dict[str, Any]:
    """Replace what a draft of a lookup table holds with the rows of a file: all of them or none.

    Raises:
        NotFound: There is no such table, revision or file.
        Conflict: The table has no revision yet, or several drafts.
        Invalid: A row breaks a rule, or the file's name has another ending.
        Unavailable: State, the disk or the object store failed.
    """
    request = read(LookupTableDataUploadRequest, _announce(wanted.file))
    upload = expect_file(organization, author, request, JobKind.LOOKUP)
    with organization.transaction(author) as transaction:
        table = find_table(transaction, wanted.table)
        known = _draft(transaction, table, wanted.revision)
        draft = known or entities.create_in(
            transaction, organization.stores, _next(transaction, table, wanted.file)
        )
        stored.add_job(transaction, draft.id, LookupTableDataJobType.UPLOAD, file=upload)
    at = At(table.id, draft.id)
    with _undone_if_stopped(organization.stores, author, upload, at, is_new=known is None):
        organization.stores.objects.put_file(key(upload), wanted.file)
        note_arrival(organization.stores, upload, upload.content_length)
        _run(organization, draft.id, upload.id)
    if wanted.publish:
        publish = {"status": LookupTableRevisionStatus.PUBLISHED.value}
        set_status(organization, author, at, publish)
    return _describe(organization, at)


def _announce(file: Path) -> dict[str, Any]:
    """The request to upload a file, if it may be loaded."""
    kind = _TYPES.get(file.suffix.lower())
    if kind is None:
        raise Invalid("file name", file.name, f"its name must end in {', '.join(_TYPES)}")
    if not file.is_file():
        raise NotFound("file", str(file))
    size = file.stat().st_size
    if not size:
        raise Invalid("file", str(file), _EMPTY[kind])
    if size > FILE_MAX:
        raise Invalid("file", str(file), f"it must have at most {FILE_MAX} bytes, and has {size}")
    return {"fileName": file.name[-100:], "contentType": kind.value, "contentLength": size}


@contextmanager
def _undone_if_stopped(
    stores: Stores, author: str, upload: Upload, at: At, *, is_new: bool
) -> Iterator[None]:
    """A revision that was made for a file goes if the file does not come into it.

    Nobody is to load the file after a command that a signal ended.
    """
    organization = stores.organization(upload.org_id)
    try:
        yield
    except LoadFailed:
        if is_new:
            delete_revision(organization, author, at)
        raise
    except Exception:
        raise
    except BaseException:
        with suppress(MeterlakeError):
            delete_job(organization, author, at, upload.id)
            if is_new:
                delete_revision(organization, author, at)
        raise


def find_table(reader: Reader, code: str) -> Record[LookupTable]:
    """The lookup table of a code.

    Raises:
        NotFound: There is none.
    """
    found = reader.find(LookupTable, code)
    if found is None:
        known = list(reader.codes(LookupTable))
        hint = (
            suggest_name(code, known).replace("it must be one of", "name one of")
            if known
            else "there is none yet; make one in lookupTables"
        )
        raise NotFound("lookup table", code, f": {hint}")
    return found


def _draft(
    reader: Reader, table: Record[LookupTable], name: str | None
) -> Record[LookupTableRevision] | None:
    configuration = StoredConfiguration(reader)
    every = list(configuration.where(LookupTableRevision, "lookup_table_id", table.id))
    revisions = [each for each in every if name in {None, each.entity.name}]
    drafts = [each for each in revisions if revision_state(each, configuration)["status"] == _DRAFT]
    if name is not None and not drafts:
        raise NotFound("draft of the lookup table", name)
    if len(drafts) > 1:
        names = ", ".join(repr(each.entity.name) for each in drafts)
        raise Conflict(f"table {table.entity.code!r} has several drafts, {names}: name one of them")
    return drafts[0] if drafts else None


def _next(reader: Any, table: Record[LookupTable], file: Path) -> LookupTableRevision:
    """A new draft of the columns that are published."""
    active = active_revision(table, StoredConfiguration(reader))
    if active is None:
        raise Conflict(
            f"table {table.entity.code!r} has no revision that says what its columns are: write"
            " one to `lookupTableRevisions` of the configuration"
        )
    name = f"{file.name[:150]} {reader.now:%Y-%m-%d %H:%M:%S}"
    return active.entity.model_copy(update={"name": name})


def _run(organization: Organization, revision_id: str, job_id: str) -> None:
    """Run the job of the file here, or see how another process ends it.

    Raises:
        Invalid: It failed.
        Busy: Another process has it for very long.
    """
    until = time.monotonic() + _WAIT_S
    while True:
        try:
            run_upload(organization, job_id)
        except Busy:
            if time.monotonic() > until:
                raise
        with organization.reading() as reader:
            job = stored.job(reader, revision_id, job_id)
        if job.status is LookupTableDataJobStatus.SUCCEEDED:
            return
        if job.status is LookupTableDataJobStatus.FAILED:
            result = job.file.job.result if job.file else {}
            reason = str(result.get("failureReason", "failed"))
            raise LoadFailed(reason)
        if time.monotonic() > until:
            raise Busy(
                "lookup table",
                "another process has been loading the file for long; try again later",
            )
        time.sleep(_LOOK_S)


def _describe(organization: Organization, at: At) -> dict[str, Any]:
    with organization.reading() as reader:
        configuration = StoredConfiguration(reader)
        table = configuration.get(LookupTable, at.table_id)
        revision = configuration.get(LookupTableRevision, at.revision_id)
        meters = [each.entity.code for each in meters_looking_up(table, configuration)]
        return {
            "table": table.entity.code,
            "revision": revision.entity.name,
            **revision_state(revision, configuration),
            "meters": sorted(meters),
        }


def list_lookups(organization: Organization) -> list[dict[str, Any]]:
    """Every revision of every lookup table: where it stands, how many items it has, who reads it."""
    with organization.reading() as reader:
        found = [
            At(each.entity.lookup_table_id, each.id) for each in reader.all(LookupTableRevision)
        ]
    lines = [_describe(organization, at) for at in found]
    return sorted(lines, key=lambda line: (line["table"], line["revision"]))


def publish_lookup(
    organization: Organization, author: str, code: str, revision: str | None = None
) -> dict[str, Any]:
    """Publish a draft of a lookup table; the revision published before is archived.

    Raises:
        NotFound: There is no such table, or no such draft.
        Conflict: It has several drafts, or none.
        Invalid: A meter reads what the draft has not.
    """
    with organization.reading() as reader:
        table = find_table(reader, code)
        draft = _draft(reader, table, revision)
    if draft is None:
        raise Conflict(f"table {code!r} has no draft to publish; load a file into it first")
    at = At(table.id, draft.id)
    set_status(organization, author, at, {"status": LookupTableRevisionStatus.PUBLISHED.value})
    return _describe(organization, at)
