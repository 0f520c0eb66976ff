from datetime import date, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.catalog.plans import BillingFrequency
from meterlake.model.configuration.organization import OrganizationConfig
from meterlake.model.customers.recurring_period import (
    RECURRING,
    NamedPeriod,
    PeriodSpec,
    containing,
    epoch_of,
    parse_day,
    recurring,
)
from meterlake.model.errors import Invalid
from meterlake.model.values.period import Month, Period, format_instant, local_date, midnight, zone

DAILY, WEEKLY, MONTHLY, ANNUALLY = RECURRING
DAY = timedelta(days=1)
# Clocks that go by half an hour, that skip or repeat midnight, that skipped a whole day.
ZONES = (
    *("UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca", "America/Santiago"),
    *("Pacific/Apia", "America/Havana", "Asia/Kathmandu", "UTC+5:30"),
)
frequencies = st.sampled_from(RECURRING)
zones = st.sampled_from(ZONES).map(zone)
dates = st.dates(date(1950, 1, 1), date(2100, 12, 31))
intervals = st.integers(1, 365)


@given(frequencies, intervals, dates, dates)
def test_a_period_contains_the_day_that_was_asked_for(frequency, interval, epoch, day):
    found = containing(recurring(frequency, epoch, interval), day)

    assert found.first <= day < found.after
    assert found.frequency == frequency


@given(frequencies, intervals, dates, dates, zones)
def test_periods_tile_time_without_gap_or_overlap(frequency, interval, epoch, day, tz):
    cycle = recurring(frequency, epoch, interval)
    middle = containing(cycle, day)
    row = [containing(cycle, middle.first - DAY), middle, containing(cycle, middle.after)]

    for one, following in pairwise(row):
        assert one.after == following.first
        assert one.period(tz).end == following.period(tz).start
    assert all(containing(cycle, each.after - DAY) == each for each in row)


@given(frequencies, intervals, dates, dates, zones)
def test_the_instant_at_which_a_day_begins_is_in_the_day_s_period(
    frequency, interval, epoch, day, tz
):
    period = containing(recurring(frequency, epoch, interval), day).period(tz)
    begins = midnight(day, tz)

    assert begins in period or period.start == period.end == begins
    assert begins - timedelta(microseconds=1) not in Period(begins, period.end)


@given(frequencies, dates, dates)
def test_an_epoch_is_the_first_day_of_a_period_and_any_other_such_day_may_be_the_epoch(
    frequency, epoch, day
):
    cycle = recurring(frequency, epoch)
    found = containing(cycle, day)

    assert containing(cycle, epoch).first == epoch
    if found.first.day == epoch.day or frequency in {DAILY, WEEKLY}:
        assert containing(recurring(frequency, found.first), found.first) == found


@given(frequencies, dates, dates, dates, intervals)
def test_every_own_period_begins_within_exactly_one_of_the_organization(
    frequency, epoch, own_epoch, day, interval
):
    whole = recurring(frequency, epoch)
    own = containing(recurring(frequency, own_epoch, interval), day)
    home = containing(whole, own.first)
    around = (containing(whole, home.first - DAY), home, containing(whole, home.after))

    assert [each.first <= own.first < each.after for each in around] == [False, True, False]


@pytest.mark.parametrize(
    ("cycle", "day", "first", "after", "name"),
    [
        ((DAILY, 1, "2022-01-01"), "2024-02-29", "2024-02-29", "2024-03-01", "2024-02-29"),
        ((DAILY, 10, "2022-01-01"), "2022-01-25", "2022-01-21", "2022-01-31", "2022-01-21"),
        ((WEEKLY, 1, "2022-01-15"), "2026-10-01", "2026-09-26", "2026-10-03", "2026-09-26"),
        ((WEEKLY, 2, "2022-01-04"), "2022-01-03", "2021-12-21", "2022-01-04", "2021-12-21"),
        ((MONTHLY, 1, "2022-01-01"), "2026-10-31", "2026-10-01", "2026-11-01", "2026-10"),
        ((MONTHLY, 1, "2022-01-15"), "2026-10-14", "2026-09-15", "2026-10-15", "2026-09"),
        ((MONTHLY, 3, "2022-02-15"), "2022-02-14", "2021-11-15", "2022-02-15", "2021-11"),
        ((MONTHLY, 1, "2022-01-31"), "2026-02-28", "2026-02-28", "2026-03-31", "2026-02"),
        ((MONTHLY, 1, "2022-01-31"), "2026-02-27", "2026-01-31", "2026-02-28", "2026-01"),
        ((MONTHLY, 1, "2022-01-30"), "2024-02-29", "2024-02-29", "2024-03-30", "2024-02"),
        ((MONTHLY, 1, "2022-01-29"), "2026-04-30", "2026-04-29", "2026-05-29", "2026-04"),
        ((ANNUALLY, 1, "2023-01-01"), "2022-06-01", "2022-01-01", "2023-01-01", "2022"),
        ((ANNUALLY, 1, "2024-02-29"), "2025-02-28", "2025-02-28", "2026-02-28", "2025"),
        ((ANNUALLY, 1, "2024-02-29"), "2028-02-28", "2027-02-28", "2028-02-29", "2027"),
        ((ANNUALLY, 2, "2023-04-01"), "2026-03-31", "2025-04-01", "2027-04-01", "2025"),
    ],
)
def test_periods_are_counted_from_their_epoch(cycle, day, first, after, name):
    frequency, interval, epoch = cycle
    counted = recurring(frequency, date.fromisoformat(epoch), interval)
    found = containing(counted, date.fromisoformat(day))

    assert (str(found.first), str(found.after), found.name) == (first, after, name)


@pytest.mark.parametrize(
    ("name", "frequency", "day", "start", "end", "hours"),
    [
        # The night of New York has 23 hours in spring and 25 in autumn.
        ("America/New_York", DAILY, "2026-03-08", "05:00:00", "04:00:00", 23),
        ("America/New_York", DAILY, "2026-11-01", "04:00:00", "05:00:00", 25),
        ("America/New_York", MONTHLY, "2026-03-08", "05:00:00", "04:00:00", 31 * 24 - 1),
        ("America/New_York", ANNUALLY, "2026-03-08", "05:00:00", "05:00:00", 365 * 24),
        # Lord Howe moves its clocks by half an hour.
        ("Australia/Lord_Howe", DAILY, "2026-10-04", "13:30:00", "13:00:00", 23.5),
        ("Australia/Lord_Howe", DAILY, "2026-04-05", "13:00:00", "13:30:00", 24.5),
        ("Australia/Lord_Howe", WEEKLY, "2026-10-04", "13:30:00", "13:00:00", 7 * 24 - 0.5),
        ("Australia/Lord_Howe", MONTHLY, "2026-10-04", "13:30:00", "13:00:00", 31 * 24 - 0.5),
        # In Santiago midnight is skipped in spring, and the hour before it repeated in autumn.
        ("America/Santiago", DAILY, "2026-09-06", "04:00:00", "03:00:00", 23),
        ("America/Santiago", DAILY, "2026-04-04", "03:00:00", "04:00:00", 25),
        ("America/Santiago", MONTHLY, "2026-09-06", "04:00:00", "03:00:00", 30 * 24 - 1),
        # Casablanca goes back for the month of Ramadan.
        ("Africa/Casablanca", DAILY, "2026-02-15", "23:00:00", "00:00:00", 25),
        ("Africa/Casablanca", DAILY, "2026-03-22", "00:00:00", "23:00:00", 23),
        # Samoa had no 30 December 2011; the day is there, and empty.
        ("Pacific/Apia", DAILY, "2011-12-30", "10:00:00", "10:00:00", 0),
        ("Pacific/Apia", MONTHLY, "2011-12-30", "10:00:00", "10:00:00", 30 * 24),
    ],
)
def test_what_the_clocks_do_is_in_the_period_s_length(name, frequency, day, start, end, hours):
    tz, asked = zone(name), date.fromisoformat(day)
    found = containing(recurring(frequency, date(2022, 1, 1)), asked)
    period = found.period(tz)

    assert format_instant(period.start)[11:-1] == start
    assert format_instant(period.end)[11:-1] == end
    assert period.end - period.start == timedelta(hours=hours)
    assert local_date(period.start, tz) >= found.first
    assert local_date(period.end, tz) == found.after


def test_a_timestamp_on_the_boundary_belongs_to_the_later_period():
    tz = zone("America/Santiago")
    cycle = recurring(DAILY, date(2022, 1, 1))
    before, after = (containing(cycle, date(2026, 9, day)).period(tz) for day in (5, 6))
    boundary = datetime.fromisoformat("2026-09-06T04:00:00Z")

    assert (boundary in before, boundary in after) == (False, True)
    last = boundary - timedelta(microseconds=1)
    assert (last in before, last in after) == (True, False)


def test_organizations_have_an_epoch_for_each_frequency():
    organization = OrganizationConfig(days_before_bill_due=30)

    assert [epoch_of(each, organization) for each in RECURRING] == [
        date(2022, 1, 1),
        date(2022, 1, 4),
        date(2022, 1, 1),
        date(2022, 1, 1),
    ]


def test_a_month_is_the_period_that_begins_in_it():
    asked = PeriodSpec.month(Month(2026, 2))
    for epoch, first in ((1, 1), (15, 15), (28, 28), (29, 28), (31, 28)):
        organization = OrganizationConfig(days_before_bill_due=30, month_epoch=date(2022, 1, epoch))
        found = asked.of(organization)

        assert (found.first, found.name) == (date(2026, 2, first), "2026-02")


def test_an_ad_hoc_period_has_the_days_that_were_asked_for():
    found = PeriodSpec.between(date(2026, 10, 5), date(2026, 10, 12)).of(
        OrganizationConfig(days_before_bill_due=30)
    )

    assert found == NamedPeriod(BillingFrequency.AD_HOC, date(2026, 10, 5), date(2026, 10, 12))
    assert found.name == "2026-10-05/2026-10-12"
    for after in (date(2026, 10, 5), date(2026, 10, 4)):
        with pytest.raises(Invalid, match="a day after 2026-10-05"):
            PeriodSpec.between(date(2026, 10, 5), after)


@pytest.mark.parametrize("frequency", [BillingFrequency.AD_HOC, BillingFrequency.MIXED])
def test_what_does_not_come_again_contains_no_day(frequency):
    with pytest.raises(Invalid, match="daily, weekly, monthly, annually"):
        PeriodSpec.on(frequency, date(2026, 10, 1))


@pytest.mark.parametrize("day", [date.min, date(999, 12, 31), date(9000, 1, 1), date.max])
def test_days_at_the_ends_of_the_calendar_are_in_no_period(day):
    with pytest.raises(Invalid, match="years 1000 to 8999"):
        PeriodSpec.on(DAILY, day).of(OrganizationConfig(days_before_bill_due=30))


def test_days_are_read_as_people_write_them():
    assert parse_day("on", "2024-02-29") == date(2024, 2, 29)


@pytest.mark.parametrize(
    "text", ["", "2026-02-29", "20261005", "2026-W40-1", "2026-10-5", "٢٠٢٦-10-05", "2026-10-05\n"]
)
def test_what_is_no_day_is_refused(text):
    with pytest.raises(Invalid, match="on"):
        parse_day("on", text)


@given(frequencies, dates, dates)
def test_a_name_leads_back_to_its_period(frequency, epoch, day):
    field = {DAILY: "day_epoch", WEEKLY: "week_epoch", MONTHLY: "month_epoch"}
    organization = OrganizationConfig(
        days_before_bill_due=30, **{field.get(frequency, "year_epoch"): epoch}
    )
    found = PeriodSpec.on(frequency, day).of(organization)

    assert PeriodSpec.named(frequency, found.name).of(organization) == found


def test_so_does_the_name_of_an_ad_hoc_period():
    found = PeriodSpec.between(date(2026, 10, 5), date(2026, 10, 12)).of(
        OrganizationConfig(days_before_bill_due=30)
    )

    assert PeriodSpec.named(found.frequency, found.name).after == found.after
    for name in ("2026-10-05", "2026-10/2026-11", "2026-10-05/2026-10-05"):
        with pytest.raises(Invalid):
            PeriodSpec.named(found.frequency, name)
