"""Read-only SQL: what it sees, and everything that it must not do."""

import pytest

import sample_data
from meterlake.model.errors import BadQuery
from meterlake.pipeline.config import apply_configuration
from meterlake.pipeline.home.setup import initialize
from meterlake.pipeline.ingest.files import ingest_files
from meterlake.pipeline.publish.query import query
from meterlake.settings import Settings
from meterlake.stores import open_stores


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    settings = Settings(home=tmp_path_factory.mktemp("query") / "ho me", threads=1)
    initialize(settings, "Halvorsen Cloud")
    with open_stores(settings) as stores:
        organization = stores.find_organization()
        documents = apply_configuration.read_documents([sample_data.CONFIGURATION])
        apply_configuration.apply(stores.state, organization.id, documents, "test")
        names = ("14-seats-days-21-31.ndjson", "12-api-bad-rows.ndjson")
        paths = [sample_data.MEASUREMENTS / name for name in names]
        assert len(list(ingest_files(organization, paths))) == 2
        yield organization


def ask(opened, statement):
    with query(opened, statement) as answer:
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]


def test_meters_are_known_by_their_codes_and_accounts_by_theirs(opened):
    rows = ask(opened, "SELECT account, max(seats) AS seats FROM seats GROUP BY ALL ORDER BY 1")

    assert rows[0]["account"] == "almgren-arkitekter"
    assert len(rows) == 36


def test_a_meter_without_measurements_is_an_empty_view(opened):
    assert ask(opened, "SELECT count(*) AS n, sum(input_tokens) AS s FROM llm_tokens") == [
        {"n": 0, "s": None}
    ]


@pytest.mark.parametrize(
    "source",
    [
        "account",
        '"ACCOUNT"',
        "main.account",
        "(SELECT * FROM account)",
        "seats s JOIN account ON account.id = s.account_id",
        "query_table('account')",
        "account_at(now())",
    ],
)
def test_what_reads_accounts_sees_all_of_them(opened, source):
    """Other statements know accounts by id and code only, which is faster."""
    name = "Almgren Arkitekter AB"
    assert {"name": name} in ask(opened, f"SELECT DISTINCT name FROM {source}")
    plan = ask(opened, f"EXPLAIN SELECT name FROM {source} WHERE name = '{name}'")
    assert plan


@pytest.mark.long
@pytest.mark.parametrize(
    "statement",
    [
        "SELECT comment FROM duckdb_views() WHERE view_name = 'seats'",
        "SELECT meaning AS comment FROM dictionary WHERE name = 'seats' AND column_name IS NULL",
    ],
)
def test_whoever_reads_comments_finds_them(opened, statement):
    """Statements that list tables without their comments do not wait for these."""
    [row] = ask(opened, statement)
    assert "seat" in row["comment"].casefold()


@pytest.mark.long
def test_rejected_rows_say_why(opened):
    [row] = ask(opened, "SELECT name, original FROM rejected WHERE reason = 'MalformedRow'")

    assert row["name"] == "12-api-bad-rows.ndjson"
    assert row["original"].startswith('{"uid":')


@pytest.mark.parametrize(
    "statement",
    [
        "SHOW TABLES",
        "DESCRIBE seats",
        "SUMMARIZE seats",
        "WITH a AS (SELECT 1) FROM a",
        "VALUES (1)",
        "EXPLAIN FROM seats",
        "explain analyze SELECT count(*) FROM seats",
        "FROM seats WHERE account IN (SELECT code FROM account) LIMIT 1",
        "FROM range(3)",
        "FROM lake.source AT (VERSION => 3) LIMIT 1",
        "FROM quantity",
        "FROM source;",
    ],
)
def test_reading_is_possible(opened, statement):
    ask(opened, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "",
        "-- nothing",
        "SELECT 1; SELECT 2",
        "SELEC 1",
        "FROM nosuch",
        "SELECT seat FROM seats",
        "DELETE FROM lake.source",
        "CREATE TABLE t AS SELECT 1",
        "SET threads = 8",
        "ATTACH 'x.db'",
        "LOAD httpfs",
        "LOAD '/tmp/own.duckdb_extension'",
        "INSTALL httpfs",
        "CALL ducklake_expire_snapshots('lake', older_than => now())",
        "COPY (SELECT 1) TO 'x.csv'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'x.csv'",
        "EXPLAIN ANALYZE DELETE FROM lake.source",
        "FROM read_csv('/etc/passwd')",
        "FROM read_text('/etc/passwd')",
        "FROM '/etc/passwd'",
        "FROM glob('/etc/*')",
        "FROM query('SELECT 1')",
        "FROM ducklake_cleanup_old_files('lake', cleanup_all => true)",
        "SELECT * FROM seats WHERE account IN (FROM sqlite_scan('x', 'y'))",
        "FROM sqlite_query('__ducklake_metadata_lake', 'DELETE FROM ducklake_table')",
        "SELECT error('boom')",
    ],
)
def test_anything_else_is_refused_in_one_sentence(opened, statement):
    with pytest.raises(BadQuery, match=r"^query: .+") as refused:
        ask(opened, statement)

    assert "\n" not in str(refused.value)


@pytest.mark.long
def test_another_database_of_the_home_cannot_be_read(opened):
    with pytest.raises(BadQuery, match="sqlite_scan is not available"):
        ask(opened, f"FROM sqlite_scan('{opened.stores.home}/state.sqlite', 'access_key')")


def test_columns_have_names_of_their_own(opened):
    [row] = ask(opened, "SELECT 1 AS a, 2 AS a, 3 AS a")

    assert row == {"a": 1, "a_2": 2, "a_3": 3}


def test_the_first_rows_come_before_the_last_are_made(opened):
    with query(opened, "FROM range(100000000)") as answer:
        assert next(answer.rows) == (0,)
