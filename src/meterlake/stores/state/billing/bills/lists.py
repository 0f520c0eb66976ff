"""Lists and searches of bills and of their lines: conditions as SQL, pages newest first."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Numeric,
    Row,
    Select,
    String,
    Subquery,
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

from meterlake.model.bills.requests import BillStatus
from meterlake.model.errors import Invalid, NotFound
from meterlake.model.resources.listing import Search, Term
from meterlake.model.values.money import ZERO, exact, plain
from meterlake.stores.state.billing.lock_date import closed_before
from meterlake.stores.state.billing.stored_bills import LineContent, StoredBill, join_lines, line_of
from meterlake.stores.state.core import pages
from meterlake.stores.state.core.json_columns import member_text
from meterlake.stores.state.core.listing import compare, contains, starts_with
from meterlake.stores.state.core.reader import Reader
from meterlake.stores.state.core.tables import BILL, BILL_LINE

_TOTAL: Final = "billTotal"
# Ten million totals of at most so many signs add up within 64 bits.
_SHORT: Final = 12
SEARCH_FIELDS: Final = frozenset(
    {
        *("accountId", "locked", "billDate", "startDate", "endDate", "dueDate"),
        *("billingFrequency", "id", "createdBy", "dtCreated", "lastModifiedBy", "ids"),
        # By what a customer says who calls.
        *("accountCode", "sequentialInvoiceNumber", "externalInvoiceReference"),
        *("purchaseOrderNumber", "status", "currency", _TOTAL, "recalculationDue"),
    }
)
_COLUMNS: Final = {
    "id": BILL.c.id,
    "ids": BILL.c.id,
    "accountId": BILL.c.account_id,
    "billDate": BILL.c.bill_date,
    "billingFrequency": BILL.c.frequency,
    "status": BILL.c.status,
    "createdBy": BILL.c.created_by,
    "dtCreated": BILL.c.created,
    "lastModifiedBy": BILL.c.modified_by,
    "dtLastModified": BILL.c.modified,
    "currency": BILL.c.currency,
}
_IN_BODY: Final = frozenset(
    {
        *("accountCode", "startDate", "endDate", "startDateTimeUTC", "endDateTimeUTC", "dueDate"),
        *("externalInvoiceDate", "externalInvoiceReference", "purchaseOrderNumber", "timezone"),
    }
)
# What bills are sorted by as it is: not all of it is text.
_SORTED: Final[dict[str, ColumnElement[Any]]] = {
    "version": BILL.c.version,
    "billDate": BILL.c.bill_date,
    "billFrequencyInterval": BILL.c.interval,
    _TOTAL: cast(BILL.c.total, Numeric),
    "billJobId": BILL.c.job_id,
    "createdDate": BILL.c.created,
    "lastCalculatedDate": func.coalesce(BILL.c.calculated, BILL.c.created),
    "dtApproved": BILL.c.approved,
    "approvedBy": BILL.c.approved_by,
    "dtLocked": BILL.c.locked_at,
    "lockedBy": BILL.c.locked_by,
    # Numbers grow behind one prefix.
    "sequentialInvoiceNumber": func.length(BILL.c.invoice_number),
}
_FLAGS: Final = frozenset({(":", "true"), (":", "false")})
_AMOUNT: Final = re.compile(r"-?[0-9]{1,30}(\.[0-9]{1,30})?")
_TOTAL_RULE: Final = "it must be an amount such as billTotal:1234.5; comparators are > >= : < <="
_FLAG_NAMES: Final = frozenset({"locked", "recalculationDue"})
_INSTANTS: Final = frozenset({"dtCreated", "dtLastModified"})


@dataclass(frozen=True, slots=True)
class BillFilters:
    """Which bills are wanted; None is any.

    Attributes:
        locked: False leaves locked bills out, also those that the lock date closes.
        date_from: The bill date is this day or later.
        date_before: The bill date is earlier.
        invoiced_from: So is the date of its invoice.
        invoiced_before: So is that.
    """

    ids: tuple[str, ...] = ()
    account_ids: tuple[str, ...] = ()
    locked: bool = True
    status: BillStatus | None = None
    frequency: str | None = None
    bill_date: date | None = None
    date_from: date | None = None
    date_before: date | None = None
    invoiced_from: date | None = None
    invoiced_before: date | None = None
    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class LineFilters:
    """Which lines are wanted; None is any."""

    bill_id: str | None = None
    commitment_id: str | None = None
    type: str | None = None


class StoredLine(NamedTuple):
    """A line with the bill that it stands on, which has no lines here."""

    bill: StoredBill
    line: LineContent
    number: int


def list_bills(
    reader: Reader, filters: BillFilters, page: pages.Page, *, lines: bool = True
) -> tuple[list[StoredBill], str | None]:
    """One page of bills, the newest first, and the token of the next page.

    Raises:
        Invalid: The token is none that a list gave.
    """
    query = select_bills(reader, filters)
    rows, token = pages.read(reader.connection, query, BILL.c.created, BILL.c.id, page)
    return _join(reader, rows, lines=lines), token


def bills_by_date(reader: Reader, filters: BillFilters, limit: int) -> list[StoredBill]:
    """The bills with the latest dates, without their lines; those of a date by account."""
    order = (BILL.c.bill_date.desc(), member_text(BILL.c.body, "accountCode"), BILL.c.id)
    query = select_bills(reader, filters).order_by(*order).limit(limit)
    return _join(reader, reader.connection.execute(query).all(), lines=False)


def count_bills(reader: Reader, filters: BillFilters) -> int:
    """How many bills meet all conditions."""
    counted = select(func.count()).select_from(select_bills(reader, filters).subquery())
    return int(reader.connection.execute(counted).scalar_one())


def total_bills(reader: Reader, filters: BillFilters) -> dict[str, tuple[int, Decimal]]:
    """How many bills meet all conditions, and what they come to, by currency."""
    found = select_bills(reader, filters).with_only_columns(BILL.c.currency, BILL.c.total)
    totals: dict[str, tuple[int, Decimal]] = {}
    with exact():
        for currency, total in reader.connection.execute(found):
            count, sum_ = totals.get(currency, (0, ZERO))
            totals[currency] = count + 1, sum_ + Decimal(total)
    return dict(sorted(totals.items()))


def select_bills(reader: Reader, filters: BillFilters) -> Select[Any]:
    """The bills that meet all conditions, in no particular order."""
    return select(BILL).where(BILL.c.org == reader.org_id, *_conditions(reader, filters))


def latest_bill(reader: Reader, account_id: str) -> StoredBill:
    """The bill of an account with the latest date; of several, the one that was made last.

    Raises:
        NotFound: The account has no bill.
    """
    query = select_bills(reader, BillFilters(account_ids=(account_id,)))
    order = (BILL.c.bill_date.desc(), BILL.c.created.desc(), BILL.c.id.desc())
    row = reader.connection.execute(query.order_by(*order).limit(1)).first()
    if row is None:
        raise NotFound("bill of account", account_id)
    return _join(reader, [row])[0]


def of_billing_period(last_day: date, frequency: str) -> BillFilters:
    """The bills of a frequency whose period ends with a day."""
    return BillFilters(bill_date=last_day + timedelta(days=1), frequency=frequency)


def search_bills(
    reader: Reader, search: Search, *, lines: bool = True
) -> tuple[list[StoredBill], bool]:
    """The bills that a search finds, and whether there are more after them.

    Raises:
        Invalid: A field has no such values.
    """
    is_locked = _locked(reader)
    query = select(BILL).where(_found(reader, search, is_locked))
    query = query.order_by(*_order(search, is_locked))
    rows = reader.connection.execute(query.offset(search.start).limit(search.size + 1)).all()
    return _join(reader, rows[: search.size], lines=lines), len(rows) > search.size


class FoundTotal(NamedTuple):
    """What found bills of a currency come to, and how many of them are pending, approved and locked."""

    currency: str
    bills: int
    total: Decimal
    pending: int
    approved: int
    locked: int


def total_found(reader: Reader, search: Search) -> list[FoundTotal]:
    """What all bills that a search finds come to, by currency.

    Raises:
        Invalid: A field has no such values.
    """
    found = dict[str, FoundTotal]()
    with exact():
        for row in reader.connection.execute(_sums(_found_totals(reader, search))):
            before = found.get(row.currency) or FoundTotal(row.currency, 0, ZERO, 0, 0, 0)
            pending = row.bills if row.status == BillStatus.PENDING.value else 0
            # Whole numbers of the last place, or many times the same long one.
            whole = Decimal(int(row.whole or 0)).scaleb(-row.places)
            total = whole if row.long is None else Decimal(row.long) * row.bills
            found[row.currency] = FoundTotal(
                row.currency,
                before.bills + row.bills,
                before.total + total,
                before.pending + pending,
                before.approved + row.bills - pending,
                before.locked + (row.bills if row.is_locked else 0),
            )
    return [found[each] for each in sorted(found)]


def _found_totals(reader: Reader, search: Search) -> Subquery:
    """Of each bill that a search finds: its total as a whole number with its places, or a long one."""
    is_locked = _locked(reader)
    total = type_coerce(BILL.c.total, String)
    before = func.rtrim(total, "0123456789")
    is_short = func.length(total) <= _SHORT
    columns = (
        BILL.c.currency,
        BILL.c.status,
        is_locked.label("is_locked"),
        case((before.like("%."), func.length(total) - func.length(before)), else_=0).label(
            "places"
        ),
        case((is_short, cast(func.replace(total, ".", ""), BigInteger))).label("whole"),
        case((is_short, null()), else_=total).label("long"),
    )
    return select(*columns).where(_found(reader, search, is_locked)).subquery()


def _sums(totals: Subquery) -> Select[Any]:
    """Totals added up by the database, which is exact and far quicker than row by row."""
    groups = [totals.c[name] for name in ("currency", "status", "is_locked", "places", "long")]
    sums = (func.count().label("bills"), func.sum(totals.c.whole).label("whole"))
    return select(*groups, *sums).group_by(*groups)


def _found(reader: Reader, search: Search, is_locked: ColumnElement[bool]) -> ColumnElement[bool]:
    own = BILL.c.org == reader.org_id
    conditions = [_term(term, is_locked) for term in search.terms]
    return and_(own, (and_ if search.every else or_)(*conditions)) if conditions else own


def list_lines(
    reader: Reader, filters: LineFilters, page: pages.Page
) -> tuple[list[StoredLine], str | None]:
    """One page of lines: those of the newest bill first, each bill's in their order.

    Raises:
        Invalid: The token is none that a list gave.
    """
    query = (
        select(BILL, *(column.label(f"line_{column.name}") for column in BILL_LINE.c))
        .join(BILL_LINE, BILL_LINE.c.bill_id == BILL.c.id)
        .where(BILL.c.org == reader.org_id, *_line_conditions(filters))
        .order_by(BILL.c.created.desc(), BILL.c.id.desc(), BILL_LINE.c.sequence)
    )
    if page.token:
        created, last = pages.key_of(page.token)
        bill_id, _, number = last.partition(" ")
        if not (number.isascii() and number.isdigit() and len(number) < len(str(2**31))):
            raise Invalid(pages.NEXT_TOKEN, page.token, pages.TOKEN_RULE)
        same_bill = and_(BILL.c.id == bill_id, BILL_LINE.c.sequence > int(number))
        same_time = and_(BILL.c.created == created, or_(BILL.c.id < bill_id, same_bill))
        after = or_(BILL.c.created < created, same_time)
        query = query.where(after)
    rows = reader.connection.execute(query.limit(page.size + 1)).all()
    listed = rows[: page.size]
    more = len(rows) > page.size
    token = None
    if more:
        end = listed[-1]
        token = pages.key_token(end.created, f"{end.id} {end.line_sequence}")
    return [
        StoredLine(
            join_lines(row, ()),
            line_of(LineRow(row.line_key, row.line_body, row.line_pins)),
            row.line_sequence,
        )
        for row in listed
    ], token


class LineRow(NamedTuple):
    """The columns of a line that its content is read from."""

    key: str
    body: str
    pins: str


def _line_conditions(filters: LineFilters) -> Iterator[ColumnElement[bool]]:
    if filters.bill_id is not None:
        yield BILL.c.id == filters.bill_id
    for name, value in (("commitmentId", filters.commitment_id), ("lineItemType", filters.type)):
        if value is not None:
            yield member_text(BILL_LINE.c.body, literal(name)) == value


def _join(reader: Reader, rows: Sequence[Row[Any]], *, lines: bool = True) -> list[StoredBill]:
    found: dict[str, list[LineContent]] = {row.id: [] for row in rows}
    query = select(BILL_LINE).where(BILL_LINE.c.bill_id.in_(list(found)))
    query = query.order_by(BILL_LINE.c.bill_id, BILL_LINE.c.sequence)
    for line in reader.connection.execute(query) if lines and rows else ():
        found[line.bill_id].append(line_of(line))
    return [join_lines(row, found[row.id]) for row in rows]


def _conditions(reader: Reader, filters: BillFilters) -> Iterator[ColumnElement[bool]]:
    if filters.ids:
        yield BILL.c.id.in_(filters.ids)
    if filters.account_ids:
        yield BILL.c.account_id.in_(filters.account_ids)
    if not filters.locked:
        yield ~_locked(reader)
    for column, value in (
        (BILL.c.status, filters.status and filters.status.value),
        (BILL.c.frequency, filters.frequency),
        (BILL.c.bill_date, filters.bill_date),
        (BILL.c.job_id, filters.job_id),
    ):
        if value is not None:
            yield column == value
    yield from _between(BILL.c.bill_date, filters.date_from, filters.date_before)
    invoiced = member_text(BILL.c.body, literal("externalInvoiceDate"))
    days = (each and each.isoformat() for each in (filters.invoiced_from, filters.invoiced_before))
    yield from _between(invoiced, *days)


def _between(column: ColumnElement[Any], start: Any, end: Any) -> Iterator[ColumnElement[bool]]:
    if start is not None:
        yield column >= start
    if end is not None:
        yield column < end


def _locked(reader: Reader) -> ColumnElement[bool]:
    """Whether a person locked a bill, or the lock date closes it."""
    day = closed_before(reader)
    by_person = BILL.c.locked.is_(True)
    if day is None:
        return by_person
    ends = func.coalesce(member_text(BILL.c.body, literal("endDate")), "9999-12-31")
    return or_(by_person, ends <= day.isoformat())


def _column(name: str, is_locked: ColumnElement[bool]) -> ColumnElement[Any]:
    if name == "locked":
        return case((is_locked, "true"), else_="false")
    if name == "recalculationDue":
        return case((and_(BILL.c.outdated_by.is_not(None), ~is_locked), "true"), else_="false")
    if name in _INSTANTS:
        return func.rtrim(type_coerce(_COLUMNS[name], String), "Z")
    if name == "sequentialInvoiceNumber":
        return type_coerce(BILL.c.invoice_number, String)
    if name in _COLUMNS:
        return type_coerce(_COLUMNS[name], String)
    return member_text(BILL.c.body, literal(name))


def _total(term: Term) -> ColumnElement[bool]:
    """Whether a bill comes to an amount, however many zeros that has behind its point."""
    if not _AMOUNT.fullmatch(term.value) or term.comparator in {"~", "*"}:
        raise Invalid("searchQuery", f"billTotal{term.comparator}{term.value}", _TOTAL_RULE)
    if term.comparator == ":":
        return BILL.c.total == plain(Decimal(term.value))
    return compare(_SORTED[_TOTAL], term.comparator, cast(literal(term.value), Numeric))


def _term(term: Term, is_locked: ColumnElement[bool]) -> ColumnElement[bool]:
    if term.field == _TOTAL:
        return _total(term)
    column, value = _column(term.field, is_locked), term.value
    if term.field in _FLAG_NAMES and (term.comparator, value) not in _FLAGS:
        rule = f"it must be one of {term.field}:true, {term.field}:false"
        raise Invalid("searchQuery", f"{term.field}{term.comparator}{value}", rule)
    if term.field in _INSTANTS:
        value = value.removesuffix("Z")
    elif term.field.endswith("Date"):
        value = value[: len("2026-10-01")]
    if term.comparator == ":":
        return column.in_(value.split(",") if term.field == "ids" else [value])
    if term.comparator in {"~", "*"}:
        return (starts_with if term.comparator == "~" else contains)(column, value)
    return compare(column, term.comparator, value)


def _order(search: Search, is_locked: ColumnElement[bool]) -> Iterator[Any]:
    for column in _sorted_columns(search.sort_by, is_locked):
        ordered = column.asc() if search.ascending else column.desc()
        # An index serves only what has no such words, on one database or the other.
        yield ordered if column is BILL.c.bill_date else ordered.nulls_last()
    newest = search.sort_by is not None or not search.ascending
    for column in (BILL.c.created, BILL.c.id):
        yield column.desc() if newest else column.asc()


def _sorted_columns(
    name: str | None, is_locked: ColumnElement[bool]
) -> Iterator[ColumnElement[Any]]:
    if name is None:
        return
    known = (_COLUMNS.keys() - {"ids"}) | _IN_BODY | _SORTED.keys() | {"locked"}
    if name not in known:
        raise Invalid("sortBy", name, f"it must be one of {', '.join(sorted(known))}")
    yield _SORTED[name] if name in _SORTED else _column(name, is_locked)
    if name == "sequentialInvoiceNumber":
        yield BILL.c.invoice_number
