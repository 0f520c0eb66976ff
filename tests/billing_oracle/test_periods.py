"""Laws of days and periods."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.billing_oracle.periods import Clock, Grid, zone_of
from tests.laws import examples

GRIDS = st.builds(
    Grid,
    st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "ANNUALLY"]),
    st.integers(1, 7),
    st.dates(date(2019, 1, 1), date(2025, 12, 31)),
)
DAYS = st.dates(date(2018, 1, 1), date(2026, 12, 31))
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "America/Havana", "UTC+5:30"])
INSTANTS = st.datetimes(datetime(2021, 1, 1), datetime(2023, 1, 1), timezones=st.just(UTC))


@settings(max_examples=examples(60), deadline=None)
@given(GRIDS, DAYS)
def test_every_day_is_in_one_period(grid: Grid, day: date) -> None:
    number = grid.index(day)
    assert grid.start(number) <= day < grid.start(number + 1)
    assert grid.index(grid.start(number)) == number
    assert grid.index_from(day) in (number, number + 1)
    assert grid.start(grid.index_from(day)) >= day


@settings(max_examples=examples(60), deadline=None)
@given(ZONES, INSTANTS, INSTANTS, INSTANTS)
def test_days_of_what_follows_each_other_add_up(
    zone: str, one: datetime, two: datetime, three: datetime
) -> None:
    clock = Clock(zone_of(zone))
    start, middle, end = sorted((one, two, three))
    assert clock.days(start, middle) + clock.days(middle, end) == clock.days(start, end)


def test_midnights_of_a_zone_that_skips_midnight_are_first_instants_of_days() -> None:
    """Havana goes from 00:00 to 01:00 on 2022-03-13, and from 01:00 back to 00:00 on 2022-11-06."""
    clock = Clock(zone_of("America/Havana"))
    for day in (date(2022, 3, 13), date(2022, 11, 6)):
        first = clock.midnight(day)
        assert clock.local_day(first) == day
        assert clock.local_day(first - timedelta(microseconds=1)) == day - timedelta(days=1)


@pytest.mark.parametrize(
    ("name", "hours"), [("UTC+1:00", 1), ("GMT+1:00", 1), ("GMT+1", 1), ("+1:00", 1), ("-3", -3)]
)
def test_zones_are_offsets_too(name: str, hours: int) -> None:
    assert zone_of(name).utcoffset(None) == timedelta(hours=hours)


def test_an_epoch_on_the_31st_is_the_last_day_of_shorter_months() -> None:
    grid = Grid("MONTHLY", 1, date(2022, 1, 31))
    assert [grid.start(n).isoformat()[5:] for n in range(5)] == [
        "01-31",
        "02-28",
        "03-31",
        "04-30",
        "05-31",
    ]
    assert Grid("ANNUALLY", 1, date(2020, 2, 29)).start(1) == date(2021, 2, 28)
    assert Grid("ANNUALLY", 1, date(2020, 2, 29)).start(4) == date(2024, 2, 29)
