"""Parents and children: whose line shows how much of what was rated as one."""

from collections.abc import Callable
from datetime import date
from fractions import Fraction
from typing import Any

from tests.billing_oracle.charges import Charge, bill_currency, make_charge, plan_details
from tests.billing_oracle.money import rate_between, round_money, smallest_unit, split
from tests.billing_oracle.periods import Window
from tests.billing_oracle.quantities import Member, Scope
from tests.billing_oracle.rating import units_of
from tests.billing_oracle.terms import Book, Terms, template_of
from tests.billing_oracle.world import Row, World, find

Rated = tuple[Fraction, Fraction, Fraction]
Rating = tuple[date, Window, Rated]


def metric_row(world: World, pricing: Row) -> Row:
    if pricing.get("compoundAggregationId"):
        return find(world.compounds, pricing["compoundAggregationId"])
    return find(world.aggregations, pricing["aggregationId"])


def share_usage(book: Book, terms: Terms, plan: Row, pricing: Row, rating: Rating) -> list[Charge]:
    """The charges of one rated window by the plan's child billing mode.

    PARENT_SUMMARY is one line, PARENT_BREAKDOWN one for each account, CHILD one on each account's bill.
    The amounts of credit pricings stay whole, on the bill of the account that has the plan.
    """
    is_credit = (pricing.get("type") or "DEBIT") != "DEBIT"
    alone = len(terms.scope_of(plan).members) == 1
    whole = _whole(book, terms, plan, pricing, rating)
    if is_credit or alone or terms.mode == "PARENT_SUMMARY":
        return [whole]
    return _shares(book, whole, rating, to_children=terms.mode == "CHILD")


def _units_within(book: Book, pricing: Row, scope: Scope) -> Callable[[Window], Fraction | None]:
    metric = metric_row(book.world, pricing)

    def measure(window: Window) -> Fraction | None:
        found = book.usage.own_quantity(metric, pricing.get("segment"), scope, window)
        return None if found is None else units_of(found, metric)

    return measure


def _whole(book: Book, terms: Terms, plan: Row, pricing: Row, rating: Rating) -> Charge:
    when, window, (quantity, units, amount) = rating
    is_credit = (pricing.get("type") or "DEBIT") != "DEBIT"
    return make_charge(
        book.world,
        "USAGE_CREDIT" if is_credit else "USAGE",
        terms.bill(when),
        amount,
        template_of(book.world, plan)["currency"],
        **plan_details(terms, plan),
        item=metric_row(book.world, pricing)["code"],
        pricing=pricing,
        segment=pricing.get("segment"),
        quantity=quantity,
        units=units,
        service=window,
        units_within=_units_within(book, pricing, terms.scope_of(plan)),
    )


def _own_quantities(book: Book, whole: Charge) -> list[Fraction | None]:
    terms, pricing = whole.terms, whole.pricing
    assert terms is not None
    assert pricing is not None
    assert whole.plan is not None
    metric, scope = metric_row(book.world, pricing), terms.scope_of(whole.plan)
    return [
        book.usage.own_quantity(metric, whole.segment, scope.of(member), whole.service)
        for member in scope.members
    ]


def _weights(own: list[Fraction | None]) -> list[Fraction]:
    """Own quantities are the weights; if they sum to 0, all is on the parent, which comes first."""
    weights = [value or Fraction(0) for value in own]
    if sum(weights) == 0:
        return [Fraction(number == 0) for number in range(len(own))]
    return weights


def _shares(book: Book, whole: Charge, rating: Rating, *, to_children: bool) -> list[Charge]:
    terms = whole.terms
    assert terms is not None
    assert whole.plan is not None
    own = _own_quantities(book, whole)
    weights = _weights(own)
    used = [value is not None for value in own]
    if not any(used):
        return [whole]
    rows = _split_rows(book.world, whole, weights)
    with_line = sum(map(bool, (each or row[0] for each, row in zip(used, rows, strict=True))))
    found = []
    for number, member in enumerate(terms.scope_of(whole.plan).members):
        has_line = used[number] or rows[number][0] != 0
        if has_line:
            share = _share(book, whole, member, own[number], rows[number])
            share.is_share = with_line > 1
            if with_line == 1:
                share.quantity, share.units = whole.quantity, whole.units
            found.append(_on_own_bill(book, share, member, rating) if to_children else share)
    return found


def _split_rows(
    world: World, whole: Charge, weights: list[Fraction]
) -> list[tuple[Fraction, Fraction, Fraction]]:
    """Exact share, share of the amount, share of the subtotal of each account."""
    billing = bill_currency(world, whole.bill)
    total = sum(weights)
    exact = [whole.exact * weight / total for weight in weights]
    amounts = split(whole.amount, weights, smallest_unit(world, billing))
    subtotals = split(whole.subtotal, weights, smallest_unit(world, whole.currency))
    return list(zip(exact, amounts, subtotals, strict=True))


def _share(book: Book, whole: Charge, member: Member, own: Fraction | None, row: Any) -> Charge:
    """A line of one account with its own quantity and its part of the pooled amount."""
    terms, pricing = whole.terms, whole.pricing
    assert terms is not None
    assert pricing is not None
    exact, amount, subtotal = row
    assert whole.plan is not None
    quantity = own or Fraction(0)
    return Charge(
        type=whole.type,
        bill=whole.bill,
        currency=whole.currency,
        exact=exact,
        rate=whole.rate,
        amount=amount,
        subtotal=subtotal,
        service=whole.service,
        terms=terms,
        plan=whole.plan,
        product=whole.product,
        item=whole.item,
        pricing=pricing,
        segment=whole.segment,
        child=None if member.account["id"] == terms.account["id"] else member.account["code"],
        quantity=quantity,
        units=units_of(quantity, metric_row(book.world, pricing)),
        contract_id=whole.contract_id,
        units_within=_units_within(book, pricing, terms.scope_of(whole.plan).of(member)),
    )


def _on_own_bill(book: Book, share: Charge, member: Member, rating: Rating) -> Charge:
    """The exact share, converted and rounded on the child's own bill."""
    terms = share.terms
    assert terms is not None
    own = make_charge(
        book.world,
        share.type,
        terms.bill(rating[0], member.account),
        share.exact,
        share.currency,
        service=share.service,
    )
    share.bill, share.rate = own.bill, own.rate
    share.amount, share.subtotal, share.child = own.amount, own.subtotal, None
    return share


def amount_for_account(world: World, charge: Charge, account: Row, currency: str) -> Fraction:
    """What a charge comes to in the currency of another account's bill."""
    if charge.bill.account_id == account["id"] or bill_currency(world, charge.bill) == currency:
        return charge.amount
    rate = rate_between(world, charge.currency, currency)
    return round_money(world, charge.exact * rate, currency)
