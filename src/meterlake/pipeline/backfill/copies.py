"""What a backfill staged, in the bucket of its lake: any machine goes on with what one began.

A lake in a folder has no copies: all who work on it have the folder.
"""

from pathlib import Path
from typing import Final

from meterlake.pipeline.backfill.job import FOLDER, BackfillJob, Folder, not_staged
from meterlake.stores.files.durable import write_durably
from meterlake.stores.files.folder_copies import FolderCopies, FolderCopy, files_below
from meterlake.stores.lake.backends.location import open_lake_objects

_STAGED: Final = "staged"
_SOURCES: Final = "sources"
# The snapshot of a copy that is no longer what will be applied.
_WITHDRAWN: Final = -2


def save_sources(job: BackfillJob) -> None:
    """Copy the files that a backfill keeps, unless they are the last ones that were copied.

    What was staged with others does not count any more.
    """
    copies, folder = _copies(job), job.folder
    copy = copies.find(_SOURCES) if copies else None
    if copies is None or (copy is not None and _is_here(folder.sources_copy, copy)):
        return
    if copies.find(_STAGED) is not None:
        copies.save(_STAGED, folder.path, [], _WITHDRAWN)
    whole = folder.sources / Folder.WHOLE
    paths = [path for path in files_below([folder.sources]) if path != whole]
    _note_copy(folder.sources_copy, copies.save(_SOURCES, folder.path, [*paths, whole]))


def fetch_sources(job: BackfillJob) -> None:
    """Have the files that a backfill keeps, whoever was given them."""
    copies, folder = _copies(job), job.folder
    copy = copies.find(_SOURCES) if copies else None
    if copies is None or copy is None or _is_here(folder.sources_copy, copy):
        return
    folder.begin()
    folder.clear(folder.staged_copy, folder.sources_copy, folder.sources)
    copies.fetch(copy, folder.path)
    _note_copy(folder.sources_copy, copy)


def save_staged(job: BackfillJob) -> None:
    """Copy what is staged, before anybody is told that it is."""
    copies, folder = _copies(job), job.folder
    if copies is None:
        return
    paths = files_below([*folder.staged, folder.configured, folder.manifest])
    copy = copies.save(_STAGED, folder.path, paths, job.backfill.snapshot)
    _note_copy(folder.staged_copy, copy)


def fetch_staged(job: BackfillJob) -> None:
    """Have what is staged, whoever did it; nothing is staged here that others staged anew."""
    copies, folder = _copies(job), job.folder
    copy = copies.find(_STAGED) if copies else None
    if copies is None or copy is None or _is_here(folder.staged_copy, copy):
        return
    folder.begin()
    folder.clear(folder.staged_copy)
    if copy.mark == job.backfill.snapshot:
        folder.clear(*folder.staged, folder.configured)
        copies.fetch(copy, folder.path)
        _note_copy(folder.staged_copy, copy)


def require_staged(job: BackfillJob) -> None:
    """Have what is staged.

    Raises:
        Conflict: It is neither here nor in the bucket.
    """
    fetch_sources(job)
    fetch_staged(job)
    if not job.folder.manifest.exists():
        copies = _copies(job)
        raise not_staged(job.backfill.id, copies.find(_STAGED) if copies else None)


def drop_copies(job: BackfillJob) -> None:
    """Remove all that others could go on with."""
    copies = _copies(job)
    if copies is not None:
        copies.drop()


def _copies(job: BackfillJob) -> FolderCopies | None:
    organization = job.organization
    name = f"{FOLDER}/{job.backfill.id}"
    objects = open_lake_objects(organization.settings, organization.id, name)
    return None if objects is None else FolderCopies(objects)


def _is_here(note: Path, copy: FolderCopy) -> bool:
    return note.exists() and note.read_text() == copy.token


def _note_copy(note: Path, copy: FolderCopy) -> None:
    with write_durably(note) as temporary:
        temporary.write_text(copy.token)
