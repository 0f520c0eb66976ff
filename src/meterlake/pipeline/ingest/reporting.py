"""What went wrong with the sources of a lake, told as events: the verb `report`.

The lake's ledger is the truth; an event is derived from a row of it and so is the event's id. A
file of what was wrong is written first, then the event and how far the ledger is reported, in one
transaction of State: whoever dies in between is repeated, and nothing is told twice.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlsplit
from uuid import UUID, uuid5

import msgspec

from meterlake.model.errors import MeterlakeError, NotFound
from meterlake.model.measurements.receipt import Receipt
from meterlake.model.resources.events import VALIDATION_FAILURE, Event, data
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.period import format_instant
from meterlake.model.values.plurals import counted
from meterlake.pipeline.events.incidents import AUTHOR, raise_alert
from meterlake.stores import Organization
from meterlake.stores.downloads import Download
from meterlake.stores.files.durable import disk
from meterlake.stores.files.locks import hold_lock
from meterlake.stores.lake.receipts import (
    FailedSource,
    RejectedRowDetail,
    find_failed_sources,
    last_position,
    wrong_rows,
)
from meterlake.stores.state.events import events, incidents
from meterlake.stores.state.ingest import uploads

_NAMESPACE: Final = UUID("5a0f7c2e-6a3b-4f0e-9d58-0b8c1e7f4d21")
_AT_ONCE: Final = 100
_FOLDER: Final = "failed-ingest"
_NAME: Final = re.compile(r"[0-9a-f]{64}-[0-9]{1,9}\.json")
_ENDPOINT: Final = "measurements/failedIngest/getDownloadUrl"
_log: Final = logging.getLogger("meterlake.reporting")
_encoder: Final = msgspec.json.Encoder()
_object: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def report_source(organization: Organization, receipt: Receipt) -> None:
    """Report a source that was just ingested; one with which nothing went wrong costs nothing.

    What it holds is safe in the lake: when the world fails here, ingest goes on, and the next
    report makes up for it.
    """
    if receipt.status == "done" and not receipt.rejected and not receipt.incomplete:
        return
    try:
        report(organization)
    except MeterlakeError as error:
        _log.warning("%s is not reported yet: %s", receipt.delivery.name, error)


def report(organization: Organization) -> int:
    """Tell what went wrong with sources since the last report; safe to repeat, and side by side.

    Returns:
        The number of sources that something went wrong with.

    Raises:
        Unavailable: The disk, the lake, the object store or State failed.
    """
    # One at a time: what each of them prepares has the same name, for whoever follows a crash.
    with hold_lock(organization.lake.folder / "report.lock"):
        with organization.reading() as reader:
            place = incidents.reported_until(reader)
        told = 0
        with organization.lake.reader() as connection:
            last = last_position(connection)
            while found := find_failed_sources(connection, place, last, _AT_ONCE):
                for source in found:
                    rows = _write_file(organization, source, wrong_rows(connection, source))
                    mark_step("reporting.file_written")
                    _tell(organization, source, rows)
                    mark_step("reporting.told")
                told, place = told + len(found), found[-1].place
        if place < last:
            with organization.transaction(AUTHOR) as transaction:
                incidents.note_reported(transaction, last)
        return told


def failed_ingest_file(organization: Organization, file: str) -> Download:
    """A file of rows that went wrong, by the `file` or the `getDownloadUrl` of its event.

    Raises:
        NotFound: The organization has no such file.
    """
    query = parse_qs(urlsplit(file).query) if _ENDPOINT in file else {}
    key = query.get("file", [file])[0]
    folder, _, name = key.rpartition("/")
    if folder != f"{_FOLDER}/{organization.id}" or not _NAME.fullmatch(name):
        raise NotFound("file", file)
    try:
        organization.stores.objects.head(key)
    except NotFound:  # It names the store's own path.
        raise NotFound("file", file) from None
    return Download(key, f"failed-ingest-{name}")


def derived_id(*parts: object) -> str:
    """The id of an event that follows from what it tells of."""
    return str(uuid5(_NAMESPACE, "/".join(map(str, parts))))


def _key(org_id: str, source: FailedSource) -> str:
    return f"{_FOLDER}/{org_id}/{source.identity}-{source.attempt}.json"


def _write_file(
    organization: Organization, source: FailedSource, rows: Iterator[RejectedRowDetail]
) -> int:
    """Write the file of a source; it lists the first rows, up to the number of the settings."""
    lake, name = organization.lake, f"report-{source.identity[:32]}-{source.attempt}"
    path = lake.new_staging(name) / "rows.json"
    try:
        listed = _write_rows(path, source, islice(rows, organization.settings.failed_rows))
        organization.stores.objects.put_file(_key(organization.id, source), path)
    finally:
        lake.drop_staging(name)
    return listed


@disk()
def _write_rows(path: Path, source: FailedSource, rows: Iterator[RejectedRowDetail]) -> int:
    if source.status == "failed":
        error = {"type": source.reason, "message": source.detail, "name": source.name}
        entries: Iterable[dict[str, Any]] = [{"error": error, "measurement": None}]
    else:
        entries = map(_entry, rows)
    listed = 0
    with path.open("wb") as file:
        for listed, entry in enumerate(entries, 1):
            file.write((b"[" if listed == 1 else b",\n") + _encoder.encode(entry))
        file.write(b"]\n" if listed else b"[]\n")
    return listed


def _entry(row: RejectedRowDetail) -> dict[str, Any]:
    error = {"type": row.reason, "message": row.detail, "field": row.field, "row": row.row}
    if row.part:
        error["part"] = row.part
    return {"error": error, "measurement": _measurement(row)}


def _measurement(row: RejectedRowDetail) -> Any:
    """The measurement in the wire's shape; what could not be read as one is given as text."""
    text = row.measurement or row.original
    try:
        _object.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        told = {"meter": row.meter, "uid": row.uid, "original": row.original}
        return {name: value for name, value in told.items() if value is not None}
    return msgspec.Raw(text.encode())


def _tell(organization: Organization, source: FailedSource, rows: int) -> None:
    """Write the events of a source, unless they are there, and that it is reported."""
    id_ = derived_id(organization.id, source.identity, source.attempt)
    with organization.transaction(AUTHOR) as transaction:
        if not events.exists(transaction, id_):
            # The upload job that brought a source, if one did.
            try:
                job = uploads.find(transaction.connection, transaction.org_id, source.delivery)
            except NotFound:
                job = None
            told = _alert_details(organization, source, rows) | {"jobId": job and job.id}
            event = Event(VALIDATION_FAILURE, "Source", source.delivery, data(told, None))
            events.write(
                transaction.connection, transaction.org_id, transaction.now, lambda: id_, event
            )
            if job is not None:
                alert = {"message": told["message"], "eventId": id_}
                raise_alert(transaction, derived_id(id_, "alert"), job, alert)
        incidents.note_reported(transaction, source.place)


def _alert_details(organization: Organization, source: FailedSource, rows: int) -> dict[str, Any]:
    key = _key(organization.id, source)
    base = organization.settings.public_url or ""
    if source.status == "failed":
        message = f"{source.name} cannot be read: {source.reason}: {source.detail}"
    else:
        reasons = ", ".join(
            f"{reason} {count:,}" for reason, count in sorted(source.reasons.items())
        )
        parts = [f"{source.rejected:,} rejected ({reasons})"] if source.rejected else []
        if source.incomplete:
            parts.append(f"{source.incomplete:,} accepted without a derived value")
        message = f"{source.name}: of {counted(source.received, 'measurement')} {', '.join(parts)}"
    return {
        "date": format_instant(organization.now()),
        "message": message,
        "failures": source.failures,
        "getDownloadUrl": f"{base}/organizations/{organization.id}/{_ENDPOINT}?file={quote(key, safe='/')}",
        "file": key,
        "fileRows": rows,
        "name": source.name,
        "status": source.status,
        "deliveryId": source.delivery,
        "identity": source.identity,
        "attempt": source.attempt,
        "received": source.received,
        "accepted": source.accepted,
        "repeats": source.repeats,
        "rejected": source.rejected,
        "incomplete": source.incomplete,
        "reasons": source.reasons,
        "reason": source.reason,
    }
