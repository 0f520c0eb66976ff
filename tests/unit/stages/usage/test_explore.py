"""The SQL of questions: what people chose stands in it quoted, or not at all."""

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meterlake.model.measurements.measurement import FIXED_COLUMNS
from meterlake.model.values.period import Period
from meterlake.stages.usage.aggregate import REDUCERS
from meterlake.stages.usage.explore import (
    BY_ACCOUNT,
    ExplorerScope,
    FieldRollup,
    Question,
    StoredField,
    Unit,
    aggregate_query,
    boundary,
    by_field,
    by_time,
    raw,
    values,
)

PERIOD = Period(datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC))
ODD = StoredField('where.a"b', 'where.a"b', "VARCHAR")
GB = StoredField("measure.gb", "measure.gb", "DECIMAL(38,12)")
EVIL = "'); DROP TABLE m; --"


def question(**parts):
    return Question('a"b', "meter", (GB, ODD), **parts)


@pytest.fixture
def connection():
    with duckdb.connect() as found:
        columns = ", ".join(f'"{name}" {kind}' for name, kind in FIXED_COLUMNS.items())
        found.execute("CREATE SCHEMA lake")
        more = '"measure.gb" DECIMAL(38,12), "where.a""b" VARCHAR'
        found.execute(f'CREATE TABLE lake."m_a""b" ({columns}, {more})')
        yield found


def put(connection, uid, ts, value=EVIL):
    row = (uid, "acme", ts, None, "2026-10-01", "s", 1, 0, 1, value)
    marks = ", ".join("?" * len(row))
    connection.execute(f'INSERT INTO lake."m_a""b" VALUES ({marks})', row)


PRESENT = {*FIXED_COLUMNS, "measure.gb", 'where.a"b'}


def test_what_people_chose_is_bound_or_quoted(connection):
    put(connection, "1", "2026-09-01")
    scope = ExplorerScope(PERIOD, 10, (EVIL, "acme"))
    groups = (BY_ACCOUNT, by_field(ODD), by_time(Unit.WEEK))
    filters = ((ODD, (EVIL,)),)
    rollups = (FieldRollup("n", ODD, REDUCERS["UNIQUE"]),)
    asked = [
        aggregate_query(question(filters=filters, groups=groups, rollups=rollups), PRESENT, scope),
        raw(question(filters=filters), PRESENT, scope),
        boundary(question(filters=filters), PRESENT, scope),
        values(question(filters=filters), ODD, PRESENT, scope),
    ]
    for statement in asked:
        assert "DROP" not in statement.sql
        connection.execute(statement.sql, statement.parameters)
    found = connection.execute(*asked[1]).fetchall()
    assert [row[0] for row in found] == ["1"]
    assert connection.execute(*asked[3]).fetchall() == [(EVIL,)]


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("ts", ["0001-01-01 00:00:00", "9999-12-30 23:59:59", "2024-02-29"])
def test_a_unit_holds_the_instants_that_fall_into_it(connection, unit, ts):
    put(connection, "1", ts)
    rollups = (FieldRollup("n", GB, REDUCERS["COUNT"]),)
    statement = aggregate_query(
        question(groups=(by_time(unit),), rollups=rollups), PRESENT, ExplorerScope(PERIOD, 2)
    )
    [(_, begin, count)] = connection.execute(*statement).fetchall()
    assert begin <= datetime.fromisoformat(ts)
    assert count == 1


def test_a_field_that_the_table_lacks_is_null(connection):
    put(connection, "1", "2026-09-01")
    new = StoredField("cost.new", "cost.new", "DECIMAL(38,12)")
    asked = Question('a"b', "meter", (GB, ODD, new))
    [row] = connection.execute(*raw(asked, PRESENT, ExplorerScope(PERIOD, 2))).fetchall()
    assert row[-1] is None


def test_the_boundary_leaves_what_is_wanted(connection):
    for n in range(50):
        put(connection, f"{n:02}", f"2026-09-{1 + n // 10:02} {n % 24:02}:00:00")
    whole = connection.execute(*raw(question(), PRESENT, ExplorerScope(PERIOD, 50))).fetchall()
    for rows in (1, 7, 49, 50):
        scope = ExplorerScope(PERIOD, rows)
        [since] = connection.execute(*boundary(question(), PRESENT, scope)).fetchall()
        near = ExplorerScope(PERIOD, rows, since=since)
        assert connection.execute(*raw(question(), PRESENT, near)).fetchall() == whole[:rows]
    assert (
        connection.execute(*boundary(question(), PRESENT, ExplorerScope(PERIOD, 51))).fetchall()
        == []
    )


@pytest.mark.long
@given(
    at=st.datetimes(datetime(1980, 1, 1), datetime(2037, 12, 31)),
    zone=st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "UTC"]),
    unit=st.sampled_from([Unit.DAY, Unit.WEEK, Unit.MONTH, Unit.QUARTER, Unit.YEAR]),
)
def test_a_unit_begins_at_midnight_by_the_clocks_of_its_zone(at, zone, unit):
    clock = ZoneInfo(zone)
    begin = by_time(unit, clock).sql.replace("m.ts", "?::TIMESTAMP")
    with duckdb.connect() as connection:
        [(found,)] = connection.execute(f"SELECT {begin}", [at]).fetchall()

    local = at.replace(tzinfo=UTC).astimezone(clock).date()
    first = {
        Unit.DAY: local,
        Unit.WEEK: local - timedelta(days=local.weekday()),
        Unit.MONTH: local.replace(day=1),
        Unit.QUARTER: local.replace(month=local.month - (local.month - 1) % 3, day=1),
        Unit.YEAR: local.replace(month=1, day=1),
    }[unit]
    there = found.replace(tzinfo=UTC).astimezone(clock)
    assert (there.date(), there.time()) == (first, time())
