"""Proposed changes of the configuration in State, and the acts on them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from sqlalchemy import (
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    Row,
    String,
    Table,
    Text,
    insert,
    select,
    update,
)

from meterlake.model.errors import NotFound
from meterlake.model.resources.change_proposals import (
    NAME_MAX,
    ChangeProposal,
    ProposalAct,
    ProposalStatus,
    SeenVersion,
)
from meterlake.model.resources.proposal import Document
from meterlake.model.values import wire
from meterlake.stores.state.core.pages import Page, read
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import METADATA, InstantText, StorableText
from meterlake.stores.state.core.transaction import Transaction

KIND: Final = "change proposal"

CHANGE_PROPOSAL: Final = Table(
    "change_proposal",
    METADATA,
    Column("org", String(36), ForeignKey("organization.id"), primary_key=True),
    Column("id", String(36), primary_key=True),
    Column("name", StorableText(NAME_MAX), nullable=False),
    Column("status", String(20), nullable=False),
    Column("created", InstantText, nullable=False),
    Column("documents", StorableText, nullable=False),
    Column("seen", StorableText, nullable=False),
    Column("changes", StorableText, nullable=False),
    Column("prices", StorableText, nullable=False),
    Index("change_proposal_newest", "org", "created", "id"),
)
CHANGE_PROPOSAL_ACT: Final = Table(
    "change_proposal_act",
    METADATA,
    Column("org", String(36), primary_key=True),
    Column("proposal_id", String(36), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("status", String(20), nullable=False),
    Column("at", InstantText, nullable=False),
    Column("author", Text, nullable=False),
    Column("comment", StorableText, nullable=False),
    ForeignKeyConstraint(["org", "proposal_id"], ["change_proposal.org", "change_proposal.id"]),
)


def add_proposal(transaction: Transaction, proposal: ChangeProposal) -> None:
    """Write a new proposal."""
    row = {
        "org": transaction.org_id,
        "id": proposal.id,
        "name": proposal.name,
        "status": proposal.status.value,
        "created": proposal.created,
        "documents": _text([{"name": d.name, "content": d.content} for d in proposal.documents]),
        "seen": _text([asdict(each) for each in proposal.seen]),
        "changes": _text(proposal.changes),
        "prices": _text(proposal.prices),
    }
    transaction.connection.execute(insert(CHANGE_PROPOSAL), row)
    for number, act in enumerate(proposal.acts):
        _add_act(transaction, proposal.id, number, act)


def note_act(
    transaction: Transaction,
    proposal: ChangeProposal,
    act: ProposalAct,
    made: Sequence[Mapping[str, Any]] | None = None,
) -> None:
    """Bring a proposal to the status of an act.

    Args:
        transaction: The transaction.
        proposal: As it was before.
        act: What was done.
        made: The changes as they were made: what was created has its id only then.
    """
    mine = (CHANGE_PROPOSAL.c.org == transaction.org_id) & (CHANGE_PROPOSAL.c.id == proposal.id)
    values = {"status": act.status.value}
    if made is not None:
        values["changes"] = _text(made)
    transaction.connection.execute(update(CHANGE_PROPOSAL).where(mine).values(values))
    _add_act(transaction, proposal.id, len(proposal.acts), act)


def _add_act(transaction: Transaction, proposal_id: str, number: int, act: ProposalAct) -> None:
    row = {
        "org": transaction.org_id,
        "proposal_id": proposal_id,
        "number": number,
        "status": act.status.value,
        "at": act.at,
        "author": act.author,
        "comment": act.comment,
    }
    transaction.connection.execute(insert(CHANGE_PROPOSAL_ACT), row)


def find_proposals(reader: Reader, name: str) -> list[ChangeProposal]:
    """The proposals of an id or a name, the newest first."""
    table = CHANGE_PROPOSAL.c
    named = (table.id == name.lower()) | (table.name == name)
    query = select(CHANGE_PROPOSAL).where(table.org == reader.org_id, named)
    rows = reader.connection.execute(query.order_by(table.created.desc(), table.id.desc()))
    return _proposals(reader, rows.all())


def get_proposal(reader: Reader, id: str) -> ChangeProposal:
    """One proposal.

    Raises:
        NotFound: There is none.
    """
    table = CHANGE_PROPOSAL.c
    query = select(CHANGE_PROPOSAL).where(table.org == reader.org_id, table.id == id.lower())
    found = _proposals(reader, reader.connection.execute(query).all())
    if not found:
        raise NotFound(KIND, id)
    return found[0]


def page_of_proposals(
    reader: Reader,
    page: Page,
    statuses: Sequence[ProposalStatus] = (),
    entity_id: str | None = None,
) -> tuple[list[ChangeProposal], str | None]:
    """One page, the newest first, and the token of the next page; of all, or of those of an entity."""
    table = CHANGE_PROPOSAL.c
    query = select(CHANGE_PROPOSAL).where(table.org == reader.org_id)
    if statuses:
        query = query.where(table.status.in_([each.value for each in statuses]))
    if entity_id is not None:
        query = query.where(table.changes.contains(f'"{entity_id}"', autoescape=True))
    rows, token = read(reader.connection, query, table.created, table.id, page)
    return _proposals(reader, rows[: page.size]), token


def _proposals(reader: Reader, rows: Sequence[Row[Any]]) -> list[ChangeProposal]:
    acts = _acts(reader, [row.id for row in rows])
    return [
        ChangeProposal(
            id=row.id,
            name=row.name,
            status=ProposalStatus(row.status),
            created=row.created,
            acts=tuple(acts[row.id]),
            documents=tuple(Document(**each) for each in wire.loads(row.documents)),
            seen=tuple(SeenVersion(**each) for each in wire.loads(row.seen)),
            changes=tuple(wire.loads(row.changes)),
            prices=tuple(wire.loads(row.prices)),
        )
        for row in rows
    ]


def _acts(reader: Reader, ids: Sequence[str]) -> dict[str, list[ProposalAct]]:
    table = CHANGE_PROPOSAL_ACT.c
    query = select(CHANGE_PROPOSAL_ACT).where(
        table.org == reader.org_id, table.proposal_id.in_(ids)
    )
    found: dict[str, list[ProposalAct]] = defaultdict(list)
    for row in reader.connection.execute(query.order_by(table.proposal_id, table.number)):
        status = ProposalStatus(row.status)
        found[row.proposal_id].append(ProposalAct(status, row.at, row.author, row.comment))
    return found


def _text(rows: Iterable[Mapping[str, Any]]) -> str:
    return wire.dumps_sorted(wire.to_plain(list(rows)))
