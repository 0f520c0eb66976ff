import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from meterlake.model.catalog.catalog import Meter
from meterlake.model.measurements.measurement import LAKE_TABLES, Category, Field
from meterlake.model.values.entity import Record
from meterlake.pipeline.publish.run import attach_line, publish
from meterlake.settings import Settings
from meterlake.stages.publish import tables
from meterlake.stages.publish.meters import measured_meters
from meterlake.stages.publish.views import FIXED_VIEWS, STATE_TABLES, TAKEN, table_name
from meterlake.stores import open_stores
from meterlake.stores.lake.connection import open_duckdb
from tests.doubles.homes import FIELDS, ROWS, START, Clock, Home, make_home, meter_document

pytest_plugins = ["tests.doubles.fixtures"]


@pytest.fixture(scope="module")
def template(home_template, tmp_path_factory):
    """The folder of a small home that is published; copy it."""
    folder = copied(home_template, tmp_path_factory.mktemp("published") / "home")
    with open_stores(Settings(home=folder), Clock()) as stores:
        publish(stores.find_organization(), parquet=True)
    return folder


def copied(template: Path, folder: Path) -> Path:
    shutil.copytree(template, folder, symlinks=True)
    # What is known of the last file is that of the copy.
    for last in (folder / "staging" / "publish").glob("*.last"):
        [path] = (folder / "published").glob("*/warehouse.duckdb")
        last.write_text(json.dumps(json.loads(last.read_text()) | {"inode": path.stat().st_ino}))
    return folder


@pytest.fixture
def home(template, tmp_path):
    folder = copied(template, tmp_path / "ein Zuhause mit ä")
    clock = Clock()
    with open_stores(Settings(home=folder), clock) as stores:
        yield Home.of(stores, clock)


@pytest.fixture(scope="module")
def published_home(template, tmp_path_factory):
    folder = copied(template, tmp_path_factory.mktemp("read") / "home")
    clock = Clock()
    with open_stores(Settings(home=folder), clock) as stores:
        home = Home.of(stores, clock)
        yield home, publish(home.organization)


@pytest.fixture
def warehouse(published_home):
    with closing(opened(published_home[1].path)) as connection:
        yield connection


def opened(path: Path) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(path), read_only=True)


def ask(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple]:
    return connection.execute(query).fetchall()


def test_a_meter_is_a_table_named_by_its_code(warehouse):
    found = ask(warehouse, "SELECT uid, account, ts, bytes, egress, region FROM disk ORDER BY uid")

    assert found[0] == (
        "U-2",
        "zoë's",
        datetime(2026, 9, 30, 22, 30),
        Decimal("99999999999999999999999999.999999999999"),
        Decimal(7),
        'q"uo,te',
    )
    assert len(found) == len(ROWS)


@pytest.mark.long
def test_configuration_and_bills_are_tables(warehouse):
    assert ask(warehouse, "SELECT code, country FROM account ORDER BY code") == [
        ("acme", "DE"),
        ("zoë's", "DE"),
    ]
    assert ask(
        warehouse, "SELECT code, currency, effective_standing_charge, bill_frequency FROM plan"
    ) == [("pro", "USD", Decimal("9.9"), "MONTHLY")]
    [(cumulative, start, bands)] = ask(
        warehouse, "SELECT cumulative, start_date, pricing_bands::VARCHAR FROM pricing"
    )
    assert (cumulative, start) == (False, datetime(2026, 1, 1))
    assert '"unitPrice":0.00000000000000000001' in bands
    assert ask(
        warehouse, "SELECT account, month, total, bill_date, snapshot, status FROM bill"
    ) == [("acme", "2026-10", Decimal("23.47"), date(2026, 11, 1), 3, "PENDING")]
    assert ask(
        warehouse, "SELECT type, amount, quantity FROM bill_line ORDER BY sequence_number"
    ) == [
        ("USAGE", Decimal("13.57"), Decimal("0.666666666667")),
        ("STANDING_CHARGE", Decimal("9.9"), Decimal(1)),
    ]
    assert ask(warehouse, "SELECT table_name FROM meter") == [("disk",)]
    assert ask(warehouse, "SELECT start_date, end_date FROM account_plan") == [
        (datetime(2026, 1, 1), None)
    ]


def test_views_answer_the_first_questions(warehouse):
    assert ask(
        warehouse, "SELECT account, total, usage, standing_charge, lines FROM bill_per_account"
    ) == [("acme", Decimal("23.47"), Decimal("13.57"), Decimal("9.9"), 2)]
    assert ask(warehouse, "SELECT account, quantity_exact, quantity FROM quantity_current") == [
        ("acme", "0.66666666666666666667", Decimal("0.666666666667"))
    ]
    assert ask(warehouse, "SELECT count(*) FROM quantity") == [(2,)]
    days = (
        "SELECT day, account, total, measurements FROM {view}"
        " WHERE field = 'egress' AND account = 'acme' ORDER BY day"
    )
    assert ask(warehouse, days.format(view="usage_per_utc_day")) == [
        (date(2026, 10, 1), "acme", None, 1),
        (date(2026, 10, 15), "acme", Decimal("20.5"), 1),
        (date(2026, 10, 31), "acme", Decimal(0), 1),
        (date(2026, 11, 1), "acme", Decimal(1000000), 1),
    ]
    # In Berlin, the evening of October 31 in UTC is November 1 already.
    assert ask(warehouse, days.format(view="usage_per_day")) == [
        (date(2026, 10, 1), "acme", None, 1),
        (date(2026, 10, 15), "acme", Decimal("20.5"), 1),
        (date(2026, 11, 1), "acme", Decimal(1000000), 2),
    ]
    assert ask(warehouse, "SELECT timezone FROM about") == [("Europe/Berlin",)]
    assert ask(warehouse, "FROM ingest_health") == []
    assert ask(warehouse, "FROM rejected_per_reason") == []


def test_everything_is_commented(warehouse):
    without = ask(
        warehouse,
        "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND comment IS NULL",
    )
    without += ask(
        warehouse,
        "SELECT table_name, column_name FROM duckdb_columns()"
        " WHERE NOT internal AND comment IS NULL AND schema_name IN ('main', 'live')",
    )
    without += ask(
        warehouse,
        "SELECT view_name FROM duckdb_views() WHERE NOT internal AND comment IS NULL"
        " AND schema_name IN ('main', 'live')",
    )
    without += ask(
        warehouse,
        "SELECT function_name FROM duckdb_functions() WHERE NOT internal AND comment IS NULL",
    )
    assert without == []
    assert ask(
        warehouse,
        "SELECT comment FROM duckdb_columns() WHERE schema_name = 'main'"
        " AND table_name = 'disk' AND column_name = 'bytes'",
    ) == [("Bytes (measure, in By).",)]


def test_the_dictionary_names_every_column(warehouse):
    [(columns,)] = ask(
        warehouse,
        "SELECT count(*) FROM duckdb_columns() WHERE NOT internal AND schema_name = 'main'",
    )
    [(named,)] = ask(warehouse, "SELECT count(*) FROM dictionary WHERE column_name IS NOT NULL")

    assert named == columns
    assert ("usage_per_day", "view") in ask(
        warehouse, "SELECT name, type FROM dictionary WHERE column_name IS NULL"
    )


def test_about_says_what_the_file_is(published_home, warehouse):
    home, _ = published_home
    [about] = ask(
        warehouse, "SELECT organization, organization_code, published_at, snapshot FROM about"
    )

    assert about[:2] == ("Small & Söhne", "small-sohne")
    assert about[2] == home.clock().astimezone(UTC).replace(tzinfo=None)
    assert about[3] == home.lake.snapshot()


def test_declared_columns_are_those_of_the_lake():
    assert list(tables.SOURCE.columns) == list(LAKE_TABLES["source"])
    assert set(tables.REJECTED.columns) == set(LAKE_TABLES["rejected"])
    names = [each.name for each in (*STATE_TABLES, *tables.LAKE_TABLES, *FIXED_VIEWS)]
    assert len(set(names)) == len(names)


CODES = [
    *("bill", "BILL2", "usage_per_day", "About", "a b", "q'uo\"te", "select", "ü€", "m;--"),
    # What publishing has names for itself.
    *("known", "renamed", "documents", "months", "lake"),
]
TAKEN_FIELDS = (
    Field(Category.MEASURE, "ts"),
    Field(Category.WHAT, "Account"),
    Field(Category.COST, "$x"),
)
# What the views call their own columns.
FIELD_CODES = ["day", "field", "measurements", "meter", "rest", "small", "step", "total", "whole"]
LARGE = Decimal("99999999999999999999999999.999999999999")
SUMS: dict[str, tuple[list[Decimal | None], Decimal | None]] = {
    "2026-10-02": ([LARGE, LARGE], None),
    "2026-10-03": ([LARGE, LARGE.copy_negate(), Decimal("-0.5")], Decimal("-0.5")),
    "2026-10-04": ([LARGE, None], LARGE),
    "2026-10-05": ([None], None),
    "2026-10-06": ([Decimal("0.1")] * 3, Decimal("0.3")),
}


@pytest.fixture(scope="module")
def odd(template, tmp_path_factory):
    """A published file with odd meters."""
    folder = copied(template, tmp_path_factory.mktemp("odd") / "home")
    with open_stores(Settings(home=folder), Clock()) as stores:
        home = Home.of(stores, Clock())
        organization = stores.organization(home.org_id)
        for number, code in enumerate(CODES):
            row = (f"odd-{number}", "acme", "2026-10-02 00:00:00", None, 5, "w", "1.25")
            home.store(home.meter(code, TAKEN_FIELDS), [row])
        numbered = home.meter("odd", tuple(Field(Category.MEASURE, code) for code in FIELD_CODES))
        values = range(len(FIELD_CODES))
        home.store(numbered, [("f-1", "acme", "2026-10-02 00:00:00", None, *values)])
        rows = [
            (f"{day}-{number}", "acme", f"{day} 00:00:00", None, value)
            for day, (values, _) in SUMS.items()
            for number, value in enumerate(values)
        ]
        home.store(home.meter("vast", FIELDS[:1]), rows)
        home.meter("unused", (Field(Category.WHAT, "only_text"),))
        growing = home.meter("growing", FIELDS[:1])
        home.store(growing, [("g-1", "acme", "2026-10-02 00:00:00", None, 5)])
        with organization.transaction("test") as transaction:
            grown = Meter.from_wire(meter_document("growing", FIELDS))
            transaction.update(growing.id, 1, grown)
        published = publish(organization)
        with closing(opened(published.path)) as connection:
            yield published, connection


@pytest.mark.parametrize("code", CODES)
def test_any_meter_code_is_a_table(odd, code):
    name = f"meter_{code}" if code.casefold() in TAKEN else code
    quoted = name.replace('"', '""')
    found = ask(odd[1], f'SELECT account, "measure.ts", "what.Account", "$x" FROM "{quoted}"')
    query = "SELECT field, total FROM usage_per_day WHERE meter = ? ORDER BY field"
    used = odd[1].execute(query, [code]).fetchall()

    assert found == [("acme", Decimal(5), "w", Decimal("1.25"))]
    assert used == [("$x", Decimal("1.25")), ("measure.ts", Decimal(5))]


@pytest.mark.long
def test_no_code_of_a_field_is_in_the_way_of_a_view(odd):
    found = ask(odd[1], "SELECT field, total FROM usage_per_day WHERE meter = 'odd'")

    assert sorted(found) == [(code, Decimal(n)) for n, code in enumerate(FIELD_CODES)]


def test_the_largest_numbers_spoil_no_other_total(odd):
    found = ask(odd[1], "SELECT day::VARCHAR, total FROM usage_per_day WHERE meter = 'vast'")

    assert dict(found) == {day: total for day, (_, total) in SUMS.items()}


def test_a_meter_without_measurements_is_an_empty_table(odd):
    published, connection = odd

    assert (published.rows["unused"], published.rows["disk"]) == (0, len(ROWS))
    assert ask(connection, "SELECT count(*) FROM usage_per_day WHERE meter = 'unused'") == [(0,)]


def test_fields_with_the_columns_of_the_lake_only(odd):
    found = ask(odd[1], "SELECT bytes, egress, region FROM growing")

    assert found == [(Decimal(5), None, None)]


@pytest.mark.slow
def test_meters_that_exchange_their_codes_keep_their_own_files(home):
    meters = [home.meter(code, FIELDS[:1]) for code in ("first", "second")]
    for meter in meters:
        row = (f"of-{meter.code}", "acme", "2026-10-02 00:00:00", None, 5)
        home.store(meter, [row])
    publish(home.organization, parquet=True)
    for meter, code in zip((*meters, meters[0]), ("third", "first", "second"), strict=True):
        with home.organization.transaction("test") as transaction:
            record = transaction.get(Meter, meter.id)
            renamed = record.entity.model_copy(update={"code": code})
            transaction.update(meter.id, record.version, renamed)
    published = publish(home.organization, parquet=True)

    for name, uid in (("first", "of-second"), ("second", "of-first")):
        with closing(opened(published.path)) as connection:
            assert ask(connection, f"SELECT uid FROM {name}") == [(uid,)]
            files = f"FROM read_parquet('{published.parquet}/{name}/*/*.parquet')"
            assert ask(connection, f"SELECT uid {files}") == [(uid,)]


def test_names_never_meet():
    taken: set[str] = set()
    codes = ["a", "A", "meter_a", "bill", "meter_bill", "Bill"]
    names = [table_name(code, taken) for code in codes]

    assert names[0] == "a"
    assert len({name.casefold() for name in names} | TAKEN) == len(names) + len(TAKEN)


def test_a_new_meter_takes_no_name_from_another_one():
    codes = ("disk", "Disk", "DISK")
    meters = [
        Record(code, 1, Meter.from_wire(meter_document(code, FIELDS)), made, "", made, "")
        for code in codes
        for made in [START + timedelta(days=codes.index(code))]
    ]
    names = {each.meter.id: each.name for each in measured_meters(meters)}

    assert names == {"disk": "disk", "Disk": "meter_Disk", "DISK": "meter_meter_DISK"}


@pytest.mark.long
def test_an_empty_organization_is_published(tmp_path):
    made, clock = make_home(tmp_path / "home")
    with open_stores(made, clock) as stores:
        published = publish(stores.find_organization())
    with closing(opened(published.path)) as connection:
        for name, kind in ask(
            connection, "SELECT name, type FROM dictionary WHERE column_name IS NULL"
        ):
            ask(connection, f"FROM {name}('2026-01-01')" if kind == "macro" else f"FROM {name}")


@pytest.mark.long
def test_who_has_the_old_file_open_keeps_reading_it(home):
    [path] = (home.stores.home / "published").glob("*/warehouse.duckdb")
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with reader:
        assert reader.stdout.readline() == "5\n"
        home.store(home.meter("second"), [("s-1", *ROWS[0][1:])])
        second = publish(home.organization)
        reader.stdin.write("again\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "5 False\n"
        reader.stdin.close()
    assert second.path == path
    with closing(opened(second.path)) as connection:
        assert ask(connection, "SELECT uid FROM second") == [("s-1",)]
    assert not list(second.path.parent.glob("warehouse.duckdb?*"))


READER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
print(connection.execute("SELECT count(*) FROM disk").fetchone()[0], flush=True)
sys.stdin.readline()
there = bool(connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'second'").fetchone())
print(connection.execute("SELECT count(DISTINCT uid) FROM disk").fetchone()[0], there, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "step", [pytest.param("publish.parquet_written", marks=pytest.mark.slow), "publish.built"]
)
def test_a_killed_publish_leaves_the_old_file(home, step):
    [path] = (home.stores.home / "published").glob("*/warehouse.duckdb")
    link = path.with_name("parquet")
    before = path.read_bytes()
    led = link.resolve()
    files = sorted(led.rglob("*.parquet"))
    folder = home.stores.home
    home.stores.close()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder), step],
        check=False,
        env=os.environ | {"PYTHONPATH": "src:."},
    )
    assert killed.returncode == -signal.SIGKILL
    assert path.read_bytes() == before
    assert sorted(led.rglob("*.parquet")) == files
    assert (link.resolve() == led) == (step == "publish.parquet_written")
    with open_stores(Settings(home=folder), home.clock) as stores:
        again = publish(stores.organization(home.org_id), parquet=True)
    assert again.made == (0, 3)
    with closing(duckdb.connect()) as connection:
        found = ask(connection, f"FROM read_parquet('{again.parquet}/disk/*/*.parquet')")
    assert len(found) == len(ROWS)
    assert not (folder / "staging" / "publish" / home.org_id).exists()


KILLED = """
import sys
from meterlake.model.values import failpoint
from meterlake.pipeline.publish.run import publish
from meterlake.settings import Settings
from meterlake.stores import open_stores
from tests.killing import die_at

failpoint.hook = die_at(sys.argv[2])
with open_stores(Settings(home=sys.argv[1])) as stores:
    publish(stores.find_organization(), parquet=True)
"""


@pytest.mark.long
def test_a_log_of_the_old_file_does_not_meet_the_new_one(home):
    [path] = (home.stores.home / "published").glob("*/warehouse.duckdb")
    script = (
        "import duckdb, os, signal, sys; c = duckdb.connect(sys.argv[1]);"
        "c.execute('CREATE TABLE mine AS SELECT 1'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert path.with_name("warehouse.duckdb.wal").exists()
    publish(home.organization)

    with closing(opened(path)) as connection:
        assert ask(connection, "SELECT count(*) FROM disk") == [(5,)]


@pytest.mark.long
def test_the_live_lake_is_one_line_away_without_a_network(home):
    line = attach_line(home.organization)
    # Any DuckDB of this version: nothing is set, and nothing may be fetched.
    with closing(duckdb.connect(config={"autoinstall_known_extensions": False})) as connection:
        connection.execute(line)
        found = ask(connection, f'SELECT count(*) FROM lake."m_{home.meter_id}"')
        with pytest.raises(duckdb.Error):
            connection.execute("DELETE FROM lake.quantity")
        home.store(home.meter("later"), [("l-1", *ROWS[0][1:])])
        tables_of_it = (
            "SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE 'm\\_%' ESCAPE '\\'"
        )
        assert ask(connection, tables_of_it) == [(2,)]

    assert "; ATTACH 'ducklake:sqlite:" in line
    assert line.endswith(";")
    assert "\n" not in line
    assert found == [(5,)]


@pytest.mark.long
def test_views_of_the_live_schema_read_the_live_lake(home):
    [path] = (home.stores.home / "published").glob("*/warehouse.duckdb")
    row = ("live-1", "acme", "2026-10-21 00:00:00", None, 1, None, "eu", None)
    home.store(home.meter_fields(), [row])
    with home.lake.lock(), home.lake.transaction() as connection:
        connection.execute(
            "INSERT INTO lake.quantity BY NAME SELECT * REPLACE ('run-9' AS run_id, '9' AS quantity,"
            " computed_at + INTERVAL 1 YEAR AS computed_at) FROM lake.quantity LIMIT 1"
        )
    question = (
        "SELECT (SELECT count(*) FROM usage_per_day WHERE day = '2026-10-21'),"
        " (SELECT any_value(quantity) FROM quantity_current)"
    )
    with closing(open_duckdb("200MB", 1, home.stores.home / "spill")) as connection:
        connection.execute(f"ATTACH '{path}' AS warehouse (READ_ONLY)")
        connection.execute("USE warehouse")
        connection.execute(attach_line(home.organization))
        [[days, quantity]] = connection.execute(question).fetchall()
        assert (days, quantity) == (0, Decimal("0.666666666667"))
        connection.execute("SET search_path = 'live,main'")
        assert connection.execute(question).fetchall() == [(2, Decimal(9))]


@pytest.mark.long
def test_only_what_has_changed_is_made_anew(home):
    first = publish(home.organization, parquet=True)
    before = {path.name: path.stat().st_ino for path in first.parquet.rglob("*.parquet")}
    same = publish(home.organization)
    row = ("n-1", "acme", "2026-10-20 00:00:00", None, 1, None, "eu", None)
    home.store(home.meter_fields(), [row])
    again = publish(home.organization, parquet=True)
    after = {path.name: path.stat().st_ino for path in again.parquet.rglob("*.parquet")}
    october = {path.name for path in (again.parquet / "disk" / "month=2026-10").iterdir()}

    assert [each.made for each in (first, same, again)] == [(0, 3), (0, 3), (1, 3)]
    # The month, and what says of itself when it was made.
    new = {name for name in after if before.get(name) != after[name]}
    assert october <= new
    assert len(new) == 2
    assert again.rows["disk"] == len(ROWS) + 1


@pytest.mark.long
@pytest.mark.parametrize(
    "damage",
    ["written to", *(pytest.param(each, marks=pytest.mark.slow) for each in ("cut", "gone", "?"))],
)
def test_a_file_that_is_not_what_was_published_is_made_anew(home, damage):
    [path] = (home.stores.home / "published").glob("*/warehouse.duckdb")
    if damage == "cut":
        os.truncate(path, path.stat().st_size // 2)
    elif damage == "written to":
        with closing(duckdb.connect(str(path))) as connection:
            connection.execute('DELETE FROM months."' + f"{home.meter_id} 2026-10" + '"')
    elif damage == "gone":
        path.unlink()
    else:
        (home.stores.home / "staging" / "publish" / f"{home.org_id}.last").write_text("{")
    again = publish(home.organization)

    assert again.made == (3, 3)
    with closing(opened(again.path)) as connection:
        assert ask(connection, "SELECT count(*) FROM disk") == [(len(ROWS),)]


@pytest.mark.slow
def test_a_damaged_copy_is_made_anew(home):
    """What the file's size and time do not tell is found when the file is read."""
    [path] = (home.stores.home / "published").glob("*/warehouse.duckdb")
    found = path.stat()
    with path.open("r+b") as file:
        file.seek(8)
        file.write(b"x" * 4096)
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))

    assert publish(home.organization).made == (3, 3)


@pytest.mark.slow
def test_a_reader_that_followed_the_link_keeps_its_files(home):
    [link] = (home.stores.home / "published").glob("*/parquet")
    folders = [link.resolve()]
    for number in range(3):
        row = (f"n-{number}", "acme", "2026-10-20 00:00:00", None, 1, None, "eu", None)
        home.store(home.meter_fields(), [row])
        folders.append(publish(home.organization, parquet=True).parquet.resolve())

    assert [folder.exists() for folder in folders] == [False, True, True, True]
    assert len(set(folders)) == 4
