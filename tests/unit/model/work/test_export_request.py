"""When exports are due."""

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.calendar.recurrence import parse_cron
from meterlake.model.configuration.exports import ExportSchedule
from meterlake.model.rules.exports import runs_by_one_clock
from meterlake.model.rules.proposed import Proposed
from meterlake.model.work.export_request import distance, next_run, runs
from tests.organizations import empty

BASE = {"name": "n", "code": "c", "sourceType": "OPERATIONAL", "operationalDataTypes": ["BILLS"]}
FAR = datetime(2100, 1, 1, tzinfo=UTC)


def schedule(unit=None, period=None, offset=None, cron=None, **more):
    clock = {
        "scheduleType": unit,
        "period": period,
        "offset": offset,
        "cronExpression": cron,
    }
    given_ = {name: value for name, value in clock.items() if value is not None}
    made = ExportSchedule.from_wire(BASE | given_ | more)
    runs_by_one_clock(Proposed("id", made, None, empty()))
    return made


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def first(count, made, created):
    return [each.isoformat()[:16] for each in islice(runs(made, at(created), None, FAR), count)]


@pytest.mark.parametrize(
    ("made", "created", "expected"),
    [
        # The examples of the documentation.
        (
            schedule("DAY", 2),
            "2026-06-01T10:00",
            ["2026-06-01T10:00", "2026-06-03T10:00", "2026-06-05T10:00"],
        ),
        (schedule("MINUTE", 15), "2026-06-01T10:07", ["2026-06-01T10:07", "2026-06-01T10:22"]),
        # The hour that clocks of Berlin skip, and the one that they repeat.
        (
            schedule("HOUR", 1),
            "2026-03-29T00:30",
            ["2026-03-29T00:30", "2026-03-29T01:30", "2026-03-29T02:30"],
        ),
        (
            schedule("HOUR", 1),
            "2026-10-25T00:30",
            ["2026-10-25T00:30", "2026-10-25T01:30", "2026-10-25T02:30"],
        ),
        # An offset is of the hour, or of the day, in which the schedule was made.
        (
            schedule("DAY", 1, 6),
            "2026-06-01T03:20",
            ["2026-06-01T03:20", "2026-06-01T06:00", "2026-06-02T06:00"],
        ),
        (
            schedule("DAY", 2, 6),
            "2026-06-01T10:20",
            ["2026-06-01T10:20", "2026-06-03T06:00", "2026-06-05T06:00"],
        ),
        (
            schedule("HOUR", 3, 59),
            "2026-06-01T10:59",
            ["2026-06-01T10:59", "2026-06-01T13:59", "2026-06-01T16:59"],
        ),
        (
            schedule(cron="30 6 * * MON"),
            "2026-06-01T06:30",
            ["2026-06-01T06:30", "2026-06-08T06:30"],
        ),
        (
            schedule(cron="0 0 29 FEB *"),
            "2096-02-29T00:00",
            ["2096-02-29T00:00"],
        ),
        # A day of the month or a day of the week: one of them is enough.
        (
            schedule(cron="0 0 13 * FRI"),
            "2026-11-12T12:00",
            ["2026-11-12T12:00", "2026-11-13T00:00", "2026-11-20T00:00"],
        ),
    ],
)
def test_a_schedule_runs_at_its_creation_and_then_by_its_clock(made, created, expected):
    assert first(len(expected), made, created) == expected


def test_the_next_run_is_told_also_where_it_is_years_away():
    leap = schedule(cron="0 12 29 2 *")

    assert next_run(leap, at("2096-01-01"), at("2096-03-01")) == at("2104-02-29T12:00")
    assert next_run(schedule("DAY", 1, enabled=False), at("2026-01-01"), at("2026-03-01")) is None


CREATED = st.datetimes(datetime(2026, 1, 1), datetime(2028, 1, 1), timezones=st.just(UTC))
CLOCKS = st.one_of(
    st.builds(schedule, st.just("MINUTE"), st.integers(15, 3 * 24 * 60)),
    st.builds(schedule, st.just("HOUR"), st.integers(1, 72), st.none() | st.integers(1, 59)),
    st.builds(schedule, st.just("DAY"), st.integers(1, 3), st.none() | st.integers(1, 23)),
    st.sampled_from(["*/15 * * * *", "7 6,18 * * 1-5", "0 0 1 * *", "59 23 31 * SUN"]).map(
        lambda text: schedule(cron=text)
    ),
)


@given(CLOCKS, CREATED, st.integers(0, 30 * 24 * 3600), st.integers(0, 30 * 24 * 3600))
def test_whenever_one_looks_no_run_is_missed_and_none_is_seen_twice(made, created, one, other):
    sooner, later = sorted(created + timedelta(seconds=each) for each in (one, other))

    whole = list(runs(made, created, None, later))
    parts = [*runs(made, created, None, sooner), *runs(made, created, sooner, later)]

    assert parts == whole
    assert whole[0] == created
    assert all(a < b for a, b in pairwise(whole))
    assert all(created <= each <= later for each in whole)


@given(CLOCKS, CREATED)
def test_regular_runs_have_one_distance(made, created):
    after = list(runs(made, created, None, created + timedelta(days=10)))[1:]
    step = distance(made)

    if step is None:
        cron = parse_cron("cronExpression", made.cron_expression)
        assert all(each.minute in cron.minutes and each.hour in cron.hours for each in after)
    else:
        assert {later - sooner for sooner, later in pairwise(after)} <= {step}
        assert after[0] - created <= step + timedelta(days=1)
        if made.offset is None:
            assert after[0] - created == step
