from datetime import UTC, date, datetime
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.calendar.recurrence import Recurrence, ScheduleFrequency, instants, periods
from meterlake.model.values.period import Period, zone

BERLIN = zone("Europe/Berlin")
frequencies = st.sampled_from(list(ScheduleFrequency))
days = st.dates(date(1900, 1, 1), date(2200, 12, 31))


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("frequency", "interval", "number", "day"),
    [
        ("DAILY", 1, 1, date(2026, 2, 1)),
        ("WEEKLY", 2, 1, date(2026, 2, 14)),
        ("MONTHLY", 1, 1, date(2026, 2, 28)),
        ("MONTHLY", 1, 2, date(2026, 3, 31)),
        ("MONTHLY", 3, -1, date(2025, 10, 31)),
        ("ANNUALLY", 1, 2, date(2028, 1, 31)),
        ("ANNUALLY", 365, 365, date.max),
        ("DAILY", 365, -10_000, date.min),
        ("MONTHLY", 365, -1000, date.min),
    ],
)
def test_days_are_counted_from_the_anchor(frequency, interval, number, day):
    recurrence = Recurrence(ScheduleFrequency(frequency), interval, date(2026, 1, 31))

    assert recurrence.day(number) == day


@given(frequencies, st.integers(1, 365), days, days)
def test_the_first_day_after_a_day_is_the_first_one(frequency, interval, anchor, day):
    recurrence = Recurrence(frequency, interval, anchor)
    number = recurrence.number_after(day)

    assert recurrence.day(number - 1) <= day < recurrence.day(number)


def test_a_period_is_cut_at_the_midnights_of_its_days():
    whole = Period(at("2026-01-15T00:00"), at("2026-03-10T00:00"))
    monthly = Recurrence(ScheduleFrequency.MONTHLY, 1, date(2022, 1, 1))

    assert [str(part) for part in periods(whole, monthly, BERLIN)] == [
        "[2026-01-15T00:00:00Z, 2026-01-31T23:00:00Z)",
        "[2026-01-31T23:00:00Z, 2026-02-28T23:00:00Z)",
        "[2026-02-28T23:00:00Z, 2026-03-10T00:00:00Z)",
    ]


@given(frequencies, st.integers(1, 30), days, days, st.integers(1, 500), st.integers(0, 5))
def test_parts_add_up_and_may_be_passed_over(frequency, interval, anchor, start, length, skip):
    begin = datetime(start.year, start.month, start.day, 5, tzinfo=UTC)
    whole = Period(begin, datetime.fromtimestamp(begin.timestamp() + length * 80_000, UTC))
    recurrence = Recurrence(frequency, interval, anchor)
    parts = list(periods(whole, recurrence, BERLIN))

    assert [parts[0].start, *(part.end for part in parts)] == [
        *(part.start for part in parts),
        whole.end,
    ]
    assert list(periods(whole, recurrence, BERLIN, skip)) == parts[skip:]


def test_instants_keep_the_time_of_the_day_when_the_clocks_change():
    whole = Period(at("2026-01-31T11:30"), at("2026-04-30T10:30"))

    found = list(instants(whole, ScheduleFrequency.MONTHLY, 1, BERLIN))

    assert found == [at("2026-01-31T11:30"), at("2026-02-28T11:30"), at("2026-03-31T10:30")]
    assert list(instants(whole, ScheduleFrequency.MONTHLY, 1, BERLIN, 2)) == found[2:]


def test_instants_end_with_the_calendar():
    whole = Period(at("9998-01-01T20:00"), at("9998-12-31T00:00"))

    assert len(list(instants(whole, ScheduleFrequency.ANNUALLY, 365, zone("-5")))) == 1


def test_a_long_schedule_is_not_walked_through():
    whole = Period(at("0100-01-01T00:00"), at("9000-01-01T00:00"))

    assert len(list(islice(instants(whole, ScheduleFrequency.DAILY, 1, BERLIN, 3_000_000), 2))) == 2
