"""What came in: whole hours are counted once, files are told one by one, batches in one sum."""

from datetime import UTC, datetime, timedelta

import pytest

from meterlake.model.values.period import Period
from meterlake.pipeline.ingest.arrivals import came_in, last_hours
from meterlake.pipeline.ingest.segments import ingest_segments
from tests.homes import HEADER, a_home, csv_row, wire_row
from tests.integration.pipeline.ingest.test_segments import close, submit


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path, segment_seconds=3600) as found:
        yield found


def at(hour, minute=0):
    return datetime(2026, 10, 1, hour, minute, tzinfo=UTC)


def counts(found):
    names = ("files", "segments", "received", "accepted", "repeats", "rejected", "failed")
    return tuple(found[name] for name in names)


def test_of_nothing_everything_is_zero(home):
    found = came_in(home.organization, last_hours(at(5), 1))

    assert counts(found.totals) == (0, 0, 0, 0, 0, 0, 0)
    assert (found.hours, found.files) == ([], [])


@pytest.mark.long
def test_files_and_batches_are_counted_by_the_hour_in_which_they_were_done(home):
    home.clock.time = at(3, 59)
    home.ingest("before.csv", HEADER + csv_row("before"))
    home.clock.time = at(4)
    home.ingest("a.csv", HEADER + csv_row("a") + csv_row("b", "NaN") + csv_row("before"))
    home.clock.time = at(4, 59)
    home.ingest("broken.csv.gz", "no gzip")
    submit(home, wire_row("z"))
    close(home)
    assert [each.accepted for each in ingest_segments(home.organization)] == [1]
    home.clock.time = at(5)
    home.ingest("later.csv", HEADER + csv_row("later"))

    found = came_in(home.organization, last_hours(at(5, 2), 1))

    assert counts(found.totals) == (2, 1, 4, 2, 1, 1, 1)
    assert {each["hour"]: counts(each) for each in found.hours} == {
        "2026-10-01T05:00:00Z": (1, 0, 1, 1, 0, 0, 0),
        "2026-10-01T04:00:00Z": (2, 1, 4, 2, 1, 1, 1),
        "2026-10-01T03:00:00Z": (1, 0, 1, 1, 0, 0, 0),
    }
    assert [each["name"] for each in found.files] == ["later.csv", "broken.csv.gz", "a.csv"]
    assert found.files[2]["reasons"] == "InvalidNumber 1"
    assert found.files[1]["reason"]
    # Every hour is in one summary, and in no other.
    halves = [came_in(home.organization, last_hours(at(hour), 1)) for hour in (4, 5, 6)]
    whole = came_in(home.organization, Period(at(3), at(6)))
    assert [sum(each) for each in zip(*(counts(h.totals) for h in halves), strict=True)] == list(
        counts(whole.totals)
    )


@pytest.mark.slow
def test_a_day_is_told_hour_by_hour_and_no_longer(home):
    for hours in range(30):
        home.clock.time = at(0) + timedelta(hours=hours)
        home.ingest(f"{hours}.csv", HEADER + csv_row(str(hours)))

    now = at(0) + timedelta(hours=29, minutes=30)
    found = came_in(home.organization, last_hours(now, 2))

    assert len(found.hours) == 24
    assert (found.totals["files"], len(found.files)) == (2, 3)
