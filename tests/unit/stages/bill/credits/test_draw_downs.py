"""Commitments and balances pay for lines of a bill."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from meterlake.model.configuration.organization import BillCreditType
from meterlake.model.values.money import RoundingMode
from meterlake.model.values.period import Period
from meterlake.stages.bill.credits.draw_downs import (
    CreditSource,
    DrawTerms,
    PayableLine,
    draw_down,
)
from meterlake.stages.bill.pricing.currencies import CannotBill

D = Decimal
TERMS = DrawTerms(2, UTC)


def day(text):
    return datetime.fromisoformat(f"2026-{text}").replace(tzinfo=UTC)


def span(start="01-01", end="02-01"):
    return Period(day(start), day(end))


def commitment(id="c", left=100, start="01-01", end="12-31", **more):
    more = {"kind": BillCreditType.PREPAYMENT, "created": day("01-01"), **more}
    return CreditSource(id=id, name=id, period=span(start, end), left=D(left), **more)


def balance(id="b", left=100, start="01-01", end="12-31", **more):
    return commitment(id, left, start, end, kind=BillCreditType.BALANCE, **more)


def line(number, amount, period=None, type="USAGE", **more):
    return PayableLine(number=number, type=type, amount=D(amount), period=period or span(), **more)


def draws(found):
    return [
        (each.source.id, each.part.line, each.part.part, str(each.amount)) for each in found.draws
    ]


def rest(found):
    return [str(each) for each in found.uncovered.values()]


def outcomes(found):
    return [(each.source.id, each.left, each.exhausted) for each in found.sources]


def test_without_a_source_nothing_is_drawn():
    found = draw_down([line(1, 10)], [], TERMS)

    assert (found.draws, found.sources) == ((), ())


def test_a_source_pays_lines_in_the_order_of_the_bill():
    found = draw_down([line(2, 80), line(1, 50)], [commitment(left=100)], TERMS)

    assert draws(found) == [("c", 1, 0, "50"), ("c", 2, 0, "50.00")]
    assert [str(each) for each in found.uncovered.values()] == ["0", "30.00"]
    assert outcomes(found) == [("c", 0, True)]


def test_a_source_with_something_left_is_not_exhausted():
    found = draw_down([line(1, 50)], [commitment(left="50.01")], TERMS)

    assert outcomes(found) == [("c", D("0.01"), False)]


def test_an_empty_source_is_exhausted_only_if_it_ever_had_something():
    sources = [balance("new", 0, was_filled=False), balance("spent", 0)]

    found = draw_down([line(1, 50)], sources, TERMS)

    assert draws(found) == []
    assert outcomes(found) == [("new", 0, False), ("spent", 0, True)]


@pytest.mark.parametrize(
    ("order", "payer"),
    [
        ((BillCreditType.PREPAYMENT, BillCreditType.BALANCE), "c"),
        ((BillCreditType.BALANCE, BillCreditType.PREPAYMENT), "b"),
        ((BillCreditType.BALANCE,), "b"),
    ],
)
def test_the_order_of_kinds_decides(order, payer):
    found = draw_down([line(1, 50)], [commitment(), balance()], DrawTerms(2, UTC, order))

    assert draws(found) == [(payer, 1, 0, "50")]
    assert len(found.sources) == len(order)


def test_within_a_kind_end_then_start_then_creation_then_id_decide():
    sources = [
        balance("e", 10, "01-01", "12-31", created=day("01-02")),
        balance("d", 10, "01-01", "12-31", created=day("01-02")),
        balance("c", 10, "01-01", "12-31"),
        balance("b", 10, "01-01", "12-30"),
    ]

    found = draw_down([line(1, 35)], sources, TERMS)

    assert [each.source.id for each in found.sources] == ["b", "c", "d", "e"]
    assert draws(found)[-1] == ("e", 1, 0, "5.00")


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ({"line_types": frozenset({"STANDING_CHARGE"})}, {}),
        ({"product_ids": frozenset({"p"})}, {"product_id": "q"}),
        ({"product_ids": frozenset({"p"})}, {"product_id": None}),
        ({"contract_id": "k"}, {"contract_id": None}),
        ({"contract_id": "k"}, {"contract_id": "l"}),
        ({}, {"type": "COMMITMENT_FEE"}),
        ({}, {"type": "AD_HOC"}),
        ({}, {"amount": D(-50)}),
        ({"start": "02-01"}, {}),
        ({"end": "01-01", "start": "01-01"}, {}),
    ],
)
def test_a_source_does_not_pay_for_what_is_none_of_its_business(source, what):
    found = draw_down([line(**{"number": 1, "amount": 50, **what})], [commitment(**source)], TERMS)

    assert draws(found) == []


def test_a_balance_pays_for_single_charges():
    found = draw_down([line(1, 50, type="AD_HOC")], [balance()], TERMS)

    assert draws(found) == [("b", 1, 0, "50")]


def test_a_source_pays_for_the_days_on_which_it_holds():
    # 15 of 31 days.
    found = draw_down(
        [line(1, 310, type="STANDING_CHARGE")], [balance(left=500, end="01-16")], TERMS
    )

    assert draws(found) == [("b", 1, 0, "150.00")]
    assert rest(found) == ["0.00", "160.00"]


def test_a_source_pays_for_the_units_of_its_time():
    used = {day("01-01"): D(30), day("01-16"): D(10)}
    usage = line(1, 100, units_of=lambda period: used.get(period.start))

    found = draw_down([usage], [balance(left=500, end="01-16")], TERMS)

    assert draws(found) == [("b", 1, 0, "75.00")]


def test_a_line_is_cut_once_at_every_bound():
    sources = [balance("a", 500, end="01-11"), balance("b", 500, "01-11", "01-21")]

    found = draw_down([line(1, 31, type="STANDING_CHARGE")], sources, TERMS)

    assert draws(found) == [("a", 1, 0, "10.00"), ("b", 1, 1, "10.00")]
    assert rest(found) == ["0.00", "0.00", "11.00"]


@pytest.mark.parametrize(("units", "payer"), [(None, "a"), (D(0), "a")])
def test_without_units_the_whole_line_belongs_to_its_start(units, payer):
    sources = [balance("a", 500, end="01-11"), balance("b", 500, "01-11")]

    found = draw_down([line(1, 31, units_of=lambda _: units)], sources, TERMS)

    assert draws(found) == [(payer, 1, 0, "31")]


def test_what_has_no_length_is_paid_by_who_holds_at_that_instant():
    sources = [balance("a", 500, end="01-11"), balance("b", 500, "01-11")]

    found = draw_down([line(1, 31, span("01-11", "01-11"), type="AD_HOC")], sources, TERMS)

    assert draws(found) == [("b", 1, 0, "31")]


def test_a_negative_line_lowers_those_that_it_covers():
    lines = [
        line(1, 30, type="MINIMUM_SPEND"),
        line(2, 10),
        line(3, -9, covers=frozenset({1}), type="MINIMUM_SPEND_REFUND"),
    ]

    found = draw_down(lines, [commitment(left=500)], TERMS)

    assert draws(found) == [("c", 1, 0, "21.00"), ("c", 2, 0, "10")]


def test_a_negative_line_that_covers_nothing_in_particular_lowers_all():
    found = draw_down([line(1, 30), line(2, 10), line(3, -8)], [commitment(left=500)], TERMS)

    assert draws(found) == [("c", 1, 0, "24.00"), ("c", 2, 0, "8.00")]


def test_more_than_there_is_lowers_to_0():
    lines = [line(1, 30), line(2, -80, covers=frozenset({1}))]

    found = draw_down(lines, [commitment(left=500)], TERMS)

    assert (draws(found), found.parts) == ([], ())


def test_a_source_of_another_currency_pays_its_value():
    # 10.03 GBP are worth 12.5375 USD, of which whole cents pay.
    source = balance(left="10.03", rate=D("1.25"))

    found = draw_down([line(1, 100)], [source], TERMS)

    [drawn] = found.sources
    assert (drawn.amount, drawn.posted, drawn.left) == (D("12.53"), D("10.02"), D("0.01"))
    # What is left is worth more than a cent.
    assert not drawn.exhausted


def test_what_is_drawn_is_rounded_in_the_currency_of_the_source():
    found = draw_down([line(1, 1)], [balance(left=10, rate=D(3))], TERMS)

    [drawn] = found.sources
    assert (drawn.posted, drawn.left) == (D("0.33"), D("9.67"))


def test_the_posted_amount_is_split_over_the_draws():
    found = draw_down([line(1, 1), line(2, 1)], [balance(left=10, rate=D(3))], TERMS)

    # 2.00 are 0.67 of the source's.
    assert [str(each.posted) for each in found.draws] == ["0.34", "0.33"]


def test_a_rest_below_the_smallest_unit_is_given_too():
    found = draw_down([line(1, 10)], [balance(left="10.004")], TERMS)

    [drawn] = found.sources
    assert (drawn.amount, drawn.posted, drawn.left) == (D(10), D("10.004"), 0)
    assert drawn.exhausted


def test_a_rest_that_never_paid_for_anything_stays_and_counts_as_nothing():
    found = draw_down([line(1, 10)], [balance(left="0.004")], TERMS)

    [drawn] = found.sources
    assert (drawn.amount, drawn.posted, drawn.left) == (0, 0, D("0.004"))
    assert drawn.exhausted


def test_a_source_without_a_rate_fails_by_name():
    with pytest.raises(CannotBill, match="gift"):
        draw_down([line(1, 10)], [balance("gift", rate=None)], TERMS)


@pytest.mark.parametrize("source", [{"left": 0}, {"start": "02-01"}])
def test_a_source_without_a_rate_that_pays_for_nothing_fails_nothing(source):
    found = draw_down([line(1, 10)], [balance(rate=None, **source)], TERMS)

    assert draws(found) == []


def test_a_currency_that_is_not_rounded_fails_where_a_digit_would_be_lost():
    source = balance("gift", rate=D(3), mode=RoundingMode.UNNECESSARY)

    with pytest.raises(CannotBill, match="gift"):
        draw_down([line(1, 10)], [source], TERMS)


def test_an_overdraft_pays_what_every_source_left():
    sources = [balance("a", 10, end="12-30", overdraft=True), balance("b", 20, overdraft=True)]

    found = draw_down([line(1, 100)], sources, TERMS)

    assert draws(found) == [("a", 1, 0, "80.00"), ("b", 1, 0, "20.00")]
    assert rest(found) == ["0"]
    assert outcomes(found) == [("a", -70, True), ("b", 0, True)]


def test_an_overdrawn_balance_is_drawn_further():
    found = draw_down([line(1, 5)], [balance(left=-10, overdraft=True)], TERMS)

    assert outcomes(found) == [("b", -15, True)]


def test_a_rollover_is_a_source_of_its_own():
    sources = [balance(left=50, end="01-16"), balance(left=20, start="01-16", rollover=True)]

    found = draw_down([line(1, 62, type="STANDING_CHARGE")], sources, TERMS)

    assert [(each.source.rollover, str(each.amount)) for each in found.draws] == [
        (False, "30.00"),
        (True, "20.00"),
    ]


def test_what_a_balance_draws_is_gone_for_its_rollover():
    sources = [balance(left=50, end="01-16"), balance(left=40, start="01-16", rollover=True)]

    found = draw_down([line(1, 62, type="STANDING_CHARGE")], sources, TERMS)

    # 30 of the first days, and the 20 that are left; at most 40 would have been carried over.
    assert [str(each.amount) for each in found.draws] == ["30.00", "20.00"]
    assert rest(found) == ["0.00", "12.00"]


def test_an_overdraft_leaves_a_rollover_what_was_carried_over():
    sources = [
        balance(left=-5, end="01-16", overdraft=True),
        balance(left=0, start="01-16", rollover=True),
    ]

    found = draw_down([line(1, 62, type="STANDING_CHARGE")], sources, TERMS)

    assert [(each.source.rollover, str(each.amount)) for each in found.draws] == [(False, "30.00")]
