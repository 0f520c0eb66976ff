"""Laws of publishing again: a file that only changes what has changed is the one made anew."""

import shutil
from collections import Counter
from contextlib import closing
from datetime import UTC, datetime

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meterlake.model.catalog.catalog import Meter
from meterlake.model.customers.accounts import Account
from meterlake.model.measurements.measurement import Category, Field
from meterlake.model.values.period import local_date, zone
from meterlake.model.values.sql import identifier
from meterlake.pipeline.publish.run import publish
from meterlake.settings import Settings
from meterlake.stages.publish.views import MeterTable, usage_views
from meterlake.stores import open_stores
from meterlake.stores.lake import maintenance as lake_maintenance
from tests.doubles.homes import FIELDS, Clock, Home, furnish, make_home, meter_document

# What may happen to a lake and its configuration between two publications.
STEPS = ("add", "add", "delete", "delete all", "flush", "merge", "rename", "field", "meter", "none")
MONTHS = ("2026-08", "2026-09", "2026-10", "2025-10")
steps = st.lists(
    st.tuples(st.sampled_from(STEPS), st.sampled_from(MONTHS), st.booleans()),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("furnished") / "home"
    made, clock = make_home(folder)
    with open_stores(made, clock) as stores:
        furnish(stores, clock)
    return folder


ZONES = (
    *("UTC", "Europe/Berlin", "America/St_Johns", "Asia/Kathmandu", "Australia/Lord_Howe"),
    *("Pacific/Apia", "America/Havana", "UTC+5:45", "-3"),
)
instants = st.datetimes(datetime(1950, 1, 1), datetime(2060, 1, 1))


@pytest.fixture(scope="module")
def engine():
    with duckdb.connect() as connection:
        yield connection


@given(name=st.sampled_from(ZONES), used=st.lists(instants, min_size=1, max_size=20))
def test_days_of_usage_are_those_on_the_clocks_of_the_zone(engine, name, used):
    organization, utc, _ = usage_views([MeterTable("calls", "calls", ())], zone(name))
    engine.execute("CREATE OR REPLACE TABLE calls (ts TIMESTAMP, account VARCHAR)")
    engine.executemany("INSERT INTO calls VALUES (?, ?)", [(each, "acme") for each in used])
    counts = "SELECT day, measurements FROM ({})"
    local = dict(engine.execute(counts.format(organization.query)).fetchall())
    days = dict(engine.execute(counts.format(utc.query)).fetchall())

    assert local == Counter(local_date(each.replace(tzinfo=UTC), zone(name)) for each in used)
    assert days == Counter(each.date() for each in used)


# Everything once; which of it is seen together matters to the law below.
STORY = [
    ("add", "2026-10", False),
    ("delete", "2026-10", False),
    ("flush", "2026-10", False),
    ("delete all", "2026-09", True),
    ("rename", "2026-10", False),
    ("add", "2026-08", False),
    ("merge", "2026-10", True),
    ("field", "2026-10", False),
    ("meter", "2026-10", False),
]


@pytest.mark.slow
def test_again_is_the_same_as_anew(furnished, tmp_path_factory):
    check(furnished, tmp_path_factory.mktemp("again") / "home", STORY)


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_again_is_the_same_as_anew_whatever_happens(furnished, tmp_path_factory, happened):
    check(furnished, tmp_path_factory.mktemp("again") / "home", happened)


def check(furnished, folder, happened) -> None:
    shutil.copytree(furnished, folder, symlinks=True)
    clock = Clock()
    with open_stores(Settings(home=folder), clock) as stores:
        home = Home.of(stores, clock)
        organization = stores.organization(home.org_id)
        # The copy is another file: the first publication makes everything anew.
        publish(organization)
        for number, (step, month, published) in enumerate(happened):
            clock.later(minutes=1)
            happen(home, step, month, number)
            if published:
                publish(organization)
        again = contents(publish(organization).path)
        anew = contents(publish(organization, whole=True).path)
    shutil.rmtree(folder)
    assert again == anew


def happen(home: Home, step: str, month: str, number: int) -> None:
    table = f"lake.{identifier(f'm_{home.meter_id}')}"
    statements = {
        "delete": f"DELETE FROM {table} WHERE uid = (SELECT max(uid) FROM {table})",
        "delete all": f"DELETE FROM {table} WHERE strftime(ts, '%Y-%m') = '{month}'",
        "flush": lake_maintenance._FLUSH,
        "merge": lake_maintenance._MERGE,
    }
    changes = {"add": add, "rename": rename, "field": add_field, "meter": add_meter}
    if step in statements:
        with home.lake.lock(), home.lake.transaction() as connection:
            connection.execute(statements[step]).fetchall()
    elif step in changes:
        changes[step](home, month, number)


def add(home: Home, month: str, number: int) -> None:
    row = (f"n-{number}", "acme", f"{month}-07 00:00:00", None, number, None, "eu", None)
    home.store(home.meter_fields(), [row])


def rename(home: Home, month: str, number: int) -> None:
    with home.organization.transaction("test") as t:
        record = t.all(Account)[0]
        renamed = record.entity.model_copy(update={"code": f"{month} {number}"})
        t.update(record.id, record.version, renamed)
    # The tests' own name of the account stays.
    home.accounts["acme"] = record.id


def add_field(home: Home, _month: str, number: int) -> None:
    fields = (*FIELDS, Field(Category.MEASURE, f"more{number}"))
    with home.organization.transaction("test") as t:
        record = t.get(Meter, home.meter_id)
        t.update(record.id, record.version, Meter.from_wire(meter_document("disk", fields)))


def add_meter(home: Home, month: str, number: int) -> None:
    row = (f"m-{number}", "acme", f"{month}-01 00:00:00", None, 1, None, None, None)
    home.store(home.meter(f"meter{number}"), [row])


def contents(path) -> dict[str, object]:
    """Everything in a file, but for when and how often it was made."""
    with closing(duckdb.connect(str(path), read_only=True)) as connection:
        names = connection.execute(
            "SELECT table_name, list(column_name || ' ' || data_type ORDER BY column_index),"
            " list(comment ORDER BY column_index) FROM duckdb_columns()"
            " WHERE NOT internal AND schema_name = 'main' AND table_name != 'about' GROUP BY ALL"
        ).fetchall()
        found: dict[str, object] = {name: (columns, docs) for name, columns, docs in names}
        for name, _, _ in names:
            rows = connection.execute(f"FROM {identifier(name)}").fetchall()
            found[f"{name} rows"] = sorted(map(repr, rows))
        return found
