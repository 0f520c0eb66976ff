"""Incidents: told of once when they begin, and over when all is as it should be again."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from meterlake.model.resources.events import Event, data
from meterlake.model.values.failpoint import mark_step
from meterlake.model.values.period import format_instant
from meterlake.stores import Stores
from meterlake.stores.state import Reader, Transaction
from meterlake.stores.state.events import events, incidents
from meterlake.stores.state.events.incidents import Incident

AUTHOR: Final = "INGEST"
# What is wrong: the event's name and what it is about, and what there is to say of it.
Found = Mapping[tuple[str, str], dict[str, Any]]


def resolve(stores: Stores, org_id: str, names: Collection[str], found: Found) -> list[Incident]:
    """Open an incident for each thing that is wrong, and close those that are over.

    An incident that is open already stays as it is: its event is not told twice. The event of one
    that is over is marked actioned.

    Args:
        stores: The home's stores.
        org_id: The organization.
        names: The names of the events that were looked for.
        found: What was found of them.

    Returns:
        All incidents of these names that are open now.

    Raises:
        Unavailable: State failed.
    """
    with stores.state.reading(org_id) as reader:
        known = _open(reader, names)
    if known.keys() != found.keys():
        with stores.state.transaction(org_id, AUTHOR) as transaction:
            # Somebody else may have settled it meanwhile.
            known = _open(transaction, names)
            for key in found.keys() - known.keys():
                _begin(transaction, *key, found[key])
            for key in known.keys() - found.keys():
                _end(transaction, known[key])
            known = _open(transaction, names)
        mark_step("incidents.settled")
    return list(known.values())


def _open(reader: Reader, names: Collection[str]) -> dict[tuple[str, str], Incident]:
    return {
        (each.name, each.subject): each
        for each in incidents.open_incidents(reader)
        if each.name in names
    }


def _begin(transaction: Transaction, name: str, subject: str, told: dict[str, Any]) -> None:
    now = transaction.now
    event = Event(name, "Incident", subject, data({"date": format_instant(now), **told}, None))
    connection, org_id = transaction.connection, transaction.org_id
    id_ = events.write(connection, org_id, now, transaction.new_id, event)
    incidents.begin(transaction, Incident(name, subject, id_, now))


def _end(transaction: Transaction, incident: Incident) -> None:
    incidents.end(transaction, incident)
    if events.get(transaction, incident.event_id).actioned is None:
        events.mark_actioned(transaction, incident.event_id, transaction.now)
