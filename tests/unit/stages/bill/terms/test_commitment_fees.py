"""What is billed of a commitment's amount, for which time and on which bill date."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

from meterlake.model.bills.billing_dates import BillingCycle
from meterlake.model.calendar.recurrence import Recurrence, ScheduleFrequency
from meterlake.model.customers.contracts import CommitmentFee
from meterlake.model.values.period import Period
from meterlake.stages.bill.periods.service_periods import Every
from meterlake.stages.bill.terms.commitment_fees import (
    FeeTerms,
    PlanSpan,
    dated_instalments,
    plan_instalments,
)

D = Decimal
MONTHLY = BillingCycle(Recurrence(ScheduleFrequency.MONTHLY, 1, date(2026, 1, 1)))


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def span(start, end="2099-01-01", cycle=MONTHLY):
    return PlanSpan(Period(at(start), at(end)), cycle)


def terms(start, end, amount, **more):
    return FeeTerms(Period(at(start), at(end)), D(amount), 2, **more)


def fees(what, *spans):
    found = plan_instalments(what, spans or [span("2026-01-01")], UTC)
    return [
        (
            f"{each.bill_date:%y-%m-%d}",
            f"{each.service_period.start:%m-%d}",
            f"{each.service_period.end:%m-%d}",
            str(each.amount),
        )
        for each in found
    ]


def test_a_year_is_billed_in_twelve_equal_fees():
    found = fees(terms("2026-01-01", "2027-01-01", 15000))

    assert len(found) == 12
    assert {amount for *_, amount in found} == {"1250.00"}
    assert found[0] == ("26-02-01", "01-01", "02-01", "1250.00")
    assert found[-1] == ("27-01-01", "12-01", "01-01", "1250.00")


def test_without_a_plan_there_is_no_fee():
    what = terms("2026-01-01", "2027-01-01", 15000)

    assert plan_instalments(what, [], UTC) == []
    assert plan_instalments(what, [span("2027-01-01")], UTC) == []


def test_cents_go_to_the_earliest_fees():
    found = fees(terms("2026-01-01", "2026-04-01", "100.00"))

    assert [amount for *_, amount in found] == ["33.34", "33.33", "33.33"]


def test_what_was_paid_before_is_not_billed_and_the_first_bill_carries_its_own_part():
    what = terms("2026-01-01", "2026-04-01", 1000, pre_paid=D(100), first_bill=D(300))

    assert [amount for *_, amount in fees(what)] == ["500.00", "200.00", "200.00"]


def test_all_of_it_paid_before_leaves_no_fee():
    assert fees(terms("2026-01-01", "2026-04-01", 1000, pre_paid=D(1000))) == []


def test_the_first_bill_alone_is_one_fee():
    what = terms("2026-01-01", "2026-04-01", 1000, pre_paid=D(400), first_bill=D(600))

    assert fees(what) == [("26-02-01", "01-01", "02-01", "600.00")]


def test_a_partial_period_counts_its_days():
    # 16 of 31 days, one whole month.
    found = fees(terms("2026-01-16", "2026-03-01", 470))

    assert found == [
        ("26-02-01", "01-16", "02-01", "160.00"),
        ("26-03-01", "02-01", "03-01", "310.00"),
    ]


def test_the_whole_amount_is_billed_even_if_the_plan_holds_for_a_part_of_the_time():
    what = terms("2026-01-01", "2027-01-01", 1200)

    found = fees(what, span("2026-02-01", "2026-04-01"))

    assert found == [
        ("26-03-01", "02-01", "03-01", "600.00"),
        ("26-04-01", "03-01", "04-01", "600.00"),
    ]


def test_in_advance_the_first_part_stands_on_the_next_bill():
    what = terms("2026-01-16", "2026-03-01", 470, in_advance=True)

    assert [each[:2] for each in fees(what)] == [("26-02-01", "01-16"), ("26-02-01", "02-01")]


def test_in_advance_what_begins_with_a_bill_date_stands_on_that_bill():
    what = terms("2026-01-01", "2026-03-01", 470, in_advance=True)

    assert [each[0] for each in fees(what)] == ["26-01-01", "26-02-01"]


@pytest.mark.parametrize(
    ("every", "dates"),
    [
        (Every(3, 0), ["26-02-01", "26-05-01"]),
        (Every(3, 2), ["26-04-01", "26-07-01"]),
        # The plan has bills after the commitment.
        (Every(3, 4), ["26-06-01", "26-09-01"]),
    ],
)
def test_a_group_stands_on_the_bill_that_the_offset_says(every, dates):
    found = fees(terms("2026-01-01", "2026-07-01", 600, every=every))

    assert [each[0] for each in found] == dates
    assert [each[1:] for each in found] == [
        ("01-01", "04-01", "300.00"),
        ("04-01", "07-01", "300.00"),
    ]


def test_a_group_whose_bill_comes_after_the_plan_stands_on_its_last_bill():
    what = terms("2026-01-01", "2026-07-01", 600, every=Every(3, 2))

    # The second group has 30 of 91 days: 120 : 30/91·120.
    found = fees(what, span("2026-01-01", "2026-05-01"))

    assert found == [
        ("26-04-01", "01-01", "04-01", "451.24"),
        ("26-05-01", "04-01", "05-01", "148.76"),
    ]


def test_account_plans_that_follow_each_other_share_a_fee_period():
    what = terms("2026-01-01", "2026-03-01", 200)

    found = fees(what, span("2026-01-16"), span("2026-01-01", "2026-01-16"))

    assert [each[1:] for each in found] == [
        ("01-01", "02-01", "100.00"),
        ("02-01", "03-01", "100.00"),
    ]


def test_a_gap_in_a_fee_period_is_not_paid_for():
    what = terms("2026-01-01", "2026-03-01", 520)

    found = fees(what, span("2026-01-01", "2026-01-16"), span("2026-01-26"))

    # 15 and 6 of 31 days, and a whole month.
    assert found == [
        ("26-02-01", "01-01", "01-16", "150.00"),
        ("26-02-01", "01-26", "02-01", "60.00"),
        ("26-03-01", "02-01", "03-01", "310.00"),
    ]


def test_the_epoch_of_the_commitment_counts_its_fee_periods_on_the_bills_of_the_plan():
    what = terms("2026-01-15", "2026-04-15", 300, bill_epoch=date(2026, 1, 15))

    assert fees(what) == [
        ("26-03-01", "01-15", "02-15", "100.00"),
        ("26-04-01", "02-15", "03-15", "100.00"),
        ("26-05-01", "03-15", "04-15", "100.00"),
    ]


def test_groups_are_counted_from_the_epoch_of_the_commitment():
    what = terms("2026-01-15", "2026-05-15", 400, bill_epoch=date(2026, 2, 15), every=Every(2, 0))

    # 31 of 62 days, 59 of 59, 30 of 61.
    assert fees(what) == [
        ("26-02-01", "01-15", "02-15", "100.41"),
        ("26-04-01", "02-15", "04-15", "200.82"),
        ("26-06-01", "04-15", "05-15", "98.77"),
    ]


def test_groups_begin_with_the_plan_also_if_the_commitment_begins_later():
    what = terms("2026-02-01", "2026-07-01", 500, every=Every(3, 0))

    found = fees(what, span("2026-01-01"))

    # 59 of 90 days, then a whole group.
    assert [each[1:3] for each in found] == [("02-01", "04-01"), ("04-01", "07-01")]
    assert [each[0] for each in found] == ["26-02-01", "26-05-01"]


def test_a_long_first_billing_period_carries_all_fees_that_begin_in_it():
    cycle = BillingCycle(
        Recurrence(ScheduleFrequency.MONTHLY, 1, date(2026, 3, 1)), begin=date(2026, 1, 1)
    )
    what = terms("2026-01-01", "2026-04-01", 300)

    found = fees(what, span("2026-01-01", cycle=cycle))

    assert [each[0] for each in found] == ["26-03-01", "26-03-01", "26-04-01"]


def test_more_decimals_than_the_currency_has_are_not_lost():
    found = fees(terms("2026-01-01", "2026-03-01", "10.001"))

    assert [amount for *_, amount in found] == ["5.001", "5.000"]


def test_fee_dates_are_fees_as_they_are():
    dates = [
        CommitmentFee(
            date=date(2026, month, 1),
            amount=D(month),
            service_period_start_date=at(f"2026-0{month}-01"),
            service_period_end_date=at(f"2026-0{month + 1}-01"),
        )
        for month in (5, 2)
    ]

    assert [(each.bill_date, each.amount) for each in dated_instalments(dates)] == [
        (date(2026, 2, 1), D(2)),
        (date(2026, 5, 1), D(5)),
    ]


def test_groups_are_counted_from_the_plans_start_where_a_contract_limits_what_is_charged():
    """Quarters from January on, a contract from 15 February to 15 May: 45 of 90 and 44 of 91 days."""
    limited = span("2026-01-01")._replace(limit=Period(at("2026-02-15"), at("2026-05-15")))
    what = terms("2026-01-01", "2027-01-01", 89, every=Every(3, 2))

    assert fees(what, limited) == [
        ("26-04-01", "02-15", "04-01", "45.25"),
        ("26-07-01", "04-01", "05-15", "43.75"),
    ]


def test_a_limited_account_plan_parts_no_others():
    """10 of 31 days of January beside January and February of two account plans that are one."""
    begin = span("2026-01-01")
    limited = span("2026-01-10")._replace(limit=Period(at("2026-01-10"), at("2026-01-20")))
    follows = span("2026-02-01")

    found = fees(terms("2026-01-01", "2026-03-01", 720), begin, limited, follows)

    assert [each[1:] for each in found] == [
        ("01-01", "02-01", "310.00"),
        ("01-10", "01-20", "100.00"),
        ("02-01", "03-01", "310.00"),
    ]
