from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from meterlake.model.errors import Invalid
from meterlake.model.values.period import (
    Month,
    Period,
    count_days,
    format_instant,
    local_date,
    midnight,
    parse_instant,
    share,
    zone,
)

BERLIN = zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-10-01T00:00:00Z", "2026-10-01T00:00:00Z"),
        ("2026-10-01 00:00", "2026-10-01T00:00:00Z"),
        ("2026-10-01T02:00:00+02:00", "2026-10-01T00:00:00Z"),
        ("2026-10-01T02:00:00+0200", "2026-10-01T00:00:00Z"),
        ("2026-10-01T02:00:00+02", "2026-10-01T00:00:00Z"),
        ("2026-10-01T00:00:00-18:00", "2026-10-01T18:00:00Z"),
        ("2026-10-01T00:00:00-00:00", "2026-10-01T00:00:00Z"),
        ("2026-10-01T00:00:00.5", "2026-10-01T00:00:00.500000Z"),
        ("2026-10-01T00:00:00.12", "2026-10-01T00:00:00.120000Z"),
        ("2026-10-01T00:00:00.1234", "2026-10-01T00:00:00.123400Z"),
        ("2026-10-01T00:00:00.9999999999Z", "2026-10-01T00:00:00.999999Z"),
        ("2026-10-01T00:00:00.123456789+05:30", "2026-09-30T18:30:00.123456Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.999999Z", "9999-12-31T23:59:59.999999Z"),
        ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00Z"),
    ],
)
def test_instants_are_read_in_utc_and_cut_to_microseconds(text, instant):
    read = parse_instant(text)

    assert read is not None
    assert read.tzinfo is UTC
    assert format_instant(read) == instant
    assert parse_instant(format_instant(read)) == read


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-10-01",
        "20261001T000000Z",
        "2026-W40-4T00:00:00Z",
        "2026-10-01T00Z",
        "2026-10-01T00:00:00,5Z",
        "2026-10-01T00:00:00.Z",
        "2026-10-01T24:00:00Z",
        "2026-10-01T23:59:60Z",
        "2026-10-01T00:00:00z",
        "2026-10-01t00:00:00Z",
        "2026-10-01T00:00:00+18:01",
        "2026-10-01T00:00:00+99:00",
        "2026-10-01T00:00:00 Z",
        " 2026-10-01T00:00:00Z",
        "2026-10-01T00:00:00Z\n",
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",  # before the first year
        "9999-12-31T23:59:59-01:00",  # after the last
        "٢٠٢٦-10-01T00:00:00Z",
        "12026-10-01T00:00:00Z",
    ],
)
def test_what_is_no_instant_is_none(text):
    assert parse_instant(text) is None


@pytest.mark.parametrize(
    ("name", "hours"),
    [
        ("UTC", 0),
        ("UTC+1:00", 1),
        ("GMT+1", 1),
        ("+1:00", 1),
        ("+1", 1),
        ("-9:30", -9.5),
        ("UTC-05:00", -5),
        ("+18:00", 18),
        ("GMT", 0),
        ("Europe/Berlin", 1),
        ("Asia/Kathmandu", 5.75),
    ],
)
def test_zones_have_names_or_offsets(name, hours):
    offset = zone(name).utcoffset(datetime(2026, 1, 15))

    assert offset == timedelta(hours=hours)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "Mars/Olympus",
        "Europe",
        "../etc/passwd",
        "/etc/localtime",
        "+18:30",
        "+19",
        "UTC+1:5",
        "UTC 1",
        "\x00",
        "x" * 300,
        "UTC+1:60",
    ],
)
def test_an_unknown_zone_is_refused(name):
    with pytest.raises(Invalid, match="timezone"):
        zone(name)


def test_a_period_includes_its_start_and_excludes_its_end():
    period = Period(datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))

    assert period.start in period
    assert period.end not in period
    assert str(period) == "[2026-10-01T00:00:00Z, 2026-11-01T00:00:00Z)"


def test_a_period_that_cannot_be_is_a_mistake_of_the_caller():
    early, late = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="before it starts"):
        Period(late, early)
    with pytest.raises(ValueError, match="aware"):
        Period(early.replace(tzinfo=None), late)


def test_intersections_may_be_open_and_may_be_nothing():
    at = [datetime(2026, 1, day, tzinfo=UTC) for day in range(1, 5)]
    period = Period(at[1], at[3])

    assert period.intersection(None, None) == period
    assert period.intersection(at[0], at[2]) == Period(at[1], at[2])
    assert period.intersection(at[2], None) == Period(at[2], at[3])
    assert period.intersection(at[3], None) is None
    assert period.intersection(None, at[1]) is None


@pytest.mark.parametrize("text", ["2026-13", "2026-00", "2026-1", "26-10", "0000-01", "0001-01"])
def test_what_is_no_month_is_refused(text):
    for wrong in (text, "9999-12", " 2026-10", "2026-10\n", "٢٠٢٦-10"):
        with pytest.raises(Invalid, match="month"):
            Month.parse(wrong)


def test_months_follow_each_other():
    assert Month.parse("2026-12").after == date(2027, 1, 1)
    assert Month.parse("2026-02").after == date(2026, 3, 1)
    assert str(Month.parse("0999-07")) == "0999-07"


@pytest.mark.parametrize(
    ("month", "start", "end", "hours"),
    [
        ("2026-10", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z", 31 * 24 + 1),
        ("2026-03", "2026-02-28T23:00:00Z", "2026-03-31T22:00:00Z", 31 * 24 - 1),
        ("2024-02", "2024-01-31T23:00:00Z", "2024-02-29T23:00:00Z", 29 * 24),
    ],
)
def test_a_month_begins_and_ends_at_local_midnight(month, start, end, hours):
    period = Month.parse(month).period(BERLIN)

    assert (format_instant(period.start), format_instant(period.end)) == (start, end)
    assert period.end - period.start == timedelta(hours=hours)


def test_where_the_clocks_skip_midnight_the_day_begins_when_they_do():
    # Beirut went from 23:59:59 on Saturday to 01:00 on Sunday.
    beirut, day = zone("Asia/Beirut"), date(2022, 3, 27)

    assert format_instant(midnight(day, beirut)) == "2022-03-26T22:00:00Z"
    assert local_date(midnight(day, beirut), beirut) == day
    assert local_date(midnight(day, beirut) - timedelta(microseconds=1), beirut) < day


def test_a_day_counts_for_what_holds_at_its_end():
    start = midnight(date(2026, 10, 25), BERLIN)  # 25 hours long
    noon, end = start + timedelta(hours=12), start + timedelta(hours=25)

    assert count_days(Period(start, noon), BERLIN) == 0
    assert count_days(Period(noon, end), BERLIN) == 1
    assert count_days(Period(noon, end + timedelta(microseconds=1)), BERLIN) == 1
    assert count_days(Period(noon, noon), BERLIN) == 0
    assert count_days(Period(start, noon + timedelta(days=2)), BERLIN) == 2


def test_the_last_second_of_a_day_is_taken_for_the_midnight_after_it():
    end = midnight(date(2026, 10, 26), BERLIN)
    start = end - timedelta(hours=25)

    for early in (timedelta(0), timedelta(microseconds=1), timedelta(seconds=1)):
        assert count_days(Period(start, end - early), BERLIN) == 1
        assert count_days(Period(end - early, end + timedelta(days=1)), BERLIN) == 1
    earlier = end - timedelta(seconds=1, microseconds=1)
    assert count_days(Period(start, earlier), BERLIN) == 0
    assert count_days(Period(earlier, end + timedelta(days=1)), BERLIN) == 2


@pytest.mark.parametrize(
    ("name", "month", "days"),
    [
        # Clocks fell back over midnight: Newfoundland from 00:01 to 23:01 of the day before.
        ("America/St_Johns", "2006-10", 31),
        ("America/Sao_Paulo", "2018-02", 28),
        # Clocks that skip midnight, and a day that a zone skipped.
        ("America/Sao_Paulo", "2018-11", 30),
        ("Asia/Beirut", "2022-03", 31),
        ("Pacific/Apia", "2011-12", 31),
        ("Australia/Lord_Howe", "2026-04", 30),
        ("+5:45", "2026-02", 28),
    ],
)
def test_wherever_a_month_is_split_its_parts_count_its_days(name, month, days):
    period, there = Month.parse(month).period(zone(name)), zone(name)
    at = period.start
    while at < period.end:
        parts = Period(period.start, at), Period(at, period.end)
        counted = [count_days(each, there) for each in parts]
        assert sum(counted) == days
        assert min(counted) >= 0
        at += timedelta(minutes=10)


@pytest.mark.parametrize(("month", "length"), [("2026-02", 28), ("2024-02", 29), ("2026-10", 31)])
def test_a_month_has_its_days_whatever_the_clocks_do(month, length):
    period = Month.parse(month).period(BERLIN)

    assert share(period, period, BERLIN) == (length, length)


def test_instants_are_written_in_utc():
    there = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=30)))

    assert format_instant(there) == "2025-12-31T18:30:00Z"
    with pytest.raises(AssertionError):
        format_instant(datetime(2026, 1, 1))


@pytest.mark.parametrize(
    ("month", "by", "moved"),
    [
        ("2026-10", 1, "2026-11"),
        ("2026-12", 1, "2027-01"),
        ("2026-01", -1, "2025-12"),
        ("2026-10", 0, "2026-10"),
        ("2026-03", 27, "2028-06"),
        ("2026-03", -27, "2023-12"),
    ],
)
def test_months_are_moved_over_the_ends_of_years(month, by, moved):
    assert str(Month.parse(month).moved(by)) == moved
