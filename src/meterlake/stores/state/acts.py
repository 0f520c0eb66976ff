"""Acts of people that nothing else keeps: who cancelled a job, ran it again, or mended rejected rows."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from sqlalchemy import Column, Connection, ForeignKey, Index, String, Table, Text, insert, select

from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText
from meterlake.stores.state.core.transaction import Transaction

ACT: Final = Table(
    "act",
    METADATA,
    Column("id", String(36), primary_key=True),
    Column("org", String(36), ForeignKey("organization.id"), nullable=False),
    # What it was done to: a job, or a source that came in.
    Column("kind", String(20), nullable=False),
    Column("subject_id", String(120), nullable=False),
    Column("name", StorableText, nullable=False),
    Column("action", String(20), nullable=False),
    Column("at", InstantText, nullable=False),
    Column("author", Text, nullable=False),
    Index("act_newest", "org", "at", "id"),
    Index("act_of", "org", "subject_id"),
)


class ActKind(StrEnum):
    """What an act was done to."""

    RUN = "Run"
    REJECTED_ROWS = "RejectedRows"


class ActAction(StrEnum):
    """What was done."""

    CANCELLED = "cancelled"
    RUN_AGAIN = "ranAgain"
    REQUEUED = "requeued"
    EDITED = "edited"
    DISMISSED = "dismissed"
    REOPENED = "reopened"


@dataclass(frozen=True, slots=True)
class Act:
    """Something that somebody did.

    Attributes:
        subject_id: The job, or the rejected row; of several rows the first one.
        name: What people call that.
    """

    kind: ActKind
    subject_id: str
    name: str
    action: ActAction


@dataclass(frozen=True, slots=True)
class PastAct:
    """What was done to a job, when and by whom."""

    action: str
    at: datetime
    author: str


def record_act(transaction: Transaction, act: Act) -> None:
    """Keep that the author of a transaction did something."""
    row = {
        "id": transaction.new_id(),
        "org": transaction.org_id,
        "kind": act.kind.value,
        "subject_id": act.subject_id,
        "name": act.name,
        "action": act.action.value,
        "at": transaction.now,
        "author": transaction.author,
    }
    transaction.connection.execute(insert(ACT), row)


def acts_on(
    connection: Connection, org_id: str, subject_ids: Sequence[str]
) -> dict[str, list[PastAct]]:
    """What was done to some things, the first act first."""
    table = ACT.c
    query = select(ACT).where(table.org == org_id, table.subject_id.in_(subject_ids))
    found: dict[str, list[PastAct]] = defaultdict(list)
    for row in connection.execute(query.order_by(table.at, table.id)):
        found[row.subject_id].append(PastAct(row.action, row.at, row.author))
    return found
