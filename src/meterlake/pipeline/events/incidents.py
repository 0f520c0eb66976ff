"""Incidents: told of once when they begin, and over when all is as it should be again.

The alert of an upload that failed is one; it is over when somebody marks its event actioned.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from meterlake.model.resources.events import UPLOAD_ALERT, Event, data
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.ids import derived_id
from meterlake.model.values.period import format_instant
from meterlake.model.work.jobs import JobKind
from meterlake.stores import Organization
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.events import events, incidents
from meterlake.stores.state.events.incidents import Incident
from meterlake.stores.state.ingest.uploads import Upload

AUTHOR: Final = "INGEST"
# What is wrong: the event's name and what it is about, and what there is to say of it.
Found = Mapping[tuple[str, str], dict[str, Any]]


def resolve(organization: Organization, names: Collection[str], found: Found) -> list[Incident]:
    """Open an incident for each thing that is wrong, and close those that are over.

    An incident that is open already stays as it is: its event is not told twice. The event of one
    that is over is marked actioned.

    Args:
        organization: The organization.
        names: The names of the events that were looked for.
        found: What was found of them.

    Returns:
        All incidents of these names that are open now.

    Raises:
        Unavailable: State failed.
    """
    with organization.reading() as reader:
        known = _open(reader, names)
    if known.keys() != found.keys():
        with organization.transaction(AUTHOR) as transaction:
            # Somebody else may have settled it meanwhile.
            known = _open(transaction, names)
            now = transaction.now
            for key in found.keys() - known.keys():
                name, subject = key
                event = Event(
                    name,
                    "Incident",
                    subject,
                    data({"date": format_instant(now), **found[key]}, None),
                )
                id_ = events.write(
                    transaction.connection, organization.id, now, transaction.new_id, event
                )
                incidents.begin(transaction, Incident(name, subject, id_, now))
            for key in known.keys() - found.keys():
                incident = known[key]
                incidents.end(transaction, incident)
                if events.get(transaction, incident.event_id).actioned is None:
                    events.mark_actioned(transaction, incident.event_id, transaction.now)
            known = _open(transaction, names)
        mark_step("incidents.settled")
    return list(known.values())


def _open(reader: Reader, names: Collection[str]) -> dict[tuple[str, str], Incident]:
    return {
        (each.name, each.subject): each
        for each in incidents.open_incidents(reader)
        if each.name in names
    }


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
