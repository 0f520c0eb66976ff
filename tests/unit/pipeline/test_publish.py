import os
import signal
import subprocess
import sys
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from meterlake.model.catalog import Meter
from meterlake.model.measurement import LAKE_TABLES, Category, Field
from meterlake.pipeline.publish import attach_line, publish
from meterlake.settings import Settings
from meterlake.stages.publish import tables
from meterlake.stages.publish.views import FIXED_VIEWS, TAKEN, table_name
from meterlake.stores import open_stores
from meterlake.stores.lake_connection import open_duckdb
from tests.doubles.homes import FIELDS, ROWS, make_home, meter_document

pytest_plugins = ["tests.doubles.fixtures"]


@pytest.fixture
def warehouse(home):
    with closing(opened(publish(home.stores, home.org_id).path)) as connection:
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


def test_configuration_and_bills_are_tables(warehouse):
    assert ask(warehouse, "SELECT code, country FROM account ORDER BY code") == [
        ("acme", "DE"),
        ("zoë's", "DE"),
    ]
    assert ask(warehouse, "SELECT code, currency, standing_charge, bill_frequency FROM plan") == [
        ("pro", "USD", Decimal("9.9"), "MONTHLY")
    ]
    [(cumulative, start, bands)] = ask(
        warehouse, "SELECT cumulative, start_date, bands::VARCHAR FROM pricing"
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
    days = ask(
        warehouse,
        "SELECT day, account, total, measurements FROM usage_per_day"
        " WHERE field = 'egress' AND account = 'acme' ORDER BY day",
    )
    assert days == [
        (date(2026, 10, 1), "acme", None, 1),
        (date(2026, 10, 15), "acme", Decimal("20.5"), 1),
        (date(2026, 10, 31), "acme", Decimal(0), 1),
        (date(2026, 11, 1), "acme", Decimal(1000000), 1),
    ]
    assert ask(warehouse, "FROM ingest_health") == []
    assert ask(warehouse, "FROM rejected_per_reason") == []


def test_everything_is_commented(warehouse):
    without = ask(warehouse, "SELECT table_name FROM duckdb_tables() WHERE comment IS NULL")
    without += ask(
        warehouse,
        "SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal AND comment IS NULL"
        " AND table_name IN (SELECT table_name FROM duckdb_tables())",
    )
    without += ask(
        warehouse, "SELECT view_name FROM duckdb_views() WHERE NOT internal AND comment IS NULL"
    )
    assert without == []
    assert ask(
        warehouse,
        "SELECT comment FROM duckdb_columns() WHERE table_name = 'disk' AND column_name = 'bytes'",
    ) == [("Bytes (measure, in By).",)]


def test_the_dictionary_names_every_column(warehouse):
    [(columns,)] = ask(warehouse, "SELECT count(*) FROM duckdb_columns() WHERE NOT internal")
    [(named,)] = ask(warehouse, "SELECT count(*) FROM dictionary WHERE column_name IS NOT NULL")

    assert named == columns
    assert ("usage_per_day", "view") in ask(
        warehouse, "SELECT name, type FROM dictionary WHERE column_name IS NULL"
    )


def test_about_says_what_the_file_is(home, warehouse):
    [about] = ask(
        warehouse, "SELECT organization, organization_code, published_at, snapshot FROM about"
    )

    assert about[:2] == ("Small & Söhne", "small-sohne")
    assert about[2] == home.clock().astimezone(UTC).replace(tzinfo=None)
    assert about[3] == home.lake.snapshot()


def test_declared_columns_are_those_of_the_lake():
    assert list(tables.SOURCE.columns) == list(LAKE_TABLES["source"])
    assert set(tables.REJECTED.columns) == set(LAKE_TABLES["rejected"])
    names = [each.name for each in (*tables.TABLES, *tables.LAKE_TABLES, *FIXED_VIEWS)]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    "code", ["bill", "BILL", "usage_per_day", "About", "a b", "q'uo\"te", "select", "ü€", "m;--"]
)
def test_any_meter_code_is_a_table(home, code):
    fields = (
        Field(Category.MEASURE, "ts"),
        Field(Category.WHAT, "Account"),
        Field(Category.COST, "$x"),
    )
    home.store(
        home.meter(code, fields), [("odd-1", "acme", "2026-10-02 00:00:00", None, 5, "w", "1.25")]
    )
    name = f"meter_{code}" if code.casefold() in TAKEN else code
    with closing(opened(publish(home.stores, home.org_id).path)) as connection:
        quoted = name.replace('"', '""')
        found = ask(
            connection, f'SELECT account, "measure.ts", "what.Account", "$x" FROM "{quoted}"'
        )
        used = connection.execute(
            "SELECT field, total FROM usage_per_day WHERE meter = ? ORDER BY field", [code]
        ).fetchall()

    assert found == [("acme", Decimal(5), "w", Decimal("1.25"))]
    assert used == [("$x", Decimal("1.25")), ("measure.ts", Decimal(5))]


def test_names_never_meet():
    taken: set[str] = set()
    codes = ["a", "A", "meter_a", "bill", "meter_bill", "Bill"]
    names = [table_name(code, taken) for code in codes]

    assert names[0] == "a"
    assert len({name.casefold() for name in names} | TAKEN) == len(names) + len(TAKEN)


def test_a_meter_without_measurements_is_an_empty_table(home):
    home.meter("unused", (Field(Category.WHAT, "only_text"),))
    published = publish(home.stores, home.org_id)

    assert published.rows["unused"] == 0
    assert published.rows["disk"] == len(ROWS)
    with closing(opened(published.path)) as connection:
        assert ask(connection, "SELECT count(*) FROM usage_per_day WHERE meter = 'unused'") == [
            (0,)
        ]


def test_an_empty_organization_is_published(tmp_path):
    made, clock = make_home(tmp_path / "home")
    with open_stores(made, clock) as stores:
        published = publish(stores, stores.state.organization().id)
    with closing(opened(published.path)) as connection:
        for (name,) in ask(connection, "SELECT DISTINCT name FROM dictionary"):
            ask(connection, f"FROM {name}")


def test_who_has_the_old_file_open_keeps_reading_it(home):
    first = publish(home.stores, home.org_id)
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(first.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with reader:
        assert reader.stdout.readline() == "5\n"
        home.store(home.meter("second"), [("s-1", *ROWS[0][1:])])
        second = publish(home.stores, home.org_id)
        reader.stdin.write("again\n")
        reader.stdin.flush()
        assert reader.stdout.readline() == "5 False\n"
        reader.stdin.close()
    assert second.path == first.path
    with closing(opened(second.path)) as connection:
        assert ask(connection, "SELECT uid FROM second") == [("s-1",)]
    assert [path.name for path in second.path.parent.iterdir()] == ["warehouse.duckdb"]


READER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
print(connection.execute("SELECT count(*) FROM disk").fetchone()[0], flush=True)
sys.stdin.readline()
there = bool(connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'second'").fetchone())
print(connection.execute("SELECT count(DISTINCT uid) FROM disk").fetchone()[0], there, flush=True)
"""


def test_a_killed_publish_leaves_the_old_file(home):
    first = publish(home.stores, home.org_id)
    before = first.path.read_bytes()
    folder = home.stores.home
    home.stores.close()
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(folder)],
        check=False,
        env=os.environ | {"PYTHONPATH": "src:."},
    )
    assert killed.returncode == -signal.SIGKILL
    assert first.path.read_bytes() == before
    with open_stores(Settings(home=folder), home.clock) as stores:
        publish(stores, home.org_id)
    assert not (folder / "staging" / "publish" / home.org_id).exists()


KILLED = """
import os, signal, sys
from meterlake.model import failpoint
from meterlake.pipeline.publish import publish
from meterlake.settings import Settings
from meterlake.stores import open_stores

def kill(name):
    if name == "publish.built":
        os.kill(os.getpid(), signal.SIGKILL)

failpoint.hook = kill
with open_stores(Settings(home=sys.argv[1])) as stores:
    publish(stores, stores.state.organization().id)
"""


def test_a_log_of_the_old_file_does_not_meet_the_new_one(home):
    path = publish(home.stores, home.org_id).path
    script = (
        "import duckdb, os, signal, sys; c = duckdb.connect(sys.argv[1]);"
        "c.execute('CREATE TABLE mine AS SELECT 1'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert path.with_name("warehouse.duckdb.wal").exists()
    publish(home.stores, home.org_id)

    with closing(opened(path)) as connection:
        assert ask(connection, "SELECT count(*) FROM disk") == [(5,)]


def test_the_live_lake_is_one_line_away(home):
    line = attach_line(home.stores, home.org_id)
    with closing(open_duckdb("200MB", 1, home.stores.home / "spill")) as connection:
        connection.execute(line)
        found = ask(connection, f'SELECT count(*) FROM lake."m_{home.meter_id}"')
        with pytest.raises(duckdb.Error):
            connection.execute("DELETE FROM lake.quantity")
        home.store(home.meter("later"), [("l-1", *ROWS[0][1:])])
        tables_of_it = (
            "SELECT count(*) FROM duckdb_tables() WHERE table_name LIKE 'm\\_%' ESCAPE '\\'"
        )
        assert ask(connection, tables_of_it) == [(2,)]

    assert line.startswith("ATTACH 'ducklake:sqlite:")
    assert line.endswith(";")
    assert "\n" not in line
    assert found == [(5,)]


def test_fields_with_the_columns_of_the_lake_only(home):
    meter = home.meter("growing", FIELDS[:1])
    home.store(meter, [("g-1", "acme", "2026-10-02 00:00:00", None, 5)])
    with home.stores.state.transaction(home.org_id, "test") as transaction:
        grown = Meter.from_wire(meter_document("growing", FIELDS))
        transaction.update(meter.id, 1, grown)
    with closing(opened(publish(home.stores, home.org_id).path)) as connection:
        assert ask(connection, "SELECT bytes, egress, region FROM growing") == [
            (Decimal(5), None, None)
        ]
