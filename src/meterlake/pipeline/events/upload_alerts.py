"""The alert of an upload that failed: raised with its end, over when its event is marked actioned."""

from typing import Any

from meterlake.model.resources.events import UPLOAD_ALERT, Event, data
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import format_instant
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state import Transaction
from meterlake.stores.state.events import events, incidents
from meterlake.stores.state.events.incidents import Incident
from meterlake.stores.state.ingest.uploads import Upload


def raise_alert(transaction: Transaction, id: str, upload: Upload, told: dict[str, Any]) -> None:
    """Raise the alert of an upload; it has none yet.

    Args:
        transaction: Where the alert is kept or not.
        id: The id of the alert's event.
        upload: The upload.
        told: The message, and the id of the event that says more, if there is one.
    """
    now = transaction.now
    alert = {
        "date": format_instant(now),
        "message": told["message"],
        "jobId": upload.id,
        "name": upload.name,
        "eventId": told.get("eventId"),
    }
    event = Event(UPLOAD_ALERT, "Source", upload.id, data(alert, None))
    events.write(transaction.connection, transaction.org_id, now, lambda: id, event)
    incidents.begin(transaction, Incident(UPLOAD_ALERT, upload.id, id, now))


def report_no_file(transaction: Transaction, upload: Upload, why: str) -> None:
    """Raise the alert of an upload whose file cannot be read, because it is not there.

    What is there is told by the report of its source. The files of lookup tables raise none.
    """
    if upload.job.kind == JobKind.UPLOAD:
        message = f"{upload.name}: {why}"
        raise_alert(
            transaction, derived_id("upload-alert", upload.id), upload, {"message": message}
        )
