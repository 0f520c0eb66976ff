"""The moments at which scheduled events happen, and how far their entities have been looked at."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import bindparam, delete, insert, select, update

from meterlake.stores.state.core.many_rows import chunks_of, insert_rows
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.events.event_tables import SCHEDULED_MOMENT, SCHEDULED_SCAN

# A configuration and an entity.
MomentKey = tuple[str, str]


class DueMoment(NamedTuple):
    """A date that has fallen due, and of which no event was written."""

    config_id: str
    entity_id: str
    due: datetime


@dataclass(frozen=True, slots=True)
class Scan:
    """How far the entities of a configuration have been looked at, and for what."""

    config_id: str
    version: int
    zone: str
    last_id: str = ""
    complete: bool = False


def replace_moments(reader: Reader, moments: Mapping[MomentKey, datetime | None]) -> None:
    """Have entities fall due at other moments; those that happened stay, and happen once.

    Args:
        reader: Within a transaction.
        moments: The moment of each configuration and entity; None: there is none.
    """
    table = SCHEDULED_MOMENT.c
    for keys in chunks_of(moments):
        query = select(table.config_id, table.entity_id, table.due, table.fired).where(
            table.org == reader.org_id,
            table.entity_id.in_({entity for _, entity in keys}),
        )
        stored: defaultdict[MomentKey, dict[datetime, datetime | None]] = defaultdict(dict)
        for found in reader.connection.execute(query):
            stored[found.config_id, found.entity_id][found.due] = found.fired
        new = []
        for key in keys:
            due, (config_id, entity_id) = moments[key], key
            for old, fired in stored[key].items():
                if old != due and fired is None:
                    reader.connection.execute(
                        delete(SCHEDULED_MOMENT).where(
                            table.org == reader.org_id,
                            table.config_id == config_id,
                            table.entity_id == entity_id,
                            table.due == old,
                        )
                    )
            if due is not None and due not in stored[key]:
                row = {
                    "org": reader.org_id,
                    "config_id": config_id,
                    "entity_id": entity_id,
                    "due": due,
                }
                new.append(row)
        insert_rows(reader.connection, SCHEDULED_MOMENT, new)


def due_moments(reader: Reader, now: datetime, most: int) -> list[DueMoment]:
    """What has fallen due, the oldest first."""
    table = SCHEDULED_MOMENT.c
    query = select(table.config_id, table.entity_id, table.due).where(
        table.org == reader.org_id, table.fired.is_(None), table.due <= now
    )
    rows = reader.connection.execute(query.order_by(table.due).limit(most))
    return [DueMoment(*row) for row in rows]


def note_fired(reader: Reader, moments: Collection[DueMoment], now: datetime) -> None:
    """Note that events of some moments are written."""
    if moments:
        same = [SCHEDULED_MOMENT.c[name] == bindparam(f"of_{name}") for name in DueMoment._fields]
        statement = update(SCHEDULED_MOMENT).where(SCHEDULED_MOMENT.c.org == reader.org_id, *same)
        keys = [{f"of_{name}": value for name, value in each._asdict().items()} for each in moments]
        reader.connection.execute(statement.values(fired=now), keys)


def forget_entities(reader: Reader, ids: Collection[str]) -> None:
    """Forget the moments of entities that are deleted."""
    for some in chunks_of(ids):
        reader.connection.execute(
            delete(SCHEDULED_MOMENT).where(
                SCHEDULED_MOMENT.c.org == reader.org_id, SCHEDULED_MOMENT.c.entity_id.in_(some)
            )
        )


def forget_configurations(reader: Reader, ids: Collection[str]) -> None:
    """Forget the moments of configurations that are deleted."""
    for table in (SCHEDULED_MOMENT, SCHEDULED_SCAN):
        for id_ in ids:
            reader.connection.execute(
                delete(table).where(table.c.org == reader.org_id, table.c.config_id == id_)
            )


def read_scans(reader: Reader) -> dict[str, Scan]:
    """How far the entities of each configuration have been looked at."""
    columns = [SCHEDULED_SCAN.c[name] for name in Scan.__slots__]
    query = select(*columns).where(SCHEDULED_SCAN.c.org == reader.org_id)
    return {row.config_id: Scan(*row) for row in reader.connection.execute(query)}


def write_scan(reader: Reader, scan: Scan) -> None:
    """Note how far the entities of a configuration have been looked at."""
    values = {name: getattr(scan, name) for name in Scan.__slots__}
    same = (SCHEDULED_SCAN.c.org == reader.org_id, SCHEDULED_SCAN.c.config_id == scan.config_id)
    if (
        reader.connection.execute(update(SCHEDULED_SCAN).where(*same).values(**values)).rowcount
        == 0
    ):
        reader.connection.execute(insert(SCHEDULED_SCAN), {"org": reader.org_id, **values})
