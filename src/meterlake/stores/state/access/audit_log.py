"""Who did what: changes of entities, acts on bills, balances and months, grants, and begun runs.

Nothing is written for it: every source says itself who and when. Each is read by time and merged.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    String,
    Table,
    and_,
    case,
    cast,
    func,
    literal,
    null,
    or_,
    select,
    type_coerce,
)

from meterlake.model.bills.ledger import EXPIRED, PostingKind
from meterlake.model.configuration.access import SYSTEM
from meterlake.model.customers.balances import Balance
from meterlake.model.values import wire
from meterlake.model.values.money import plain
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state.access.access_tables import ONE_TIME_TOKEN
from meterlake.stores.state.access.sessions import Purpose
from meterlake.stores.state.acts import ACT, ActKind
from meterlake.stores.state.change_proposals import CHANGE_PROPOSAL, CHANGE_PROPOSAL_ACT
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.pages import Page, key_of, key_token, read
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import (
    BALANCE_NOTE,
    BILL,
    BILL_VERSION,
    ENTITY,
    ENTITY_HISTORY,
    POLICY_GRANT,
    POSTING,
    InstantText,
)
from meterlake.stores.state.events.event_tables import EVENT
from meterlake.stores.state.events.log import BILL_CHANGED, ends_approval, former_text
from meterlake.stores.state.jobs.table import JOB

BILL_KIND: Final = "Bill"
GRANT_KIND: Final = "PolicyGrant"
RUN_KIND: Final = ActKind.RUN.value
REJECTED_KIND: Final = ActKind.REJECTED_ROWS.value
CLOSING_KIND: Final = "Closing"
PROPOSAL_KIND: Final = "ChangeProposal"
LINK_KIND: Final = "PasswordLink"
REPLACED: Final = "replaced"
# What the job of a closing says of the times that its month was opened again.
_REOPENED: Final = "reopened"
# What a thing is called by.
_NAMES: Final = ("code", "name", "email")
# What people ask for; deliveries and files of inboxes follow from something else.
_ASKED: Final = (
    *(JobKind.BILL, JobKind.STATEMENT, JobKind.BILL_LETTER, JobKind.EXPORT),
    *(JobKind.BACKFILL, JobKind.CLOSING_STEP, JobKind.UPLOAD),
)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One thing that somebody did.

    Attributes:
        kind: The class of an entity, or `Bill`, `ChangeProposal`, `Closing`, `PasswordLink`,
            `PolicyGrant`, `Run`, `RejectedRows`.
        action: What was done to it: `created`, `approved`.
        entity_id: What it was done to.
        name: Its code, name or e-mail address, as far as it has one; of a bill its account's id, of
            a grant the holder's, of a link to a new password the person's.
        period: Of a bill: `2026-10`.
        amount: What a bill came to then; what a line or a posting came to.
        reason: What the person gave as the reason.
    """

    id: str
    at: datetime
    by: str
    kind: str
    action: str
    entity_id: str
    name: str | None
    version: int | None = None
    period: str | None = None
    amount: str | None = None
    currency: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditFilter:
    """Which entries are listed; from `start` on and before `end`.

    Attributes:
        kinds: Of what kinds; all if empty.
        people_only: Whether what meterlake did by itself is left out.
    """

    authors: Sequence[str] = ()
    kinds: Sequence[str] = ()
    entity_id: str | None = None
    start: datetime | None = None
    end: datetime | None = None
    people_only: bool = False


def page_of_log(
    reader: Reader, wanted: AuditFilter, page: Page
) -> tuple[list[AuditEntry], str | None]:
    """One page of the log, and the token of the next page.

    Raises:
        Invalid: The token is none that a list gave.
    """
    found = list(_reopenings(reader, wanted, page))
    has_more = False
    for source in _SOURCES:
        query = source(reader, wanted)
        if query is None:
            continue
        columns = query.selected_columns
        query = query.where(*_conditions(columns, wanted))
        rows, token = read(reader.connection, query, columns.at_, columns.entry, page)
        found += [_entry_of(row) for row in rows[: page.size]]
        has_more |= token is not None
    found.sort(key=lambda each: (each.at, each.id), reverse=not page.oldest_first)
    has_more |= len(found) > page.size
    entries = found[: page.size]
    return entries, key_token(entries[-1].at, entries[-1].id) if has_more else None


def _entry_of(row: Row[Any]) -> AuditEntry:
    amount = row.amount_
    if row.event_ is not None:
        amount = plain(Decimal(wire.loads(row.event_)["oldDto"]["billTotal"]))
    return AuditEntry(
        *(row.entry, row.at_, row.by, row.kind_, row.action, row.entity, row.name_, row.version_),
        *(row.period_, amount, row.currency_, row.reason_),
    )


def _reopenings(reader: Reader, wanted: AuditFilter, page: Page) -> Iterator[AuditEntry]:
    """The times that closed months were opened again; all behind a token, for they are few."""
    if wanted.kinds and CLOSING_KIND not in wanted.kinds:
        return
    behind = None if page.token is None else key_of(page.token)
    query = select(JOB.c.parameters).where(
        JOB.c.org == reader.org_id, JOB.c.kind == JobKind.CLOSING.value
    )
    for text in reader.connection.execute(query).scalars():
        parameters = wire.loads(text)
        for number, each in enumerate(parameters.get(_REOPENED, ())):
            month, at = parameters["month"], datetime.fromisoformat(each["at"])
            entry = AuditEntry(
                *(f"{month}:reopened:{number}", at, each["author"], CLOSING_KIND, "reopened"),
                *(month, month),
                period=month,
                reason=each["reason"],
            )
            place = at, entry.id
            is_behind = behind is None or (place > behind if page.oldest_first else place < behind)
            if is_behind and _is_wanted(entry, wanted):
                yield entry


def _is_wanted(entry: AuditEntry, wanted: AuditFilter) -> bool:
    """As `_conditions`, of an entry that no query has."""
    is_person = entry.by.startswith(("USER_", "SERVICE_USER_"))
    return (
        (not wanted.authors or entry.by in wanted.authors)
        and (is_person or not wanted.people_only)
        and wanted.entity_id in {None, entry.entity_id}
        and (wanted.start is None or entry.at >= wanted.start)
        and (wanted.end is None or entry.at < wanted.end)
    )


# A number of an event has all its digits in the text alone: it is read from there.
_DETAILS: Final = ("version", "period", "amount", "currency", "reason", "event")


def _conditions(columns: Any, wanted: AuditFilter) -> list[ColumnElement[bool]]:
    found = []
    if wanted.authors:
        found.append(columns.by.in_(wanted.authors))
    if wanted.people_only:
        found.append(or_(columns.by.startswith("USER_"), columns.by.startswith("SERVICE_USER_")))
    if wanted.entity_id is not None:
        found.append(columns.entity == wanted.entity_id)
    if wanted.start is not None:
        found.append(columns.at_ >= wanted.start)
    if wanted.end is not None:
        found.append(columns.at_ < wanted.end)
    return found


def _columns(
    at: ColumnElement[Any],
    by: ColumnElement[Any],
    action: ColumnElement[Any] | str,
    of: tuple[ColumnElement[Any] | str, ColumnElement[Any]],
    name: ColumnElement[Any] | None = None,
    details: Mapping[str, Any] = MappingProxyType({}),
) -> Select[Any]:
    kind, entity = of
    mark = details.get("mark", details.get("version"))
    word = literal(action) if isinstance(action, str) else action
    # Unique also where one thing had two things done to it at once.
    entry = entity + ":" + word
    if mark is not None:
        entry = entry + ":" + cast(mark, String)
    return select(
        entry.label("entry"),
        at.label("at_"),
        by.label("by"),
        word.label("action"),
        entity.label("entity"),
        (literal(kind) if isinstance(kind, str) else kind).label("kind_"),
        (null() if name is None else name).label("name_"),
        *(details.get(each, null()).label(f"{each}_") for each in _DETAILS),
    )


def _of_entities(reader: Reader, wanted: AuditFilter) -> Select[Any]:
    table = ENTITY_HISTORY.c
    before = ENTITY_HISTORY.alias().c
    was = select(before.body).where(
        before.org == table.org,
        before.kind == table.kind,
        before.id == table.id,
        before.version == table.version - 1,
    )
    # What is deleted has the name that it had.
    last = was.correlate(ENTITY_HISTORY).scalar_subquery()
    body = case((table.body.is_(None), last), else_=table.body)
    name = func.coalesce(*(member_text(body, literal(each)) for each in _NAMES))
    action = case(
        (table.body.is_(None), literal("deleted")),
        (table.version == 1, literal("created")),
        else_=literal("updated"),
    )
    query = _columns(
        *(table.valid_from, table.author, action, (table.kind, table.id), name),
        {"version": table.version},
    ).where(table.org == reader.org_id)
    return query.where(table.kind.in_(wanted.kinds)) if wanted.kinds else query


def _of_bills(
    at: ColumnElement[Any], by: ColumnElement[Any], action: str
) -> Callable[[Reader, AuditFilter], Select[Any] | None]:
    def source(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
        if wanted.kinds and BILL_KIND not in wanted.kinds:
            return None
        query = _columns(
            *(at, by, action, (BILL_KIND, BILL.c.id), BILL.c.account_id), _amounts(BILL)
        )
        return query.where(BILL.c.org == reader.org_id, at.is_not(None))

    return source


def _amounts(table: Table) -> dict[str, ColumnElement[Any]]:
    """What a bill is of, and what it comes to."""
    return {
        "period": table.c.period,
        "amount": table.c.total,
        "currency": table.c.currency,
    }


def _of_former_approvals(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
    """Approvals that hold no more: the events of their ends say when they were made, and by whom."""
    at = former_text("dtApproved")
    # Of one width, as all instants are.
    at = case((at.contains("."), at), else_=func.replace(at, "Z", ".000000Z"))
    by = former_text("approvedBy")
    return _of_ended_approvals(reader, wanted, type_coerce(at, InstantText), by, "approved")


def _of_take_backs(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
    """Approvals that somebody took back; those that ended with a change of their bill are with it."""
    by = member_text(member_text(EVENT.c.body, literal("newDto")), literal("lastModifiedBy"))
    query = _of_ended_approvals(reader, wanted, EVENT.c.time, by, "unapproved")
    if query is None:
        return None
    changed = select(BILL_VERSION.c.bill_id).where(
        BILL_VERSION.c.bill_id == EVENT.c.resource_id, BILL_VERSION.c.replaced == EVENT.c.time
    )
    return query.where(EVENT.c.name == BILL_CHANGED, ~changed.exists())


def _of_ended_approvals(
    reader: Reader,
    wanted: AuditFilter,
    at: ColumnElement[Any],
    by: ColumnElement[Any],
    action: str,
) -> Select[Any] | None:
    if wanted.kinds and BILL_KIND not in wanted.kinds:
        return None
    details = {
        "mark": EVENT.c.seq,
        "period": former_text("period"),
        "currency": former_text("currency"),
        "event": EVENT.c.body,
    }
    query = _columns(
        *(at, by, action, (BILL_KIND, EVENT.c.resource_id), EVENT.c.account_id),
        details,
    )
    return query.where(EVENT.c.org == reader.org_id, ends_approval(), by.is_not(None))


def _of_postings(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
    """What came into balances, was paid back, or expired at their end."""
    if wanted.kinds and Balance.__name__ not in wanted.kinds:
        return None
    table = POSTING.c
    body = select(func.coalesce(*(member_text(ENTITY.c.body, literal(each)) for each in _NAMES)))
    name = body.where(
        ENTITY.c.org == table.org,
        ENTITY.c.kind == Balance.__name__,
        ENTITY.c.id == table.source_id,
    )
    reason = select(BALANCE_NOTE.c.description).where(BALANCE_NOTE.c.id == table.id)
    kinds = {
        PostingKind.CREDIT: "toppedUp",
        PostingKind.MANUAL: "paidBack",
        PostingKind.EXPIRY: "expired",
    }
    # Of all that is taken back only this stands for itself: what a bill drew stands with the bill.
    is_expiry_reversed = and_(
        table.kind == PostingKind.REVERSAL.value, table.from_account == str(EXPIRED)
    )
    action = case(
        *((table.kind == kind.value, action) for kind, action in kinds.items()),
        else_="expiryReversed",
    )
    query = _columns(
        *(table.created, table.created_by, action, (Balance.__name__, table.source_id)),
        name.scalar_subquery(),
        {
            "mark": table.sequence,
            "amount": table.amount,
            "currency": table.currency,
            "reason": reason.scalar_subquery(),
        },
    )
    is_shown = or_(table.kind.in_(kinds), is_expiry_reversed)
    return query.where(table.org == reader.org_id, is_shown)


def _of_replaced_bills(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
    if wanted.kinds and BILL_KIND not in wanted.kinds:
        return None
    table, after = BILL_VERSION.c, BILL_VERSION.alias().c
    later = (
        select(after.total)
        .where(after.bill_id == table.bill_id, after.version > table.version)
        .order_by(after.version)
        .limit(1)
        .correlate(BILL_VERSION)
    )
    now = select(BILL.c.total).where(BILL.c.id == table.bill_id).correlate(BILL_VERSION)
    # What the bill came to by that; what is deleted has the amount that it had.
    amount = func.coalesce(later.scalar_subquery(), now.scalar_subquery(), table.total)
    query = _columns(
        *(table.replaced, table.replaced_by, REPLACED, (BILL_KIND, table.bill_id)),
        table.account_id,
        {"version": table.version, **_amounts(BILL_VERSION), "amount": amount},
    )
    return query.where(table.org == reader.org_id)


def _of_grants(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
    if wanted.kinds and GRANT_KIND not in wanted.kinds:
        return None
    table = POLICY_GRANT.c
    query = _columns(
        table.created, table.created_by, "granted", (GRANT_KIND, table.id), table.principal_id
    )
    return query.where(table.org == reader.org_id)


def _of_proposals(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
    """What people did with proposed changes of the configuration."""
    if wanted.kinds and PROPOSAL_KIND not in wanted.kinds:
        return None
    act, table = CHANGE_PROPOSAL_ACT.c, CHANGE_PROPOSAL.c
    name = select(table.name).where(table.org == act.org, table.id == act.proposal_id)
    query = _columns(
        *(act.at, act.author, func.lower(act.status), (PROPOSAL_KIND, act.proposal_id)),
        name.scalar_subquery(),
        {"mark": act.number, "reason": func.nullif(act.comment, "")},
    )
    return query.where(act.org == reader.org_id)


def _of_password_links(
    at: ColumnElement[Any], by: ColumnElement[Any], action: str
) -> Callable[[Reader, AuditFilter], Select[Any] | None]:
    """Links to new passwords: who made one for whom, and that the person followed it."""
    table = ONE_TIME_TOKEN.c

    def source(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
        if wanted.kinds and LINK_KIND not in wanted.kinds:
            return None
        of = (LINK_KIND, table.subject_id)
        query = _columns(at, by, action, of, table.subject_id, {"mark": at})
        made = table.created_by.is_not(None)
        is_own = (table.org == reader.org_id, table.purpose == Purpose.PASSWORD.value)
        return query.where(*is_own, made, at.is_not(None))

    return source


def _of_runs(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
    if wanted.kinds and RUN_KIND not in wanted.kinds:
        return None
    step = member_text(JOB.c.parameters, literal("action"))
    month = member_text(JOB.c.parameters, literal("month"))
    is_step = JOB.c.kind == JobKind.CLOSING_STEP.value
    is_backfill = JOB.c.kind == JobKind.BACKFILL.value
    name = case(
        (is_step, step + " " + month),
        (is_backfill, JOB.c.kind + " " + member_text(JOB.c.parameters, literal("step"))),
        else_=JOB.c.kind,
    )
    query = _columns(JOB.c.created, JOB.c.author, "begun", (RUN_KIND, JOB.c.id), name)
    return query.where(
        JOB.c.org == reader.org_id,
        JOB.c.kind.in_(list(_ASKED)),
        JOB.c.author.is_not(None),
        JOB.c.author != SYSTEM,
    )


def _of_acts(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
    """Who cancelled runs, ran them again, or decided about rejected rows."""
    table = ACT.c
    query = _columns(
        *(table.at, table.author, table.action, (table.kind, table.subject_id), table.name),
        {"mark": table.id},
    ).where(table.org == reader.org_id)
    return query.where(table.kind.in_(wanted.kinds)) if wanted.kinds else query


_SOURCES: Final[tuple[Callable[[Reader, AuditFilter], Select[Any] | None], ...]] = (
    _of_entities,
    _of_bills(BILL.c.approved, BILL.c.approved_by, "approved"),
    _of_bills(BILL.c.locked_at, BILL.c.locked_by, "locked"),
    _of_former_approvals,
    _of_take_backs,
    _of_replaced_bills,
    _of_postings,
    _of_grants,
    _of_proposals,
    _of_password_links(ONE_TIME_TOKEN.c.created, ONE_TIME_TOKEN.c.created_by, "created"),
    _of_password_links(
        ONE_TIME_TOKEN.c.used, literal("USER_") + ONE_TIME_TOKEN.c.subject_id, "used"
    ),
    _of_runs,
    _of_acts,
)
