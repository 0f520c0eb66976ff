"""When there is a bill: the printed pairs of epochs and bill dates."""

import pytest

from tests.billing_oracle.shop import START, Entity, bill_of, billing, dates, lines, shop


def test_month_epoch_gives_bills_on_the_15th() -> None:
    ended: Entity = {"endDate": "2022-06-30T00:00:00Z"}
    world = shop(organization={"monthEpoch": "2022-01-15"}, account_plan=ended)
    expected = [f"2022-{month:02}-15" for month in range(1, 8)]
    assert dates(world, "2023-01-01") == expected


def test_week_epoch_on_a_saturday_gives_bills_on_saturdays() -> None:
    world = shop(organization={"weekEpoch": "2022-01-15"}, template={"billFrequency": "WEEKLY"})
    assert (
        dates(world, "2022-01-30")
        == ["2022-01-01", "2022-01-08", "2022-01-15", "2022-01-22", "2022-01-29"][1:]
    )


def test_day_epoch_gives_daily_bills() -> None:
    world = shop(organization={"dayEpoch": "2022-01-02"}, template={"billFrequency": "DAILY"})
    assert dates(world, "2022-01-05") == ["2022-01-02", "2022-01-03", "2022-01-04", "2022-01-05"]


def test_year_epoch_gives_bills_on_its_day_of_the_year() -> None:
    ended: Entity = {"endDate": "2028-01-15T00:00:00Z"}
    world = shop(
        organization={"yearEpoch": "2023-01-01"},
        template={"billFrequency": "ANNUALLY"},
        account_plan=ended,
    )
    assert dates(world, "2030-01-01") == [f"{year}-01-01" for year in range(2023, 2030)]


def test_bill_epoch_is_the_first_bill_date() -> None:
    ended: Entity = {"billEpoch": "2022-02-15", "endDate": "2022-05-15T00:00:00Z"}
    assert dates(shop(account_plan=ended)) == [
        "2022-02-15",
        "2022-03-15",
        "2022-04-15",
        "2022-05-15",
    ]


def test_a_first_long_period_has_a_standing_charge_for_each_regular_period() -> None:
    """Of 310 a month: 14 of the 31 days from 15 December, and a whole month."""
    world = shop(template={"standingCharge": 310}, account_plan={"billEpoch": "2022-02-15"})
    assert lines(world, "2022-02-15") == [("STANDING_CHARGE", "140"), ("STANDING_CHARGE", "310")]


def test_in_advance_nothing_is_billed_before_the_first_bill_date() -> None:
    world = shop(
        template={"standingCharge": 310, "standingChargeBillInAdvance": True},
        account_plan={"billEpoch": "2022-02-15"},
    )
    assert dates(world, "2022-02-20") == ["2022-02-15"]
    assert [text for _, text in lines(world, "2022-02-15")] == ["140", "310", "310"]


def test_the_epoch_of_the_plan_comes_before_that_of_the_account() -> None:
    account: Entity = {"billEpoch": "2022-02-10"}
    assert dates(shop(account=account), "2022-03-01") == ["2022-02-10"]
    own: Entity = {"billEpoch": "2022-02-15"}
    assert dates(shop(account=account, account_plan=own), "2022-03-01") == ["2022-02-15"]


def test_a_plan_that_begins_after_its_epoch_has_regular_periods() -> None:
    own: Entity = {"billEpoch": "2021-02-15", "startDate": "2022-01-20T00:00:00Z"}
    assert dates(shop(account_plan=own), "2022-03-20") == ["2022-02-15", "2022-03-15"]


def test_a_plan_that_starts_on_a_bill_date_has_a_bill_that_day_if_anything_is_in_advance() -> None:
    advance: Entity = {"standingCharge": 100, "standingChargeBillInAdvance": True}
    assert dates(shop(template=advance), "2022-02-01") == ["2022-01-01", "2022-02-01"]
    assert dates(shop(template={"standingCharge": 100}), "2022-02-01") == ["2022-02-01"]
    nothing: Entity = {"standingChargeBillInAdvance": True}
    assert dates(shop(template=nothing), "2022-02-01") == ["2022-02-01"]


def test_a_plan_that_starts_in_mid_period_has_its_first_part_and_the_next_period_on_one_bill() -> (
    None
):
    world = shop(
        template={"standingCharge": 310, "standingChargeBillInAdvance": True},
        account_plan={"startDate": "2022-01-22T00:00:00Z"},
    )
    assert dates(world, "2022-02-01") == ["2022-02-01"]
    assert [text for _, text in lines(world, "2022-02-01")] == ["100", "310"]


@pytest.mark.parametrize(
    ("advance", "offset", "expected"),
    [
        (False, 0, ["2022-04-01", "2022-10-01"]),
        (False, 1, ["2022-07-01", "2023-01-01"]),
        (False, 2, ["2022-10-01", "2023-01-01"]),
        (True, 0, ["2022-01-01", "2022-07-01"]),
        (True, 1, ["2022-04-01", "2022-10-01"]),
        (True, 3, ["2022-10-01", "2023-01-01"]),
    ],
)
def test_every_second_quarterly_bill_charges_for_six_months(
    advance: bool, offset: int, expected: list[str]
) -> None:
    """The second group's charge would be on a bill of 2023-04-01 at some offsets: the plan ends before."""
    world = shop(
        template={
            "billFrequencyInterval": 3,
            "standingCharge": 600,
            "standingChargeInterval": 2,
            "standingChargeOffset": offset,
            "standingChargeBillInAdvance": advance,
        },
        account_plan={"endDate": "2023-01-01T00:00:00Z"},
    )
    charged = [when for when in dates(world, "2024-01-01") if lines(world, when)]
    assert charged == expected
    assert [lines(world, when) for when in charged] == [[("STANDING_CHARGE", "600")]] * 2


def test_a_clipped_first_group_is_prorated_by_its_days() -> None:
    world = shop(
        template={"standingCharge": 590, "standingChargeInterval": 2},
        account_plan={"startDate": "2022-01-11T00:00:00Z"},
    )
    assert lines(world, "2022-02-01") == [("STANDING_CHARGE", "490")]
    assert lines(world, "2022-03-01") == []


def test_a_day_counts_for_what_holds_at_its_end() -> None:
    """A change at noon of the 16th, and an end in the last second of a day."""
    for end, days in (
        ("16T12:00:00", 15),
        ("15T23:59:59", 15),
        ("15T23:59:58", 14),
        ("01T23:00:00", 0),
    ):
        world = shop(template={"standingCharge": 31}, account_plan={"endDate": f"2022-01-{end}Z"})
        assert lines(world, "2022-02-01") == [("STANDING_CHARGE", str(days))] * (days > 0)


def test_a_change_at_utc_midnight_adds_up_in_another_zone() -> None:
    later: Entity = {
        "id": "ap2",
        "accountId": "acme",
        "planId": "plan",
        "startDate": "2022-01-16T00:00:00Z",
    }
    world = shop(
        organization={"timezone": "America/New_York"},
        template={"standingCharge": 31},
        account_plan={"startDate": "2021-12-01T00:00:00-05:00", "endDate": "2022-01-16T00:00:00Z"},
        account_plans=[later],
    )
    assert [text for _, text in lines(world, "2022-02-01")] == ["14", "17"]


def test_an_empty_bill_can_be_suppressed() -> None:
    assert dates(shop(), "2022-02-01") == ["2022-02-01"]
    assert dates(shop(organization={"suppressedEmptyBills": True}), "2022-02-01") == []


def test_a_job_period_holds_the_bills_whose_last_day_it_contains() -> None:
    found = billing(shop(), after="2022-03-01", first_day="2022-02-01").bills
    assert [str(bill.date) for bill in found] == ["2022-03-01"]


def test_a_plan_of_frequency_ad_hoc_makes_no_bill() -> None:
    assert dates(shop(template={"billFrequency": "AD_HOC"})) == []


def test_frequencies_of_one_date_have_a_bill_each_unless_they_are_consolidated() -> None:
    weekly: Entity = {"id": "t2", "code": "t2", "productId": "product", "currency": "USD"}
    weekly |= {"billFrequency": "DAILY", "standingCharge": 1}
    more: dict[str, list[Entity]] = {
        "plan_templates": [weekly],
        "plans": [{"id": "p2", "code": "p2", "planTemplateId": "t2"}],
        "account_plans": [{"id": "ap2", "accountId": "acme", "planId": "p2", "startDate": START}],
    }
    world = shop(template={"standingCharge": 5}, **more)
    assert lines(world, "2022-02-01", frequency="DAILY") == [("STANDING_CHARGE", "1")]
    assert lines(world, "2022-02-01", frequency="MONTHLY") == [("STANDING_CHARGE", "5")]
    world = shop(organization={"consolidateBills": True}, template={"standingCharge": 5}, **more)
    found = bill_of(world, "2022-02-01")
    assert (found.frequency, found.interval, str(found.total)) == ("MIXED", None, "6")
