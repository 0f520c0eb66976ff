"""Stories of three time zones: a week of usage around each change of the clocks, as people ask for it.

Measurements come every half hour, with the offset that clocks on the wall had. Days, the week and
the month of `meterlake aggregate` are compared with what plain Python makes of the wall clocks.
"""

import json
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from meterlake.cli import run
from tests.bills import aggregation
from tests.homes import HEADER, a_home, configure, csv_row

pytestmark = pytest.mark.slow

HALF_HOUR = timedelta(minutes=30)
# The zone, the day of the change, and how long that day is.
STORIES = [
    # Europe goes on at 2 o'clock and back at 3.
    ("Europe/Berlin", date(2026, 3, 29), 23),
    ("Europe/Berlin", date(2026, 10, 25), 25),
    # Lord Howe moves by half an hour, on the other half of the world.
    ("Australia/Lord_Howe", date(2026, 4, 5), 24.5),
    ("Australia/Lord_Howe", date(2026, 10, 4), 23.5),
    # In Santiago there is no midnight in spring, and the hour before it comes twice in autumn.
    ("America/Santiago", date(2026, 4, 4), 25),
    ("America/Santiago", date(2026, 9, 6), 23),
]
KINDS = ("SUM", "COUNT", "LATEST", "TIME_WEIGHTED_AVERAGE")


def usage(tz, day):
    """Instants from four days before to four days after, each with another number."""
    first = datetime(day.year, day.month, day.day, 12, tzinfo=tz).astimezone(UTC)
    return [
        (first + HALF_HOUR * n, Decimal(n + 400) / 8) for n in range(-4 * 48, 4 * 48) if n % 7 != 3
    ]


def on_the_wall(rows, tz):
    """The numbers of each local day, by nothing but what the clock on the wall showed."""
    days = defaultdict(list)
    for ts, gb in rows:
        days[ts.astimezone(tz).date()].append((ts, gb))
    return days


def first_instant(day, tz):
    """The first half hour whose local date is the day: every change is at a half hour."""
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=tz).astimezone(UTC)
    found = noon
    while (found - HALF_HOUR).astimezone(tz).date() == day:
        found -= HALF_HOUR
    return found


def expected(rows, tz, first, after):
    """SUM, COUNT, LATEST and the time-weighted average from a day to another one (exclusive)."""
    start, end = first_instant(first, tz), first_instant(after, tz)
    walls = on_the_wall(rows, tz)
    inside = [row for day, found in walls.items() if first <= day < after for row in found]
    ordered = sorted(rows)
    held = timedelta()
    weighted = Decimal(0)
    for n, (ts, gb) in enumerate(ordered):
        upcoming = ordered[n + 1][0] if n + 1 < len(ordered) else end
        time = min(upcoming, end) - max(ts, start)
        if time > timedelta():
            held += time
            weighted += gb * (time // HALF_HOUR)
    return {
        "SUM": sum(gb for _, gb in inside),
        "COUNT": Decimal(len(inside)),
        "LATEST": max(inside)[1],
        "TIME_WEIGHTED_AVERAGE": weighted / (held // HALF_HOUR),
    }


@pytest.fixture
def home(tmp_path):
    with a_home(tmp_path) as opened:
        opened.clock.time = datetime(2027, 1, 10, tzinfo=UTC)
        configure(opened.organization, aggregations=[aggregation(kind, kind) for kind in KINDS])
        yield opened


def asked(home, capsys, *command):
    """The values of a run by aggregation, and its first and last instant."""
    at = ["--home", str(home.stores.home), "--json"]
    assert run(["aggregate", *command, *at]) == 0
    lines = [json.loads(line, parse_float=Decimal) for line in capsys.readouterr().out.splitlines()]
    [period] = {(line["periodStart"], line["periodEnd"]) for line in lines}
    values = {line["aggregation"]: Decimal(line["quantity"]) for line in lines}
    return values, [datetime.fromisoformat(each) for each in period]


def rounded(values):
    """To twelve digits, as the lake has averages; the rest is exact."""
    return {name: round(value, 12) for name, value in values.items()}


@pytest.mark.parametrize(("name", "day", "hours"), STORIES)
def test_days_weeks_and_months_are_those_of_the_clocks_on_the_wall(home, capsys, name, day, hours):
    tz = ZoneInfo(name)
    fields = {"daysBeforeBillDue": 30, "timezone": name, "weekEpoch": "2026-01-05"}
    configure(home.organization, organizationConfig=fields)
    rows = usage(tz, day)
    text = [
        csv_row(f"u{n}", gb, ts=ts.astimezone(tz).isoformat()) for n, (ts, gb) in enumerate(rows)
    ]
    assert home.ingest("usage.csv", HEADER + "".join(text)).accepted == len(rows)

    sums = Decimal(0)
    for each in (day - timedelta(days=1), day, day + timedelta(days=1)):
        after = each + timedelta(days=1)
        found, period = asked(home, capsys, "--frequency", "daily", "--on", str(each))
        assert rounded(found) == rounded(expected(rows, tz, each, after)), each
        assert period == [first_instant(each, tz), first_instant(after, tz)]
        assert period[1] - period[0] == timedelta(hours=hours if each == day else 24)
        sums += found["SUM"]

    three = [str(day - timedelta(days=1)), str(day + timedelta(days=2))]
    together, _ = asked(home, capsys, "--from", three[0], "--to", three[1])
    assert together["SUM"] == sums

    monday = day - timedelta(days=day.weekday())
    week, _ = asked(home, capsys, "--frequency", "weekly", "--on", str(day))
    assert rounded(week) == rounded(expected(rows, tz, monday, monday + timedelta(days=7)))

    first = day.replace(day=1)
    after = (first + timedelta(days=32)).replace(day=1)
    month, _ = asked(home, capsys, f"{day:%Y-%m}")
    assert rounded(month) == rounded(expected(rows, tz, first, after))
