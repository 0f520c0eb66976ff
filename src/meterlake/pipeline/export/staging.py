"""Where the files of an export are made: in its staging folder, one after the other; and its manifest."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from meterlake.model.catalog.catalog import Aggregation, CompoundAggregation, Meter
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.accounts import Account
from meterlake.model.values.entity import Configuration
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.period import Month, Period, zone
from meterlake.model.values.version import code_version
from meterlake.model.work.export_request import ExportRequest, Format, Source
from meterlake.pipeline.export.files import FileLimits, digest, open_documents
from meterlake.pipeline.jobs.attempt import Attempt
from meterlake.stages.export.column_kinds import ExportColumn
from meterlake.stages.export.documents import Codes
from meterlake.stages.export.manifest import ExactSums, ExportPart, ObjectPrefix, WrittenFile
from meterlake.stores import Stores
from meterlake.stores.state import Job
from meterlake.stores.state.core.entity_history import codes_at, entities_at, known_at

# After so many documents it is told how far it is, and somebody may stop it.
_TOLD_EVERY: Final = 1000


@dataclass(frozen=True)
class ExportStaging:
    """What the files of one export are made from, and where.

    Attributes:
        at: When the job was created: configuration is read as it was then.
        attempt: Hears how far it is, and says when to stop.
    """

    stores: Stores
    place: ObjectPrefix
    request: ExportRequest
    folder: Path
    snapshot: int
    at: datetime
    attempt: Attempt

    @classmethod
    def of(cls, stores: Stores, attempt: Attempt, folder: Path) -> "ExportStaging":
        """What the files of a job are made from, which one of its attempts works on."""
        job = attempt.job
        assert job.snapshot is not None
        return cls(
            stores=stores,
            place=ObjectPrefix(job.org_id, job.id, job.created),
            request=ExportRequest.from_wire(job.parameters),
            folder=folder,
            snapshot=job.snapshot,
            at=job.created,
            attempt=attempt,
        )

    @cached_property
    def codes(self) -> Codes:
        """What people call all that usage names; what is gone has the last code that it had."""
        with self.stores.state.reading(self.place.org_id) as reader:
            kinds = (Account, Aggregation, CompoundAggregation, Meter)
            return {kind: codes_at(reader, kind, self.at) for kind in kinds}

    @cached_property
    def meters(self) -> Configuration:
        """Meters and aggregations as they were then, without the many accounts."""
        with self.stores.state.reading(self.place.org_id) as reader:
            return Configuration(
                record
                for kind in (Meter, Aggregation)
                for record in entities_at(reader, kind, self.at)
            )

    @cached_property
    def told(self) -> "ExportProgress":
        """The rows that are written, over all files."""
        return ExportProgress(self.attempt)

    @property
    def format(self) -> Format:
        """How the files are written."""
        return self.request.format

    @property
    def month(self) -> Month | None:
        """The month whose measurements, quantities and bills are exported; None for all."""
        return self.request.month

    @property
    def period(self) -> Period | None:
        """The time of the request, or the month in the organization's time zone."""
        if self.month is None:
            return self.request.period
        with self.stores.state.reading(self.place.org_id) as reader:
            settings = reader.as_of(OrganizationConfig, None, self.at).entity
        return self.month.period(zone(settings.timezone))

    def path(self, part: ExportPart) -> Path:
        """Where a file is staged: under the last part of its key, which no other has."""
        return self.folder / Path(self.place.file_key(part, self.format)).name


@dataclass
class ExportProgress:
    """The rows that are written so far, as the attempt is told of them.

    Attributes:
        rows: How many.
    """

    attempt: Attempt
    rows: int = 0

    def add(self, rows: int) -> None:
        """Tell of more rows."""
        self.rows += rows
        self.attempt.tell(rows=self.rows)


class StagedDocuments:
    """Documents on their way into one file, or into several if they are too many; summed meanwhile.

    They are complete when the body of `with` has ended. There is a file even if there are none.
    """

    def __init__(
        self, staging: ExportStaging, part: ExportPart, columns: tuple[ExportColumn, ...]
    ) -> None:
        settings = staging.stores.settings
        self._staging, self._part, self._columns = staging, part, columns
        self._limits = FileLimits(
            staging.request.file_bytes or settings.export_file_bytes, settings.threads
        )
        self._open = ExitStack()
        self._pieces: list[_Piece] = []

    def __enter__(self) -> Self:
        self._begin_file()
        return self

    def _begin_file(self) -> None:
        staging, part = self._staging, self._part._replace(number=len(self._pieces) + 1)
        self._piece = _Piece(part, ExactSums(self._columns))
        self._pieces.append(self._piece)
        staging.attempt.check()
        file = open_documents(
            staging.path(part),
            self._columns,
            staging.format,
            self._limits,
            spreadsheet=staging.request.spreadsheet,
        )
        self._file = self._open.enter_context(file)

    def add(self, document: Mapping[str, Any]) -> None:
        """Write a document; now and then the job hears how far it is, and may be stopped here."""
        if self._file.is_full:
            self._end_file()
            self._begin_file()
        piece = self._piece
        piece.rows += 1
        if piece.sums.needed:
            piece.sums.add_document(document)
        if piece.rows % _TOLD_EVERY == 0:
            self._staging.told.add(_TOLD_EVERY)
            self._staging.attempt.check()
        self._file.add(document)

    def _end_file(self) -> None:
        self._open.close()
        self._staging.told.add(self._piece.rows % _TOLD_EVERY)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._end_file()
        else:
            self._open.__exit__(kind, error, trace)

    def files(self) -> Iterator[WrittenFile]:
        """The files, complete and under their names."""
        for piece in self._pieces:
            named = piece.part if len(self._pieces) > 1 else self._part
            self._staging.path(piece.part).rename(self._staging.path(named))
            yield staged_file(self._staging, named, self._columns, piece.rows, piece.sums.totals)


@dataclass(slots=True)
class _Piece:
    """One file of documents, by its number."""

    part: ExportPart
    sums: ExactSums
    rows: int = 0


def staged_file(
    staging: ExportStaging,
    part: ExportPart,
    columns: Sequence[ExportColumn],
    rows: int,
    sums: Mapping[str, Any],
) -> WrittenFile:
    """A file that is complete, as the manifest has it."""
    staging.attempt.check()
    mark_step("export.file_staged")
    size, sha256 = digest(staging.path(part))
    return WrittenFile(
        key=staging.place.file_key(part, staging.format),
        type=part.type,
        about={"meter": part.label, "meterId": part.id} if part.label else {},
        columns=columns,
        rows=rows,
        size_bytes=size,
        sha256=sha256,
        sums=sums,
    )


def manifest_of(
    staging: ExportStaging, job: Job, request: ExportRequest, files: Sequence[WrittenFile]
) -> dict[str, Any]:
    """The manifest of files that are staged, in the words of the wire."""
    period = staging.period
    # What the rows do not say themselves: of configuration, every row carries its version.
    versions: dict[str, Any] = {"meterlake": code_version()}
    if request.source is Source.USAGE:
        with staging.stores.state.reading(staging.place.org_id) as reader:
            for kind in (Meter, Aggregation):
                known = known_at(reader, kind, staging.at)
                found = {each.id: each.version for each in known if each.modified <= staging.at}
                versions[kind.__name__] = dict(sorted(found.items()))
    return {
        "jobId": job.id,
        "orgId": job.org_id,
        "organization": staging.stores.state.organization(job.org_id).code,
        "source": request.source.value,
        "format": request.format.value,
        "created": job.created,
        "period": None if period is None else {"start": period.start, "end": period.end},
        "snapshot": staging.snapshot,
        "configurationTime": staging.at,
        "changesSince": request.changes_since,
        "spreadsheet": request.spreadsheet and request.format is Format.CSV,
        "versions": versions,
        "rows": sum(file.rows for file in files),
        "bytes": sum(file.size_bytes for file in files),
        "files": [file.to_wire() for file in files],
    }
