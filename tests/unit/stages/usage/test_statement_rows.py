"""The rows of a statement: time is cut without a gap, and what adds up adds up, to the digit."""

from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import duckdb
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from meterlake.model.catalog.catalog import Reduce
from meterlake.model.configuration.statements import AggregationFrequency
from meterlake.model.values.money import exact
from meterlake.model.values.period import Period, local_date, midnight, naive, zone
from meterlake.stages.usage.statement_rows import (
    FieldValue,
    RowGroup,
    RowsQuestion,
    needs_wide_rows,
    read_rows,
    rows_query,
    split_time,
)
from tests.laws import examples

DAYS = st.dates(date(2024, 1, 1), date(2027, 12, 31))
ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "+13:45"])
INSTANTS = st.datetimes(datetime(2024, 1, 1), datetime(2027, 12, 31)).map(
    lambda found: found.replace(tzinfo=UTC)
)
PERIODS = st.tuples(INSTANTS, st.timedeltas(timedelta(0), timedelta(days=400))).map(
    lambda found: Period(found[0], found[0] + found[1])
)


@given(PERIODS, st.sampled_from(AggregationFrequency), ZONES)
def test_the_parts_of_a_time_follow_each_other_from_its_start_to_its_end(period, frequency, name):
    parts = split_time(period, frequency, zone(name))

    if period.start == period.end:
        assert parts in ([], [period])
        return
    assert parts[0].start == period.start
    assert parts[-1].end == period.end
    assert all(part.start < part.end for part in parts)
    assert all(one.end == other.start for one, other in pairwise(parts))


@pytest.mark.parametrize(
    ("frequency", "day", "starts"),
    [
        ("DAY", date(2026, 3, 28), [date(2026, 3, 28), date(2026, 3, 29), date(2026, 3, 30)]),
        ("WEEK", date(2026, 3, 28), [date(2026, 3, 28), date(2026, 3, 30), date(2026, 4, 6)]),
        ("MONTH", date(2026, 11, 15), [date(2026, 11, 15), date(2026, 12, 1), date(2027, 1, 1)]),
        ("QUARTER", date(2026, 8, 15), [date(2026, 8, 15), date(2026, 10, 1), date(2027, 1, 1)]),
        ("YEAR", date(2025, 8, 15), [date(2025, 8, 15), date(2026, 1, 1), date(2027, 1, 1)]),
    ],
)
def test_parts_begin_with_the_calendar_of_the_zone(frequency, day, starts):
    berlin = zone("Europe/Berlin")
    period = Period(midnight(day, berlin), midnight(date(2028, 1, 1), berlin))

    parts = split_time(period, AggregationFrequency(frequency), berlin)

    assert [local_date(part.start, berlin) for part in parts[:3]] == starts


def test_days_of_a_clock_change_have_23_and_25_hours():
    berlin = zone("Europe/Berlin")
    days = [date(2026, 3, 29), date(2026, 10, 25)]
    periods = [Period(midnight(d, berlin), midnight(d + timedelta(days=1), berlin)) for d in days]

    for period, hours in zip(periods, (23, 25), strict=True):
        assert split_time(period, AggregationFrequency.DAY, berlin) == [period]
        assert period.end - period.start == timedelta(hours=hours)


VALUES = st.one_of(
    st.none(),
    st.decimals(-(10**6), 10**6, places=12),
    st.sampled_from([Decimal(10**25), -Decimal(10**25), Decimal("9" * 26 + "." + "9" * 12)]),
)
MEASUREMENTS = st.lists(
    st.tuples(INSTANTS, VALUES, st.sampled_from(["eu", "us", "'=1", "", None])), max_size=30
)
REDUCES = (Reduce.SUM, Reduce.COUNT, Reduce.MAX, Reduce.MIN, Reduce.UNIQUE, Reduce.MEAN)


def rows_of(measurements, period, frequency, groups):
    db = duckdb.connect()
    columns = 'uid VARCHAR, account_id VARCHAR, ts TIMESTAMP, "measure.n" DECIMAL(38, 12)'
    db.execute(f'CREATE TABLE t ({columns}, "what.s" VARCHAR)')
    rows = [(f"{n}", "a", naive(ts), v, s) for n, (ts, v, s) in enumerate(measurements)]
    if rows:
        db.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    question = RowsQuestion(
        source="t",
        where="m.account_id = $account",
        parameters={"account": "a", "start": naive(period.start), "end": naive(period.end)},
        times=split_time(period, frequency, zone("Europe/Berlin")),
        groups=groups,
        values=[FieldValue("measure.n", each) for each in REDUCES],
        most=1000,
    )
    try:
        found = db.execute(*rows_query(question)).fetchall()
    except duckdb.OutOfRangeException:
        found = None
    if found is None or needs_wide_rows(found):
        found = db.execute(*rows_query(question, wide=True)).fetchall()
    return question, read_rows(question, found)


@pytest.mark.slow
@given(
    MEASUREMENTS,
    PERIODS,
    st.sampled_from(AggregationFrequency),
    st.sampled_from([(), (RowGroup("what.s"),), (RowGroup(None), RowGroup("what.s"))]),
)
@example(
    [],
    Period(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)),
    AggregationFrequency.DAY,
    (),
)
def test_sums_and_counts_of_rows_are_those_of_the_whole(measurements, period, frequency, groups):
    inside = [(v, s) for ts, v, s in measurements if ts in period]
    values = [v for v, _ in inside if v is not None]

    _, rows = rows_of(measurements, period, frequency, groups)

    with exact():
        assert sum((row.values[0] for row in rows), Decimal(0)) == sum(values, Decimal(0))
    assert sum(row.values[1] for row in rows) == len(values)
    assert sum(row.measurements for row in rows) == len(inside)
    greatest = [row.values[2] for row in rows if row.values[2] is not None]
    assert (max(greatest) if greatest else None) == (max(values) if values else None)
    assert len({(row.number, row.groups) for row in rows}) == len(rows)


@pytest.mark.slow
@given(MEASUREMENTS, PERIODS)
@settings(max_examples=examples(25))
def test_a_filter_leaves_the_rows_of_its_values_as_they_are(measurements, period):
    day, chosen = AggregationFrequency.DAY, ("eu", "'=1")
    _, whole = rows_of(measurements, period, day, [RowGroup("what.s")])

    _, filtered = rows_of(measurements, period, day, [RowGroup("what.s", chosen)])

    assert filtered == [row for row in whole if row.groups[0] in chosen]


def test_rows_say_when_and_of_what_and_stop_at_the_most():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    measurements = [(start + timedelta(days=d), Decimal(d), s) for d in range(3) for s in "ab"]
    period = Period(start, start + timedelta(days=3))

    question, rows = rows_of(measurements, period, AggregationFrequency.DAY, [RowGroup("what.s")])

    by_day = defaultdict(list)
    for row in rows:
        by_day[question.times[row.number].start].append(row.groups[0])
    assert list(by_day.values()) == [["a", "b"]] * 3
    assert "LIMIT $most" in rows_query(question).sql
