from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from meterlake.model.configuration.queries import TimePeriod, relative_period
from meterlake.model.values.period import Period

WEDNESDAY = "2024-06-12T10:20:30.000007Z"


@pytest.mark.parametrize(
    ("time_period", "now", "start", "end"),
    [
        ("TODAY", WEDNESDAY, "2024-06-12T00:00:00Z", WEDNESDAY),
        ("TODAY", "2024-06-12T00:00:00Z", "2024-06-12T00:00:00Z", "2024-06-12T00:00:00Z"),
        ("YESTERDAY", WEDNESDAY, "2024-06-11T00:00:00Z", "2024-06-12T00:00:00Z"),
        ("YESTERDAY", "2024-03-01T00:00:00Z", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"),
        ("WEEK_TO_DATE", "2024-10-16T10:00:00Z", "2024-10-14T00:00:00Z", "2024-10-16T10:00:00Z"),
        ("WEEK_TO_DATE", "2024-10-14T00:00:01Z", "2024-10-14T00:00:00Z", "2024-10-14T00:00:01Z"),
        ("WEEK_TO_DATE", "2024-10-20T23:59:59Z", "2024-10-14T00:00:00Z", "2024-10-20T23:59:59Z"),
        ("MONTH_TO_DATE", WEDNESDAY, "2024-06-01T00:00:00Z", WEDNESDAY),
        ("YEAR_TO_DATE", WEDNESDAY, "2024-01-01T00:00:00Z", WEDNESDAY),
        ("PREVIOUS_WEEK", WEDNESDAY, "2024-06-03T00:00:00Z", "2024-06-10T00:00:00Z"),
        ("PREVIOUS_WEEK", "2024-06-10T00:00:00Z", "2024-06-03T00:00:00Z", "2024-06-10T00:00:00Z"),
        ("PREVIOUS_MONTH", WEDNESDAY, "2024-05-01T00:00:00Z", "2024-06-01T00:00:00Z"),
        ("PREVIOUS_MONTH", "2024-01-31T23:00:00Z", "2023-12-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("PREVIOUS_QUARTER", WEDNESDAY, "2024-01-01T00:00:00Z", "2024-04-01T00:00:00Z"),
        (
            "PREVIOUS_QUARTER",
            "2024-03-31T23:59:59Z",
            "2023-10-01T00:00:00Z",
            "2024-01-01T00:00:00Z",
        ),
        ("PREVIOUS_YEAR", "2024-02-29T12:00:00Z", "2023-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
        ("LAST_12_HOURS", WEDNESDAY, "2024-06-11T22:00:00Z", "2024-06-12T10:00:00Z"),
        ("LAST_12_HOURS", "2024-06-12T10:00:00Z", "2024-06-11T22:00:00Z", "2024-06-12T10:00:00Z"),
        ("LAST_7_DAYS", WEDNESDAY, "2024-06-05T00:00:00Z", "2024-06-12T00:00:00Z"),
        ("LAST_30_DAYS", "2024-06-15T17:00:00Z", "2024-05-16T00:00:00Z", "2024-06-15T00:00:00Z"),
        ("LAST_35_DAYS", WEDNESDAY, "2024-05-08T00:00:00Z", "2024-06-12T00:00:00Z"),
        ("LAST_90_DAYS", WEDNESDAY, "2024-03-14T00:00:00Z", "2024-06-12T00:00:00Z"),
        ("LAST_120_DAYS", WEDNESDAY, "2024-02-13T00:00:00Z", "2024-06-12T00:00:00Z"),
        ("LAST_YEAR", WEDNESDAY, "2023-06-13T00:00:00Z", "2024-06-12T00:00:00Z"),
    ],
)
def test_a_relative_time_has_these_edges(time_period, now, start, end):
    found = relative_period(TimePeriod(time_period), datetime.fromisoformat(now))

    assert found.start == datetime.fromisoformat(start)
    assert found.end == datetime.fromisoformat(end)
    assert found.start.tzinfo is UTC


@pytest.mark.parametrize("time_period", TimePeriod)
def test_a_relative_time_is_utc_wherever_one_asks(time_period):
    now = datetime(2026, 1, 1, 0, 30, tzinfo=UTC)
    there = now.astimezone(timezone(timedelta(hours=-8)))

    assert relative_period(time_period, there) == relative_period(time_period, now)
    assert relative_period(time_period, now).end <= now


@pytest.mark.parametrize(
    ("time_period", "start", "end"),
    [
        ("PREVIOUS_MONTH", "2026-09-30T22:00:00Z", "2026-10-31T23:00:00Z"),
        ("MONTH_TO_DATE", "2026-10-31T23:00:00Z", "2026-11-15T09:30:00Z"),
        ("LAST_30_DAYS", "2026-10-15T22:00:00Z", "2026-11-14T23:00:00Z"),
        ("LAST_12_HOURS", "2026-11-14T21:00:00Z", "2026-11-15T09:00:00Z"),
    ],
)
def test_a_relative_time_counts_by_the_clocks_of_a_zone(time_period, start, end):
    now = datetime(2026, 11, 15, 9, 30, tzinfo=UTC)
    found = relative_period(TimePeriod(time_period), now, ZoneInfo("Europe/Berlin"))

    assert found == Period(datetime.fromisoformat(start), datetime.fromisoformat(end))
    assert found.start.tzinfo is UTC
