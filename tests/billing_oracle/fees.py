"""Step 5: commitment fees with a plan or by dates, fees of balances, ad hoc charges."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

from tests.billing_oracle.charges import Charge, make_charge
from tests.billing_oracle.counters import share_of_days
from tests.billing_oracle.money import exact, places_of, split
from tests.billing_oracle.periods import DAY, Grid, Schedule, Window, read_date, usual_days
from tests.billing_oracle.standing import bill_of_number
from tests.billing_oracle.terms import BillKey, Book, Terms, grouping_key_of, time_of
from tests.billing_oracle.world import Row, World, first_set

LEVELS = {"COMMITMENT_FEE": 0, "BALANCE_FEE": 1, "AD_HOC": 2}
FLAG = "commitmentFeeBillInAdvance"


@dataclass(frozen=True)
class FeePeriod:
    """A period of a commitment's fees: what it is for, its bill, and its share of a full period."""

    terms: Terms
    service: Window
    when: date
    weight: Fraction


def plan_fees(book: Book) -> Iterator[Charge]:
    """Fees billed with a plan: what is neither prepaid nor on the first bill, split over fee periods."""
    for number, row in enumerate(book.world.commitments):
        if row.get("billingPlanId") and not row.get("feeDates"):
            periods = fee_periods(book, row)
            for period, amount in zip(periods, instalments(book, row, periods), strict=True):
                if amount:
                    yield _fee(book, row, number, (period, amount))


def fee_periods(book: Book, row: Row) -> list[FeePeriod]:
    """The commitment's time ∩ the account plans of its billing plan, in groups of N periods.

    Those without a day have no fee, unless there is no other.
    """
    found: list[FeePeriod] = []
    joined = _terms_with_plan(book, row)
    every = [terms for together in joined for terms in together]
    for together in joined:
        found += [
            replace(period, terms=_last_holder(every, period))
            for period in _periods_of(book, row, _as_one(together))
        ]
    found.sort(key=lambda period: (period.when, period.service.start, period.service.end))
    return [period for period in found if period.weight] or found[:1]


def _terms_with_plan(book: Book, row: Row) -> list[list[Terms]]:
    """The account plans of the billing plan; those that overlap or follow each other with the same periods together.

    Those that a contract limits stand alone, and part no others.
    """
    found: list[list[Terms]] = []
    for terms in book.terms:
        is_plan = any(plan["id"] == row["billingPlanId"] for plan in terms.plans)
        if not is_plan or terms.billed["id"] != row["accountId"]:
            continue
        joined = [together for together in found if _joins(terms, _as_one(together))]
        if joined:
            joined[-1].append(terms)
        else:
            found.append([terms])
    return found


def _joins(terms: Terms, before: Terms) -> bool:
    """Whether an account plan overlaps or follows others that have the same periods."""
    return (
        before.schedule.grid == terms.schedule.grid
        and terms.schedule.active.start <= before.schedule.active.end
        and not is_limited(before)
        and not is_limited(terms)
    )


def is_limited(terms: Terms) -> bool:
    return terms.active != terms.schedule.active


def _as_one(together: list[Terms]) -> Terms:
    first, ends = together[0], [terms.schedule.active.end for terms in together]
    if len(together) == 1:
        return first
    active = Window(first.schedule.active.start, max(ends))
    return replace(first, schedule=replace(first.schedule, active=active), active=active)


def _last_holder(plans: list[Terms], period: FeePeriod) -> Terms:
    """On whose bill a fee stands: of those with a bill of its date who holds last in its time, else the latest."""
    last = period.service.end - timedelta(microseconds=1)

    def order(terms: Terms) -> tuple[Any, ...]:
        holds = terms.schedule.active.start <= last < terms.schedule.active.end
        return (holds, *terms.order)

    with_bill = [terms for terms in plans if _has_bill(terms, period.when)]
    return max(with_bill, key=order, default=period.terms)


def _has_bill(terms: Terms, when: date) -> bool:
    """Whether a plan has a bill of a date, in arrears or on its first day."""
    schedule = terms.schedule
    before = schedule.grid.index(when - DAY)
    number = min(before, schedule.last)
    in_arrears = schedule.first <= number and schedule.bill_date(number) == when
    begins = schedule.first_day == when == schedule.grid.start(before + 1)
    waits = schedule.first_bill is not None and when < schedule.first_bill
    return in_arrears or (begins and not waits)


def _periods_of(book: Book, row: Row, terms: Terms) -> Iterator[FeePeriod]:
    interval = row.get("billingInterval") or 1
    time = time_of(book.clock, row) & terms.active
    if time.is_empty:
        return
    grid, first = _fee_grid(row, terms, interval)
    cells = Schedule(book.clock, grid, None, terms.schedule.active)
    last = grid.index(book.clock.last_day(time.end))
    for number in range(first, last + 1, interval):
        whole = cells.span([number, number + interval - 1])
        service = whole & time
        if service.is_empty:
            continue
        target = number + (row.get("billingOffset") or 0)
        when = _bill_date(book, row, terms, cells, (target, service))
        yield FeePeriod(terms, service, when, share_of_days(book, service, whole))


def _fee_grid(row: Row, terms: Terms, interval: int) -> tuple[Grid, int]:
    """The plan's periods and their first one, or periods and groups from the commitment's `billEpoch`."""
    grid = terms.schedule.grid
    if not row.get("billEpoch"):
        return grid, grid.index(terms.schedule.first_day)
    own = Grid(grid.frequency, grid.interval, read_date(row["billEpoch"]))
    return own, own.index(terms.schedule.first_day) // interval * interval


def _bill_date(
    book: Book, row: Row, terms: Terms, cells: Schedule, what: tuple[int, Window]
) -> date:
    """Which bill of the plan a fee stands on: by its number, or by its own time if each bill has one."""
    target, service = what
    schedule = terms.schedule
    advance = bool(first_set(row.get(FLAG), book.world.organization.get(FLAG)))
    each = (row.get("billingInterval") or 1) == 1 and not row.get("billingOffset")
    if each and not advance:
        return schedule.arrears_date(service)
    if advance or cells.grid == schedule.grid:
        return _numbered(schedule, cells, target, service, advance=advance)
    cell = cells.cell(target)
    if cell.start >= schedule.active.end:
        return schedule.last_bill_date()
    if cell.end <= schedule.active.start:
        return schedule.bill_date(schedule.first)
    return schedule.arrears_date(cell & schedule.active)


def _numbered(
    schedule: Schedule, cells: Schedule, target: int, service: Window, *, advance: bool
) -> date:
    if cells.grid == schedule.grid:
        # A period of a group that ends before the plan begins has the plan's first bill.
        number = target if advance else max(target, schedule.first)
        return bill_of_number(schedule, number, service, advance=advance)
    day = max(cells.grid.start(target), schedule.clock.boundary(service.start))
    return schedule.advance_date(day)


def instalments(book: Book, row: Row, periods: Sequence[FeePeriod]) -> list[Fraction]:
    """Full periods get equal parts, partial ones by days, by largest remainders; the first bill's amount is on top.

    Their sum is the amount less what is prepaid, exactly.
    """
    if not periods:
        return []
    prepaid, first = exact(row.get("amountPrePaid") or 0), exact(row.get("amountFirstBill") or 0)
    left = max(Fraction(0), exact(row["amount"]) - prepaid - first)
    parts = split(left, [period.weight for period in periods], unit_of(book.world, row, left))
    return [part + (first if number == 0 else 0) for number, part in enumerate(parts)]


def unit_of(world: World, row: Row, amount: Fraction) -> Fraction:
    """The least amount of the commitment's currency; a finer one if the amount itself is finer."""
    places = places_of(world, row["currency"])[0]
    while (amount * 10**places).denominator != 1:
        places += 1
    return Fraction(1, 10**places)


def _fee(book: Book, row: Row, number: int, what: tuple[FeePeriod, Fraction]) -> Charge:
    period, amount = what
    return make_charge(
        book.world,
        "COMMITMENT_FEE",
        period.terms.bill(period.when),
        amount,
        row["currency"],
        service=period.service,
        level=LEVELS["COMMITMENT_FEE"],
        number=number,
        source_id=row["id"],
        contract_id=row.get("contractId"),
    )


@dataclass(frozen=True, kw_only=True)
class Item:
    """An ad hoc item: it joins a bill of its date, or makes one."""

    kind: str
    account_id: str
    date: date | None
    amount: Fraction
    currency: str
    service: Window
    number: int
    item: str | None = None
    source_id: str | None = None
    contract_id: str | None = None
    quantity: Fraction = Fraction(1)


def _fee_items(book: Book) -> Iterator[Item]:
    for number, row in enumerate(book.world.commitments):
        for fee in row.get("feeDates") or ():
            yield Item(
                kind="COMMITMENT_FEE",
                account_id=row["accountId"],
                date=read_date(fee["date"]),
                amount=exact(fee["amount"]),
                currency=row["currency"],
                service=_service(book, fee),
                number=number,
                source_id=row["id"],
                contract_id=row.get("contractId"),
            )


def _service(book: Book, row: Row) -> Window:
    start, end = row["servicePeriodStartDate"], row["servicePeriodEndDate"]
    return Window(book.clock.instant(start), book.clock.instant(end))


def _charge_items(book: Book) -> Iterator[Item]:
    for number, row in enumerate(book.world.charges):
        units = row.get("units")
        amount = exact(row["amount"]) if units is None else exact(units) * exact(row["unitPrice"])
        yield Item(
            kind=row["lineItemType"],
            account_id=row["accountId"],
            date=read_date(row["billDate"]) if row.get("billDate") else None,
            amount=amount,
            currency=row["currency"],
            service=_service(book, row),
            number=number,
            item=row["code"],
            source_id=row.get("entityId"),
            contract_id=row.get("contractId"),
            quantity=exact(units) if units is not None else Fraction(1),
        )


def ad_hoc_charges(book: Book, due: set[BillKey]) -> Iterator[Charge]:
    """Fee dates and charges, each on its bill."""
    for item in [*_fee_items(book), *_charge_items(book)]:
        if item.amount:
            yield make_charge(
                book.world,
                item.kind,
                bill_of_item(book, item, due),
                item.amount,
                item.currency,
                service=item.service,
                level=LEVELS[item.kind],
                number=item.number,
                item=item.item,
                source_id=item.source_id,
                contract_id=item.contract_id,
                quantity=item.quantity,
                units=item.quantity,
            )


def bill_of_item(book: Book, item: Item, due: set[BillKey]) -> BillKey:
    """The account's due bill of the date and grouping key with the shortest period, else one of its own."""
    key = grouping_key_of(book.world, item.contract_id)
    when = item.date or first_bill_from(book, item, key)
    alike = [
        bill
        for bill in due
        if (bill.account_id, bill.date, bill.grouping_key) == (item.account_id, when, key)
    ]
    if alike:
        return min(alike, key=length_of)
    consolidated = book.world.organization.get("consolidateBills")
    frequency = "MIXED" if consolidated else "AD_HOC"
    return BillKey(item.account_id, when, frequency, None, key)


def length_of(bill: BillKey) -> tuple[Any, ...]:
    """Bills of one day: the one with the shortest period comes first, those without any last."""
    if bill.interval is None:
        return (1, 0, bill.frequency, 0)
    days = usual_days(bill.frequency, bill.interval)
    return (0, days, bill.frequency, bill.interval)


def first_bill_from(book: Book, item: Item, key: str | None) -> date:
    """Without a bill date: the first bill on or after the end of the service period; that day if none comes."""
    end = item.service.end
    day = book.clock.local_day(end)
    day = day if book.clock.midnight(day) >= end else day + DAY
    dates = [
        found
        for terms in book.terms
        if bills_account(terms, item.account_id) and terms.bill(day).grouping_key == key
        if (found := next_bill(terms.schedule, day)) is not None
    ]
    return min(dates, default=day)


def bills_account(terms: Terms, account_id: str) -> bool:
    """Whether an account plan makes bills of an account: its own, or those of children that are billed."""
    if terms.billed["id"] == account_id:
        return True
    children = [member.account["id"] for member in terms.children]
    return terms.mode == "CHILD" and account_id in children


def next_bill(schedule: Schedule, day: date) -> date | None:
    """The first bill in arrears of a plan on or after a day."""
    number = max(schedule.first, schedule.grid.index(day - timedelta(days=1)))
    when = schedule.bill_date(min(number, schedule.last))
    return when if when >= day else None
