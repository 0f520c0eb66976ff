"""Files of lookup tables: items that come in one, all of them or none, and items written to one."""

import csv
import io
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, AnyStr, Final, Generic

from meterlake.model.catalog.lookup_keys import LOOKUP_KEY, item_of, number_in
from meterlake.model.catalog.lookups import (
    LookupTableDataJobType,
    LookupTableFileType,
    LookupTableRevision,
    LookupTableRevisionFieldType,
)
from meterlake.model.errors import Invalid, NotFound, StaleVersion
from meterlake.model.values import wire
from meterlake.model.values.entity import Record
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.money import plain
from meterlake.pipeline.jobs.file_jobs import Work, failure, key
from meterlake.pipeline.lookups.lookups import At, archive_key, count_again, draft_at
from meterlake.stages.decode.csv_lines import csv_lines
from meterlake.stores import Organization
from meterlake.stores.files.durable import disk
from meterlake.stores.state import JobStatus, Reader
from meterlake.stores.state import lookups as stored
from meterlake.stores.state.lookups import LookupJob

INVALID: Final = "InvalidRows"
REFUSED: Final = "Refused"
# In a job's outcome, how many items came in: for runs; the API tells them of the revision.
ITEMS: Final = "items"
# So many wrong rows are told; of the others, how many there are.
_TOLD_MAX: Final = 10
# A file may have a gibibyte, and be one line. A row has at most some hundred columns.
_RECORD_MAX: Final = 1 << 20
_WRITTEN_AT_ONCE: Final = 2000
_BOM: Final = b"\xef\xbb\xbf"

# The number of a row, and the row as a document or what is wrong with it.
_Rows = Iterator[tuple[int, Any]]
_Revision = Record[LookupTableRevision]


def run_lookup_job(work: Work) -> None:
    """Run the job of a file of a lookup table.

    Safe to repeat after a crash: what happens to items and the end of the job are one transaction,
    and a file that is written again is the same file.

    Raises:
        NotFound: The job is forgotten.
        StaleVersion: Another attempt took it over, or the revision was changed meanwhile.
        Unavailable: The disk, State or the object store failed; worth another try.
    """
    upload = work.upload
    with work.stores.state.reading(upload.org_id) as reader:
        job = stored.job_of_file(reader, upload.id)
        revision = reader.get(LookupTableRevision, job.revision_id)
    _RUNS[job.type](work, job, revision)


def _take_in(work: Work, job: LookupJob, revision: _Revision) -> None:
    path = work.file()
    if path is None:
        return
    kind = LookupTableFileType(work.upload.content_type)
    items = work.folder / "items"
    wrong, count = _Wrong(), 0
    try:
        rows = _ROWS[kind](path, revision.entity)
        count = _check(rows, revision.entity, items, wrong, work.go_on)
    except Invalid as error:
        wrong.add(error)
    if wrong.count:
        work.finish(JobStatus.FAILED, failure(INVALID, str(wrong)))
        return
    mark_step("lookups.checked")
    # The items are written under the id of the job, where nobody reads them, little by little.
    # Moving them is quick then: other writers of State never wait for a large file.
    upload, state = work.upload, work.stores.state
    with state.transaction(upload.org_id, upload.author) as transaction:
        stored.clear(transaction, upload.id)  # Of an attempt that died.
    with disk(), items.open("rb") as file:
        lines = map(wire.loads, file)
        while chunk := dict(islice(lines, _WRITTEN_AT_ONCE)):
            with state.transaction(upload.org_id, upload.author) as transaction:
                # A job that was forgotten meanwhile leaves nothing behind.
                work.renew_in(transaction.connection)
                stored.put(transaction, upload.id, chunk)
    mark_step("lookups.ready")
    _commit(work, job, revision, count)
    mark_step("lookups.committed")


@dataclass
class _Wrong:
    """What is wrong with the rows of a file."""

    count: int = 0
    told: list[str] = field(default_factory=list)

    def add(self, error: Invalid) -> None:
        self.count += 1
        if self.count <= _TOLD_MAX:
            self.told.append(str(error))

    def __str__(self) -> str:
        more = self.count - len(self.told)
        return "; ".join([*self.told, *([f"and {more} more"] if more else [])])


def _check(
    rows: _Rows,
    revision: LookupTableRevision,
    target: Path,
    wrong: _Wrong,
    alive: Callable[[int], None],
) -> int:
    """Write the items of rows by their keys to a file, and note what is wrong with some."""
    seen: set[str] = set()
    with disk(), target.open("wb") as file:
        for number, row in rows:
            alive(1)
            try:
                name, item = _item(revision, f"row {number}", row, seen)
            except Invalid as error:
                wrong.add(error)
                continue
            seen.add(name)
            file.write(wire.dumps([name, item]) + b"\n")
    return len(seen)


def _item(
    revision: LookupTableRevision, place: str, row: Any, seen: set[str]
) -> tuple[str, dict[str, Any]]:
    if isinstance(row, Invalid):
        raise row
    name, item = item_of(revision, place, row)
    if name in seen:
        raise Invalid(place, name, "it must be a key of its own")
    return name, item


def _commit(work: Work, job: LookupJob, checked: _Revision, items: int) -> None:
    upload = work.upload
    with work.stores.state.transaction(upload.org_id, upload.author) as transaction:
        # First, so that nobody takes the job over while the items are written.
        work.renew_in(transaction.connection)
        at = At(checked.entity.lookup_table_id, checked.id)
        try:
            revision = draft_at(transaction, at, {"version": job.data_version})
        except (Invalid, StaleVersion) as error:
            stored.clear(transaction, upload.id)
            outcome = failure(REFUSED, str(error))
            work.finish_in(transaction.connection, JobStatus.FAILED, outcome)
            return
        if revision.version != checked.version:
            # Its columns may be others: the next attempt checks the rows against them.
            kind = LookupTableRevision.__name__
            raise StaleVersion(kind, revision.id, revision.version, checked.version)
        stored.move(transaction, upload.id, revision.id)
        count_again(transaction, revision)
        work.finish_in(transaction.connection, JobStatus.COMPLETE, {ITEMS: items})
        mark_step("lookups.written")


def _write_out(work: Work, job: LookupJob, revision: _Revision) -> None:
    kind = LookupTableFileType(work.upload.content_type)
    path = work.folder / "file"
    with work.stores.state.reading(work.upload.org_id) as reader:
        write_items(reader, revision, kind, path, work.go_on)
    work.stores.objects.put_file(key(work.upload), path)
    mark_step("lookups.made")
    work.finish(JobStatus.COMPLETE, {})
    del job


def _archive(work: Work, job: LookupJob, revision: _Revision) -> None:
    for kind in LookupTableFileType:
        archive(
            work.stores.organization(work.upload.org_id), revision, kind, work.folder, work.go_on
        )
    mark_step("lookups.archived")
    work.finish(JobStatus.COMPLETE, {})
    del job


_RUNS: Final = {
    LookupTableDataJobType.UPLOAD: _take_in,
    LookupTableDataJobType.DOWNLOAD: _write_out,
    LookupTableDataJobType.ARCHIVE: _archive,
}


def archive(
    organization: Organization,
    revision: _Revision,
    kind: LookupTableFileType,
    folder: Path,
    alive: Callable[[int], None] = lambda _: None,
) -> str:
    """Write the data of a revision that is no draft to a file, unless it is there.

    Args:
        organization: The organization.
        revision: The revision.
        kind: How the items are written.
        folder: Where the file may lie on its way.
        alive: Called for each item.

    Returns:
        The key of the file in the object store.
    """
    name = archive_key(organization.id, revision.id, kind)
    try:
        organization.stores.objects.head(name)
    except NotFound:
        path = folder / f"archived{kind.suffix}"
        with organization.reading() as reader:
            write_items(reader, revision, kind, path, alive)
        organization.stores.objects.put_file(name, path)
    return name


def write_items(
    reader: Reader,
    revision: _Revision,
    kind: LookupTableFileType,
    path: Path,
    alive: Callable[[int], None],
) -> None:
    """Write the items of a revision to a file, in the order of their keys."""
    write = _WRITERS[kind]
    with disk():
        write(path, revision.entity, _items(reader, revision, alive))


def _items(
    reader: Reader, revision: _Revision, alive: Callable[[int], None]
) -> Iterator[dict[str, Any]]:
    for _, item in stored.all_items(reader, revision.id):
        alive(1)
        yield item


def _write_csv(path: Path, revision: LookupTableRevision, items: Iterator[dict[str, Any]]) -> None:
    names = [each.name for each in revision.fields]
    with path.open("w", encoding="utf-8", newline="") as file:
        cells = ([_cell(item.get(name)) for name in names] for item in items)
        file.writelines(csv_lines(chain((names,), cells)))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else plain(Decimal(value))


def _write_jsonl(path: Path, _: LookupTableRevision, items: Iterator[dict[str, Any]]) -> None:
    with path.open("wb") as file:
        for item in items:
            file.write(wire.dumps(item) + b"\n")


_WRITERS: Final = {
    LookupTableFileType.CSV: _write_csv,
    LookupTableFileType.JSONL: _write_jsonl,
}


class _Records(Generic[AnyStr]):
    """The lines of a file, none of which is for more memory than a record may take."""

    def __init__(self, file: IO[AnyStr], name: str) -> None:
        self._file: IO[AnyStr] = file
        self._name = name
        self._taken = 0
        self._is_record_of_lines = isinstance(file, io.TextIOBase)

    def __iter__(self) -> Iterator[AnyStr]:
        while line := self._file.readline(_RECORD_MAX + 1):
            # A record of CSV may have many lines; whoever reads it says when the next one begins.
            self._taken = self._taken + len(line) if self._is_record_of_lines else len(line)
            if self._taken > _RECORD_MAX:
                rule = f"its records must have at most {_RECORD_MAX} characters"
                raise Invalid("file", self._name, rule)
            yield line

    def begin(self) -> None:
        """Begin the next record."""
        self._taken = 0


def _csv_rows(path: Path, revision: LookupTableRevision) -> _Rows:
    numbers = {
        field.name for field in revision.fields if field.type is LookupTableRevisionFieldType.NUMBER
    }
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            records = _Records(file, path.name)
            lines = csv.reader(records, strict=True)
            names = _header(next(lines, []), revision)
            number = lines.line_num + 1
            for cells in lines:
                records.begin()
                if cells:
                    yield number, _document(number, names, cells, numbers)
                number = lines.line_num + 1
    except csv.Error as error:
        raise Invalid("file", path.name, f"it must be CSV: {error}") from None
    except UnicodeDecodeError as error:
        raise Invalid("file", path.name, f"it must be UTF-8: {error}") from None


def _header(names: list[str], revision: LookupTableRevision) -> list[str]:
    known = [each.name for each in revision.fields]
    for index, name in enumerate(names):
        if name not in known and name != LOOKUP_KEY:
            raise Invalid("header", name, f"it must be one of {', '.join(known)}")
        if name in names[:index]:
            raise Invalid("header", name, "the column is there twice; keep one of both")
    missing = [name for name in revision.keys if name not in names]
    if missing:
        raise Invalid("header", names, f"it must have all keys; {', '.join(missing)} is missing")
    return names


def _document(
    number: int, names: list[str], cells: list[str], numbers: set[str]
) -> Mapping[str, Any] | Invalid:
    if len(cells) != len(names):
        return Invalid(
            f"row {number}", cells, f"it must have as many columns as the header, {len(names)}"
        )
    document: dict[str, Any] = {}
    for name, text in zip(names, cells, strict=True):
        found = number_in(text) if name in numbers else None
        document[name] = text or None if found is None else found
    return document


def _jsonl_rows(path: Path, _: LookupTableRevision) -> _Rows:
    with path.open("rb") as file:
        for number, line in enumerate(_Records(file, path.name), 1):
            text = line.removeprefix(_BOM) if number == 1 else line
            if not text.strip():
                continue
            try:
                yield number, wire.loads(text)
            except Invalid as error:
                _, value, rule = error.args
                yield number, Invalid(f"row {number}", value, rule)


_ROWS: Final = {LookupTableFileType.CSV: _csv_rows, LookupTableFileType.JSONL: _jsonl_rows}
