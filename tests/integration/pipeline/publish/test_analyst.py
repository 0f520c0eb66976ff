"""The two doors of an analyst: same names, everything of the documentation runs, no secrets."""

import pathlib
import re
import tomllib
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pytest
import yaml

from meterlake.cli.reference import dictionary
from meterlake.model.catalog.catalog import Product
from meterlake.model.configuration.integrations import IntegrationConfig, WebhookDestination
from meterlake.model.customers.accounts import Account
from meterlake.model.resources import RESOURCES
from meterlake.pipeline.publish.query import query
from meterlake.pipeline.publish.run import attach_line, publish
from meterlake.pipeline.publish.views import create_views
from meterlake.stages.publish.entities import ENTITY_TABLES, entity_table_name
from meterlake.stages.publish.views import folder_name
from meterlake.stores import open_stores
from meterlake.stores.lake.connection import open_duckdb
from tests.doubles.homes import START, furnish, make_home

ROOT = Path(__file__).parents[4]
DOCUMENT = (ROOT / "docs" / "analyst.md").read_text("utf-8")
QUERIES = re.findall(r"```sql\n(.*?);\n```", DOCUMENT, re.DOTALL)
# Those of the live lake beside the published file; the others ask the file alone.
LIVE = [each for each in QUERIES if "FROM live." in each]
SQL = [each for each in QUERIES if each not in LIVE]
PYTHON = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
AGAIN = datetime(2026, 11, 4, 9, 30, 0, 1, tzinfo=UTC)
SECRET = "very-secret-indeed-0123456789"


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    made, clock = make_home(tmp_path_factory.mktemp("door") / "home")
    with open_stores(made, clock) as stores:
        home = furnish(stores, clock)
        add_webhook(home)
        clock.time = AGAIN
        go_and_come_again(home, clock)
        clock.time = START + timedelta(days=2)
        rename(home, "acme", "Acme & Co")
        yield home, publish(stores.organization(home.org_id), parquet=True)


@pytest.fixture
def warehouse(door):
    with closing(duckdb.connect(str(door[1].path), read_only=True)) as connection:
        yield connection


def add_webhook(home) -> None:
    with home.organization.transaction("test") as t:
        credentials = {
            "type": "M3TER_SIGNED_REQUEST",
            "apiKey": "key",
            "secret": home.stores.secrets.encrypt(SECRET),
        }
        hook = t.create(
            WebhookDestination.from_wire(
                {
                    "name": "hook",
                    "description": "d",
                    "url": f"https://example.com/{SECRET}",
                    "credentials": credentials,
                }
            )
        )
        t.create(
            IntegrationConfig.from_wire(
                {
                    "entityType": "Notification",
                    "destination": "WEBHOOK",
                    "destinationId": hook.id,
                    "configData": {"token": SECRET},
                }
            )
        )


def go_and_come_again(home, clock) -> None:
    """A product from microsecond to microsecond: one name, another one, none, another product."""
    state = home.stores.state
    with state.transaction(home.org_id, "test") as t:
        first = t.create(Product.from_wire({"name": "one", "code": "again"}))
    clock.later(microseconds=1)
    with state.transaction(home.org_id, "test") as t:
        t.update(first.id, 1, first.entity.model_copy(update={"name": "two"}))
    clock.later(microseconds=1)
    with state.transaction(home.org_id, "test") as t:
        t.delete(Product, first.id)
    clock.later(microseconds=1)
    with state.transaction(home.org_id, "test") as t:
        t.create(Product.from_wire({"name": "three", "code": "again"}))


def rename(home, code: str, name: str) -> None:
    with home.organization.transaction("someone") as t:
        record = t.find(Account, code)
        renamed = record.entity.model_copy(update={"name": name})
        t.update(record.id, record.version, renamed)


def columns(connection, schema="main") -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, kind in connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns()"
        " WHERE NOT internal AND schema_name = ? AND database_name NOT IN ('lake', 'system')"
        " AND database_name NOT LIKE '\\_\\_%' ESCAPE '\\'"
        " ORDER BY table_name, column_index",
        [schema],
    ).fetchall():
        found.setdefault(table, []).append((column, kind))
    return found


@pytest.mark.long
def test_every_kind_of_entity_is_a_table_with_a_history_and_a_macro(warehouse):
    tables = columns(warehouse)
    macros = {
        name
        for (name,) in warehouse.execute(
            "SELECT function_name FROM duckdb_functions() WHERE NOT internal"
        ).fetchall()
    }
    for resource in RESOURCES:
        name = entity_table_name(resource.entity)
        assert {name, f"{name}_history"} <= set(tables)
        assert f"{name}_at" in macros


# What is calculated for the tables of now, and no history has.
CALCULATED = {
    "account": {"country"},
    "account_plan": {"product_id"},
    "balance": {"amount"},
    "commitment": {"amount_spent"},
    "meter": {"table_name"},
    "plan": {
        *("product_id", "plan_template_name", "currency", "bill_frequency"),
        "effective_standing_charge",
    },
    "pricing": {"aggregation_type"},
}


def test_names_and_types_stay(warehouse):
    """A column that is renamed or changes its type breaks what analysts wrote."""
    pinned = tomllib.loads((ROOT / "tests" / "golden" / "warehouse.toml").read_text("utf-8"))
    now = {table: dict(found) for table, found in columns(warehouse).items()}
    for table, names in pinned.items():
        assert {name: now[table].get(name) for name in names} == names, table
        past = now.get(f"{table}_history")
        if past is not None:
            kept = {
                name: kind for name, kind in names.items() if name not in CALCULATED.get(table, ())
            }
            kept |= {"valid_from": "TIMESTAMP", "valid_to": "TIMESTAMP"}
            assert {name: past.get(name) for name in kept} == kept, table
    assert set(pinned) >= {name for name in now if not name.endswith("_history")}


@pytest.mark.long
def test_both_doors_have_the_same_names_and_columns(door, warehouse):
    home, _ = door
    statement = (
        "SELECT table_name, column_name, data_type FROM duckdb_columns()"
        " WHERE NOT internal AND database_name = 'memory' AND schema_name = 'main'"
        " AND table_name != 'documents' ORDER BY table_name, column_index"
    )
    with query(home.organization, statement) as answer:
        live: dict[str, list[tuple[str, str]]] = {}
        for table, column, kind in answer.rows:
            live.setdefault(table, []).append((column, kind))

    assert live == columns(warehouse)
    both = columns(warehouse, "live")
    assert both == {name: live[name] for name in both}
    assert {"disk", "quantity", "source", "rejected", "calculation_error"} <= set(both)


def test_the_dictionary_in_the_documents_is_that_of_the_code():
    assert (ROOT / "docs" / "dictionary.md").read_text("utf-8") == dictionary()


@pytest.fixture(scope="module")
def live(door):
    home, _ = door
    with closing(open_duckdb("200MB", 1, home.stores.home / "spill")) as connection:
        connection.execute(attach_line(home.organization))
        create_views(connection, home.organization)
        yield connection


# The small home has nothing of these.
EMPTY = (
    *("calculation_error", "rejected_per_reason", "source", "ingest_health"),
    *("balance", "commitment", "posting", "unbilled_usage", "late_usage"),
    "bill WHERE status = 'APPROVED'",
)


@pytest.mark.parametrize("statement", SQL)
def test_every_documented_query_runs_behind_both_doors(warehouse, live, statement):
    found = warehouse.execute(statement).fetchall()
    now = live.execute(statement).fetchall()

    assert bool(found) == all(f"FROM {name}" not in statement for name in EMPTY)
    if " ORDER BY " in statement and "dictionary" not in statement:
        assert now == found
    assert len(now) == len(found)


@pytest.mark.parametrize("name", ["account_at('2026-11-04')", "plan", "pricing_history", "bill"])
def test_the_command_knows_what_a_query_names(door, warehouse, name):
    home, _ = door
    with query(home.organization, f"SELECT count(*) FROM {name}") as answer:
        assert list(answer.rows) == warehouse.execute(f"SELECT count(*) FROM {name}").fetchall()


@pytest.mark.long
def test_the_live_schema_reads_the_lake_as_it_is(door):
    home, published = door
    with closing(open_duckdb("200MB", 1, home.stores.home / "spill")) as connection:
        connection.execute(f"ATTACH '{published.path}' AS warehouse (READ_ONLY)")
        connection.execute("USE warehouse")
        connection.execute(attach_line(home.organization))
        assert len(LIVE) == 2
        for statement in LIVE:
            connection.execute(statement).fetchall()
        assert connection.execute("SELECT count(*), max(account) FROM live.disk").fetchall() == [
            (5, "zoë's")
        ]
        connection.execute("SET search_path = 'warehouse.live,warehouse.main'")
        for statement in SQL:
            connection.execute(statement).fetchall()


@pytest.mark.long
def test_a_script_opens_the_live_lake_by_the_same_names(door):
    home, published = door
    assert published.live.parent == published.path.parent
    with closing(duckdb.connect(config={"autoinstall_known_extensions": False})) as connection:
        connection.execute(published.live.read_text("utf-8"))
        for statement in SQL:
            connection.execute(statement).fetchall()
        table = f'lake."m_{home.meter_id}"'
        [[live, stored]] = connection.execute(
            f"SELECT (SELECT count(account) FROM disk), (SELECT count(*) FROM {table})"
        ).fetchall()
        views = "SELECT DISTINCT schema_name FROM duckdb_views() WHERE view_name = 'disk'"
        schemas = {name for (name,) in connection.execute(views).fetchall()}
        with pytest.raises(duckdb.Error):
            connection.execute("DELETE FROM account")

    assert live == stored == 5
    assert schemas == {"live", "main"}


def test_dbt_knows_every_table_and_column(door, warehouse):
    document = yaml.safe_load(door[1].path.with_name("sources.yml").read_text("utf-8"))
    [source] = document["sources"]
    named = {
        each["name"]: [column["name"] for column in each["columns"]] for each in source["tables"]
    }
    described = [*source["tables"], *(c for each in source["tables"] for c in each["columns"])]

    assert document["version"] == 2
    assert named == {
        table: sorted(name for name, _ in found) for table, found in columns(warehouse).items()
    }
    assert all(each["description"] for each in described)


def test_configuration_is_read_as_it_was(warehouse):
    [before] = warehouse.execute(
        "SELECT name, version FROM account_at(?) WHERE code = 'acme'", [START + timedelta(days=1)]
    ).fetchall()
    [now] = warehouse.execute(
        "SELECT name, version FROM account_at(?::TIMESTAMP) WHERE code = 'acme'",
        [(START + timedelta(days=2)).replace(tzinfo=None)],
    ).fetchall()
    none = warehouse.execute("FROM account_at('2020-01-01')").fetchall()

    assert (before, now, none) == (("acme, Inc.", 1), ("Acme & Co", 2), [])
    versions = warehouse.execute(
        "SELECT name, modified_by FROM account_history WHERE code = 'acme' ORDER BY version"
    ).fetchall()
    assert versions == [("acme, Inc.", "test"), ("Acme & Co", "someone")]


INSTANTS = (
    "'2026-11-04 09:30:00.00000{0}'",
    "TIMESTAMP '2026-11-04 09:30:00.00000{0}'",
    "'2026-11-04T09:30:00.00000{0}Z'",
    "'2026-11-04 10:30:00.00000{0}+01'",
    "TIMESTAMPTZ '2026-11-04 04:30:00.00000{0}-05'",
)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_what_went_and_came_again_is_right_at_the_microsecond_in_any_session(warehouse, zone):
    warehouse.execute(f"SET TimeZone = '{zone}'")
    for number, expected in enumerate(("", "one", "two", "", "three", "three")):
        for instant in INSTANTS:
            names = f"SELECT name FROM product_at({instant.format(number)}) WHERE code = 'again'"
            found = warehouse.execute(names).fetchall()
            assert "".join(name for (name,) in found) == expected, instant
    [[now]] = warehouse.execute(
        "SELECT count(*) FROM product_at(now()) WHERE code = 'again'"
    ).fetchall()
    assert now == 1


def test_no_secret_leaves_by_any_door(door, warehouse):
    home, published = door
    with home.organization.reading() as reader:
        [hook] = reader.all(WebhookDestination)
    stored = hook.entity.credentials.secret
    for path in published.path.parent.rglob("*"):
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes()
            assert stored.encode() not in path.read_bytes()
    assert warehouse.execute("SELECT name FROM webhook_destination_history").fetchall() == [
        ("hook",)
    ]
    hidden = {"credentials", "url", "config_data"}
    for each in ENTITY_TABLES:
        if each.kind in {WebhookDestination, IntegrationConfig}:
            names = {column.name for column in (*each.current.columns, *each.history.columns)}
            assert names & hidden <= {"credentials"}
            assert each.kind is IntegrationConfig or not names & hidden


@pytest.mark.long
def test_every_documented_line_of_python_runs(door, monkeypatch):
    _, published = door
    monkeypatch.chdir(published.path.parent)
    assert len(PYTHON) == 7
    for line in PYTHON:
        assert line.startswith("# pip install ")
        names = {"duckdb": duckdb, "polars": pl, "pandas": pd, "pathlib": pathlib}
        exec(line, names)  # the documented line itself
        if "usage" in names:
            assert sorted(names["usage"]["uid"]) == ["U-2", "u-1", "u-3", "u-4", "ü"]
        if "accounts" in names:
            assert len(names["accounts"]) == 2


def test_parquet_files_keep_types_and_months(door):
    _, published = door
    with closing(duckdb.connect()) as connection:
        found = connection.execute(
            f"SELECT month, uid, bytes, ts FROM read_parquet('{published.parquet}/disk/*/*.parquet')"
            " ORDER BY ts"
        ).fetchall()
    assert found[0] == (
        "2026-09",
        "U-2",
        Decimal("99999999999999999999999999.999999999999"),
        datetime(2026, 9, 30, 22, 30),
    )
    assert [row[0] for row in found] == ["2026-09", *["2026-10"] * 3, "2026-11"]


@pytest.mark.parametrize("name", ["a/b", "..", ".", "a*b", "x?[y]", "a=b", "😀" * 80])
def test_no_name_of_a_meter_leaves_its_folder(name):
    folder = folder_name(name)
    assert len(folder.encode()) <= 255
    assert folder not in {"", ".", ".."}
    assert not set("/*?[]=") & set(folder)
