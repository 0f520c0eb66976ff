from datetime import UTC, date, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.calendar.recurrence import (
    Recurrence,
    ScheduleFrequency,
    cron_times,
    instants,
    parse_cron,
    periods,
    shortest_gap,
)
from meterlake.model.errors import Invalid
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


@pytest.mark.parametrize(
    "text",
    [
        "",
        "* * * *",
        "* * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "0 0 0 * *",
        "0 0 32 * *",
        "0 0 * 13 *",
        "0 0 * * 8",
        "0 0 * * FOO",
        "*/0 * * * *",
        "5-1 * * * *",
        "*-5 * * * *",
        "1,,2 * * * *",
        "-1 * * * *",
        "0 0 31 FEB *",
        "0 0 30,31 2 *",
        "@daily",
        "0 0 */15 * MON#2",
        f"*/{'9' * 4990} * * * *",
    ],
)
def test_what_is_no_expression_is_refused(text):
    with pytest.raises(Invalid, match="cronExpression"):
        parse_cron("cronExpression", text)


@pytest.mark.parametrize(
    ("text", "gap"),
    [
        ("* * * * *", 1),
        ("*/14 * * * *", 4),
        ("*/15 * * * *", 15),
        ("0,15,30,45 * * * *", 15),
        ("5/30 * * * *", 30),
        ("0 * * * *", 60),
        ("0,50 * * * *", 10),
        ("0,50 9-10/1 * * *", 10),
        ("0 6 * * *", 24 * 60),
        ("0 0,23 * * *", 60),
        ("0 6 29 2 *", 24 * 60),
        ("0 6 31 2 mon", 24 * 60),
        ("0 6 ? JAN-MAR mon-fri", 24 * 60),
    ],
)
def test_the_shortest_gap_counts_from_hour_to_hour_and_over_midnight(text, gap):
    assert shortest_gap(parse_cron("cronExpression", text)) == gap


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("60 * * * *", "bad minute"),
        ("0 24 * * *", "bad hour"),
        ("0 0 32 * *", "bad day-of-month"),
        ("0 0 * FOO *", "bad month"),
        ("0 0 * * 8", "bad day-of-week"),
        ("0 0 * *", "wrong number of fields"),
    ],
)
def test_the_field_that_is_wrong_is_named(text, fault):
    with pytest.raises(Invalid, match=f"such as 0 6 .* MON; this has a {fault}"):
        parse_cron("cronExpression", text)


START = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 * * 7", [1, 8, 15]),
        ("0 0 * * SUN", [1, 8, 15]),
        ("0 0 */10 * *", [1, 11, 21]),
        # Where both days are given one is enough; of a * with a step, both have to hold.
        ("0 0 3 * MON", [2, 3, 9]),
        ("0 0 */2 * MON", [9, 23]),
        ("0 0 ? * MON", [2, 9, 16]),
        ("0 0 L * ?", [30]),
        ("0 0 * * MON#2", [9]),
    ],
)
def test_days_are_those_of_crontab(text, days):
    due = cron_times(text, START - timedelta(minutes=1), START.replace(day=30))
    assert [each.day for each in islice(due, 3)] == days


def in_words(numbers):
    return ",".join(map(str, sorted(numbers)))


ZONES = ("UTC", "America/Sao_Paulo", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu")


@given(
    st.sets(st.integers(0, 59), min_size=1, max_size=4),
    st.sets(st.integers(0, 23), min_size=1, max_size=4),
    st.sets(st.integers(0, 6), min_size=1),
    st.datetimes(datetime(2017, 1, 1), datetime(2030, 1, 1)),
    st.sampled_from(ZONES).map(ZoneInfo),
)
def test_it_is_due_in_utc_whatever_the_clocks_of_the_asker_do(
    minutes, hours, weekdays, moment, zone
):
    after = moment.replace(tzinfo=zone)
    text = f"{in_words(minutes)} {in_words(hours)} * * {in_words(weekdays)}"

    due = list(cron_times(text, after, after + timedelta(days=1)))

    first = after.astimezone(UTC).replace(second=0, microsecond=0)
    every = (first + timedelta(minutes=each) for each in range(24 * 60 + 1))
    assert due == [
        each
        for each in every
        if after < each <= after + timedelta(days=1)
        and (each.minute in minutes and each.hour in hours and each.isoweekday() % 7 in weekdays)
    ]
