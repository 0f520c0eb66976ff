"""Who did what: the changes of entities, what people did to bills, grants, and what they asked for.

Nothing is written for it: every source says itself who and when. Each is read by time and merged.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Row,
    Select,
    String,
    case,
    cast,
    func,
    literal,
    null,
    or_,
    select,
)

from meterlake.model.configuration.access import SYSTEM
from meterlake.model.work.jobs import JobKind
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.pages import Page, key_token, read
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import (
    BILL,
    BILL_VERSION,
    ENTITY_HISTORY,
    POLICY_GRANT,
)
from meterlake.stores.state.jobs.table import JOB

BILL_KIND: Final = "Bill"
GRANT_KIND: Final = "PolicyGrant"
RUN_KIND: Final = "Run"
# What people ask for; deliveries and files of inboxes follow from something else.
_ASKED: Final = (
    *(JobKind.BILL, JobKind.STATEMENT, JobKind.BILL_LETTER, JobKind.EXPORT),
    *(JobKind.BACKFILL, JobKind.CLOSING_STEP, JobKind.UPLOAD),
)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One thing that somebody did.

    Attributes:
        kind: The class of an entity, or `Bill`, `PolicyGrant`, `Run`.
        action: What was done to it: `created`, `approved`.
        entity_id: What it was done to.
        name: Its code, name or e-mail address, as far as it has one; of a bill its account's id, of
            a grant the holder's.
    """

    id: str
    at: datetime
    by: str
    kind: str
    action: str
    entity_id: str
    name: str | None
    version: int | None


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
    """One page of the log, the newest first, and the token of the next page.

    Raises:
        Invalid: The token is none that a list gave.
    """
    found: list[Row[Any]] = []
    has_more = False
    for source in _SOURCES:
        query = source(reader, wanted)
        if query is None:
            continue
        columns = query.selected_columns
        query = query.where(*_conditions(columns, wanted))
        rows, token = read(reader.connection, query, columns.at_, columns.entry, page)
        found += rows[: page.size]
        has_more |= token is not None
    found.sort(key=lambda row: (row.at_, row.entry), reverse=True)
    has_more |= len(found) > page.size
    entries = [
        AuditEntry(
            row.entry, row.at_, row.by, row.kind_, row.action, row.entity, row.name_, row.version_
        )
        for row in found[: page.size]
    ]
    return entries, key_token(entries[-1].at, entries[-1].id) if has_more else None


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
    version: ColumnElement[Any] | None = None,
) -> Select[Any]:
    kind, entity = of
    word = literal(action) if isinstance(action, str) else action
    # Unique also where one thing had two things done to it at once.
    entry = entity + ":" + (word if version is None else cast(version, String))
    return select(
        entry.label("entry"),
        at.label("at_"),
        by.label("by"),
        word.label("action"),
        entity.label("entity"),
        (literal(kind) if isinstance(kind, str) else kind).label("kind_"),
        (null() if name is None else name).label("name_"),
        (null() if version is None else version).label("version_"),
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
    name = func.coalesce(*(member_text(body, literal(each)) for each in ("code", "name", "email")))
    action = case(
        (table.body.is_(None), literal("deleted")),
        (table.version == 1, literal("created")),
        else_=literal("updated"),
    )
    query = _columns(
        table.valid_from, table.author, action, (table.kind, table.id), name, table.version
    ).where(table.org == reader.org_id)
    return query.where(table.kind.in_(wanted.kinds)) if wanted.kinds else query


def _of_bills(
    at: ColumnElement[Any], by: ColumnElement[Any], action: str
) -> Callable[[Reader, AuditFilter], Select[Any] | None]:
    def source(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
        if wanted.kinds and BILL_KIND not in wanted.kinds:
            return None
        query = _columns(at, by, action, (BILL_KIND, BILL.c.id), BILL.c.account_id)
        return query.where(BILL.c.org == reader.org_id, at.is_not(None))

    return source


def _of_replaced_bills(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
    if wanted.kinds and BILL_KIND not in wanted.kinds:
        return None
    table = BILL_VERSION.c
    query = _columns(
        *(table.replaced, table.replaced_by, "replaced", (BILL_KIND, table.bill_id)),
        *(table.account_id, table.version),
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


def _of_runs(reader: Reader, wanted: AuditFilter) -> Select[Any] | None:
    if wanted.kinds and RUN_KIND not in wanted.kinds:
        return None
    query = _columns(JOB.c.created, JOB.c.author, "begun", (RUN_KIND, JOB.c.id), JOB.c.kind)
    return query.where(
        JOB.c.org == reader.org_id,
        JOB.c.kind.in_(list(_ASKED)),
        JOB.c.author.is_not(None),
        JOB.c.author != SYSTEM,
    )


_SOURCES: Final[tuple[Callable[[Reader, AuditFilter], Select[Any] | None], ...]] = (
    _of_entities,
    _of_bills(BILL.c.approved, BILL.c.approved_by, "approved"),
    _of_bills(BILL.c.locked_at, BILL.c.locked_by, "locked"),
    _of_replaced_bills,
    _of_grants,
    _of_runs,
)
