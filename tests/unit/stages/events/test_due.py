"""When dates fall due."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.values.period import format_instant, parse_instant, zone
from meterlake.stages.events.due import due_moment

BERLIN = zone("Europe/Berlin")


@pytest.mark.parametrize(
    ("value", "offset", "due"),
    [
        # A date alone is local midnight, in summer and in winter.
        ("2026-10-01", 0, "2026-09-30T22:00:00Z"),
        ("2026-10-01", 10, "2026-10-10T22:00:00Z"),
        ("2026-10-20", 10, "2026-10-29T23:00:00Z"),
        ("2026-03-01", -1, "2026-02-27T23:00:00Z"),
        ("2028-02-28", 1, "2028-02-28T23:00:00Z"),
        # An instant keeps its local time when the clocks change on 2026-10-25 and 2026-03-29.
        ("2026-10-20T12:00:00Z", 0, "2026-10-20T12:00:00Z"),
        ("2026-10-20T12:00:00Z", 5, "2026-10-25T13:00:00Z"),
        ("2026-10-30T12:00:00Z", -10, "2026-10-20T11:00:00Z"),
        ("2026-03-28T01:30:00Z", 1, "2026-03-29T01:30:00Z"),  # 02:30 is skipped: 03:30
        ("2026-10-24T00:30:00Z", 1, "2026-10-25T00:30:00Z"),  # of two 02:30 the first
        ("2026-10-25T01:30:00Z", 0, "2026-10-25T01:30:00Z"),  # no offset, no other instant
        ("2026-10-20T14:00:00.123456+02:00", 1, "2026-10-21T12:00:00.123456Z"),
    ],
)
def test_a_date_falls_due_in_the_organizations_zone(value, offset, due):
    assert due_moment(value, offset, BERLIN) == parse_instant(due)


@pytest.mark.parametrize(
    ("value", "offset"),
    [
        (None, 1),
        ("", 1),
        ("soon", 1),
        ("2026-02-30", 0),
        (20261001, 0),
        ("2026-10-01", 2**31 - 1),
        ("2026-10-01", -(2**31)),
        ("2026-10-01T00:00:00Z", 2**31 - 1),
        ("0001-01-01", 0),  # its midnight in Berlin is in the year before
    ],
)
def test_what_is_no_moment_never_falls_due(value, offset):
    assert due_moment(value, offset, BERLIN) is None


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1)),
    st.integers(-400, 400),
    st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
)
def test_the_local_time_stays_unless_the_clocks_skip_it(instant, offset, name):
    at, tz = instant.replace(tzinfo=UTC), ZoneInfo(name)
    due = due_moment(format_instant(at), offset, zone(name))

    expected = at.astimezone(tz).replace(tzinfo=None) + timedelta(days=offset)
    local = due.astimezone(tz).replace(tzinfo=None)
    assert local == expected or timedelta(0) < local - expected <= timedelta(hours=1)
    assert offset or due == at
