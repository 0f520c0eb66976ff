"""Step 3: standing charges of plans, and of plan groups in their stead."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any

from tests.billing_oracle.charges import Charge, make_charge, plan_details
from tests.billing_oracle.counters import share_of_days
from tests.billing_oracle.money import exact
from tests.billing_oracle.periods import Schedule, Window
from tests.billing_oracle.terms import Book, Terms, in_advance, setting, template_of
from tests.billing_oracle.world import Row

FLAG = "standingChargeBillInAdvance"


@dataclass(frozen=True)
class Recurring:
    """A charge of every N-th bill."""

    plan: Row | None
    amount: Fraction
    currency: str
    interval: int
    offset: int
    advance: bool


def standing_charges(book: Book, until: date) -> Iterator[Charge]:
    for terms in book.terms:
        for recurring in _recurring(book, terms):
            yield from _charges(book, terms, recurring, until)


def _recurring(book: Book, terms: Terms) -> Iterator[Recurring]:
    """The group's standing charge replaces its plans' if it has one."""
    group: Any = terms.group or {}
    if group.get("standingCharge") is not None:
        advance = in_advance(book.world, FLAG, group)
        amount = exact(group["standingCharge"])
        yield Recurring(None, amount, group["currency"], 1, 0, advance)
        return
    for plan in terms.plans:
        template = template_of(book.world, plan)
        yield Recurring(
            plan,
            exact(setting(book.world, plan, "standingCharge") or 0),
            template["currency"],
            template.get("standingChargeInterval") or 1,
            template.get("standingChargeOffset") or 0,
            in_advance(book.world, FLAG, plan, template),
        )


def bill_of_number(schedule: Schedule, number: int, service: Window, *, advance: bool) -> date:
    """The bill on which the charge for a group of periods stands.

    In arrears the bill of a regular period, in advance the first bill on or after its first day
    (and on or after the first day of what is charged); the plan's last bill, if it ends before.
    """
    if not advance:
        return schedule.bill_date(min(number, schedule.last))
    day = max(schedule.grid.start(number), schedule.clock.boundary(service.start))
    return schedule.advance_date(day)


def _charges(book: Book, terms: Terms, recurring: Recurring, until: date) -> Iterator[Charge]:
    """The periods form groups of N from the plan's first one; group g is on bill g·N + offset + 1."""
    schedule, interval = terms.schedule, recurring.interval
    first = schedule.grid.index(schedule.first_day)
    numbers = [number for number in schedule.regular_periods(until) if number >= first]
    for number in numbers[::interval]:
        whole = schedule.span([number, number + interval - 1])
        service = whole & terms.active
        if service.is_empty:
            continue
        amount = recurring.amount * share_of_days(book, service, whole)
        target = number + recurring.offset
        when = bill_of_number(schedule, target, service, advance=recurring.advance)
        if amount:
            yield make_charge(
                book.world,
                "STANDING_CHARGE",
                terms.bill(when),
                amount,
                recurring.currency,
                **plan_details(terms, recurring.plan),
                service=service,
                level=int(recurring.plan is None),
                period=number,
            )
