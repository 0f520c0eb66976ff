"""Custom SQL: what is allowed gives a number, everything else is refused before it runs."""

from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from meterlake.model.custom_sql import InvalidSql
from meterlake.stores.custom_sql import Checker, Sandbox, SqlLimits, check_query

D = Decimal
COLUMNS = {
    "ts": "TIMESTAMP",
    "uid": "VARCHAR",
    "ets": "TIMESTAMP",
    "received_at": "TIMESTAMP",
    "gb": "DECIMAL(38, 12)",
    "region": "VARCHAR",
}
ROWS = pa.table(
    {
        "ts": pa.array([datetime(2026, 10, 1), datetime(2026, 10, 2), datetime(2026, 10, 2)]),
        "uid": ["u1", "u2", "u3"],
        "ets": pa.array([None, None, None], pa.timestamp("us")),
        "received_at": pa.array([datetime(2026, 10, 3)] * 3),
        "gb": pa.array([D("0.1"), D("0.2"), None], pa.decimal128(38, 12)),
        "region": ["eu", "us", None],
    }
)

ALLOWED = {
    "SELECT sum(gb) FROM measurements": D("0.3"),
    "select count(*) from measurements": D(3),
    "FROM measurements SELECT count(DISTINCT region)": D(2),
    "SELECT sum(gb) FILTER (WHERE region = 'eu') FROM measurements;": D("0.1"),
    "SELECT max(gb) FROM measurements WHERE region IN ('ap')": None,
    "SELECT count(*) FROM measurements WHERE region LIKE 'e%' OR region LIKE '_s'": D(2),
    "SELECT CAST(avg(gb) AS DECIMAL(38, 12)) FROM measurements": D("0.15"),
    "SELECT sum(CASE WHEN region = 'eu' THEN gb * 2 ELSE -gb END) FROM measurements": D(0),
    "WITH d AS (SELECT date_trunc('day', ts) AS day, sum(gb) AS gb FROM measurements GROUP BY 1)"
    " SELECT max(gb) FROM d": D("0.2"),
    "SELECT count(*) FROM measurements a JOIN measurements b ON a.ts < b.ts": D(2),
    "SELECT sum(n) FROM (SELECT row_number() OVER (ORDER BY ts, uid) AS n FROM measurements)": D(6),
    "SELECT count(*) FROM measurements WHERE extract(day FROM ts) = 2 AND ets IS NULL": D(2),
    "SELECT sum(greatest(coalesce(gb, 0), 0.15)) FROM measurements": D("0.5"),
    "SELECT count(*) FROM measurements WHERE ts >= TIMESTAMP '2026-10-01' + INTERVAL 1 DAY": D(2),
    "SELECT count(*) FROM measurements m WHERE EXISTS (SELECT 1 FROM measurements"
    " WHERE uid <> m.uid AND ts = m.ts)": D(2),
    "SELECT 9007199254740993 FROM measurements LIMIT 1": D(9007199254740993),
    "SELECT quantile_disc(gb, 0.5) FROM measurements": D("0.1"),
    "SELECT sum(v) FROM (SELECT 1 AS v UNION ALL SELECT 2)": D(3),
    'SELECT sum("gb") AS "the sum" FROM "measurements"': D("0.3"),
    # The parser's CASE of an operand, beside and within the branches of others.
    "SELECT sum(CASE region WHEN 'case' THEN 1 WHEN 'eu' THEN CASE uid WHEN 'u1' THEN 2 END"
    " ELSE CASE WHEN gb BETWEEN 0 AND 1 THEN 3 END END) FROM measurements": D(5),
    "SELECT max(double) FROM (SELECT gb AS one, one + one AS double FROM measurements)": D("0.4"),
    "SELECT sum(gb)\u00a0/* all */ FROM measurements -- \u00e9": D("0.3"),
    "SELECT sum(nullif(gb, 0.2)) FROM measurements": D("0.1"),
    "SELECT (SELECT max(gb) FROM measurements WHERE ts < (SELECT max(ts) FROM measurements))": D(
        "0.1"
    ),
}

REFUSED = [
    # files and networks
    "SELECT count(*) FROM read_csv('/etc/passwd')",
    "SELECT count(*) FROM '/etc/passwd'",
    "SELECT count(*) FROM 'measurements.parquet'",
    "SELECT count(*) FROM read_parquet('https://example.com/x.parquet')",
    "SELECT count(*) FROM read_text('/proc/self/environ')",
    "SELECT count(*) FROM glob('/*')",
    "SELECT length(content) FROM read_blob('/etc/hosts')",
    "SELECT count(*) FROM sniff_csv('/etc/passwd')",
    "COPY measurements TO '/tmp/x'",
    "COPY (SELECT 1) TO '/tmp/x'",
    "EXPORT DATABASE '/tmp/x'",
    "ATTACH '/tmp/x.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    # other statements
    "CREATE TABLE x AS SELECT 1",
    "INSERT INTO measurements SELECT * FROM measurements",
    "DELETE FROM measurements",
    "SET memory_limit = '10GB'",
    "RESET ALL",
    "PRAGMA database_list",
    "CALL pragma_version()",
    "EXPLAIN ANALYZE SELECT 1",
    "DESCRIBE measurements",
    "SUMMARIZE measurements",
    "SHOW TABLES",
    "SELECT 1; SELECT 2",
    "SELECT 1; DROP TABLE measurements",
    "PREPARE p AS SELECT 1",
    "",
    ";",
    "--",
    # what else is in a database
    "SELECT count(*) FROM duckdb_secrets()",
    "SELECT count(*) FROM duckdb_settings",
    "SELECT count(*) FROM pragma_database_list",
    "SELECT count(*) FROM pragma_table_info('measurements')",
    "SELECT count(*) FROM information_schema.tables",
    "SELECT count(*) FROM main.measurements",
    "SELECT count(*) FROM memory.main.measurements",
    "SELECT count(*) FROM system.information_schema.tables",
    "SELECT count(*) FROM sqlite_master",
    "SELECT count(*) FROM pg_catalog.pg_class",
    "SELECT count(*) FROM other",
    "SELECT count(*) FROM query('SELECT 1')",
    "SELECT count(*) FROM query_table('measurements')",
    "SELECT getenv('HOME')",
    "SELECT current_setting('memory_limit')",
    "SELECT length(version())",
    "SELECT getvariable('x')",
    "SELECT length(current_user)",
    "SELECT nextval('x')",
    "SELECT txid_current()",
    "SELECT json_execute_serialized_sql('x')",
    "SELECT sum(x) FROM json_execute_serialized_sql('x')",
    # what is not the same at every run
    "SELECT random()",
    "SELECT epoch_us(now())",
    "SELECT epoch_us(current_timestamp)",
    "SELECT count(*) FROM measurements WHERE ts < current_date",
    "SELECT count(*) AS current_date FROM measurements WHERE ts < current_date",
    "SELECT count(*) FROM measurements USING SAMPLE 2",
    "SELECT count(*) FROM measurements TABLESAMPLE 50%",
    "SELECT length(uuid())",
    "SELECT any_value(gb) FROM measurements",
    # bombs
    "SELECT count(*) FROM range(1000000000000)",
    "SELECT count(*) FROM generate_series(1, 1000000000000)",
    "SELECT unnest([1, 2])",
    "SELECT count(*) FROM (VALUES (1), (2))",
    "SELECT length(repeat('x', 1000000000))",
    "SELECT length(lpad('x', 1000000000, 'y'))",
    "SELECT length('x' || 'y')",
    "SELECT length(concat('x', 'y'))",
    "SELECT length(replace('aa', 'a', 'aaaaaaa'))",
    "SELECT length(string_agg(uid, ',')) FROM measurements",
    "SELECT length(array_agg(uid)) FROM measurements",
    "SELECT list_sum(list_transform([1, 2], lambda x: x * 2))",
    "SELECT list_sum([x * 2 FOR x IN [1, 2]])",
    "SELECT length(printf('%1000000000d', 1))",
    "SELECT count(row(uid, uid)) FROM measurements",
    "SELECT {'a': 1}.a",
    "SELECT map([1], [2])[1]",
    "SELECT factorial(30)",
    "SELECT regexp_matches(uid, '(a*)*b')::INT FROM measurements",
    "SELECT count(*) FROM measurements WHERE uid LIKE '%a_a%a_a%a_b%'",
    "SELECT count(*) FROM measurements WHERE uid LIKE region",
    "SELECT count(*) FROM measurements WHERE uid ILIKE '%a'",
    "SELECT count(*) FROM measurements WHERE uid SIMILAR TO 'a'",
    "SELECT count(*) FROM measurements WHERE uid GLOB '*'",
    "WITH RECURSIVE a AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM a) SELECT count(*) FROM a",
    "WITH RECURSIVE a AS (SELECT 1 AS x UNION SELECT x FROM a) SELECT count(*) FROM a",
    "WITH a AS (SELECT * FROM a) SELECT count(*) FROM a",
    "SELECT count(*) FROM " + ", ".join(["measurements"] * 17),
    (
        "WITH a AS (SELECT 1 AS x FROM measurements, measurements),"
        "b AS (SELECT 1 AS x FROM a, a), c AS (SELECT 1 AS x FROM b, b),"
        "d AS (SELECT 1 AS x FROM c, c, c) SELECT count(*) FROM d"
    ),
    "SELECT " + "(" * 1990 + "1" + ")" * 50,
    "SELECT "
    + "CASE WHEN 1=1 THEN " * 80
    + "1"
    + " END" * 80
    + " FROM (FROM measurements"
    + ")" * 60,
    "SELECT count(*) FROM measurements WHERE uid IN (" + ", ".join(["1"] * 700) + ")",
    # bombs that go off before the query runs, where no limit of time holds
    "SELECT " + "(SELECT " * 40 + "1" + ")" * 40,
    "SELECT count(*) FROM measurements WHERE " + "EXISTS (SELECT 1 WHERE " * 40 + "1=1" + ")" * 40,
    "SELECT count(" + "(" * 40 + "gb" + " BETWEEN 1 AND 2)" * 40 + ") FROM measurements",
    "SELECT c30 FROM (SELECT 1 AS c0, "
    + ", ".join(f"c{n} + c{n} AS C{n + 1}" for n in range(30))
    + ")",
    "WITH c0 AS (SELECT 1 AS x), "
    + ", ".join(f"c{n + 1} AS (SELECT (SELECT x FROM C{n}) AS x)" for n in range(30))
    + " SELECT x FROM c30",
    "SELECT max(" + "nullif(" * 40 + "gb" + ", 2)" * 40 + ") FROM measurements",
    "SELECT max(" + "CASE " * 40 + "gb" + " WHEN 1 THEN 1 WHEN 2 THEN 2 END" * 40 + ")",
    "SELECT " + "CASE\u00a0" * 30 + "gb" + " WHEN 1 THEN 1 WHEN 2 THEN 2 END" * 30,
    "SELECT " + "cAsE--\n/*WHEN*/(" * 30 + "gb" + ") WHEN 1 THEN 1 WHEN 2 THEN 2 END" * 30,
    # texts that are none
    "SELECT sum(gb)\0 FROM measurements",
    "SELECT sum(gb) AS \ud800 FROM measurements",
    # parameters, macros, odd corners
    "SELECT $1",
    "SELECT ?",
    "SELECT count(COLUMNS(*)) FROM measurements",
    "SELECT count(*) FROM measurements AT (VERSION => 1)",
    "SELECT main.sum(gb) FROM measurements m, other.measurements",
    "PIVOT measurements ON region USING sum(gb)",
    "SELECT gb::JSON FROM measurements",
    "SELECT 'x'::BLOB",
    "SELECT sum(gb COLLATE NOCASE) FROM measurements",
    "SELECT sum(nothing) FROM measurements",
    "SELECT system.main.getenv('HOME')",
]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as opened:
        yield opened


def value(sandbox, sql, rows=ROWS):
    check_query(sql, COLUMNS)
    sandbox.put(rows)
    return sandbox.value(sql)


@pytest.mark.parametrize("sql", ALLOWED)
def test_what_is_allowed_gives_an_exact_number(sandbox, sql):
    assert value(sandbox, sql) == ALLOWED[sql]


@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_not_listed_is_refused_without_running(sql):
    with pytest.raises(InvalidSql):
        check_query(sql, COLUMNS)


@pytest.mark.parametrize("sql", [each for each in REFUSED if "/etc" in each])
def test_the_sandbox_reads_no_files_even_where_nothing_was_checked(sandbox, sql):
    sandbox.put(ROWS)
    with pytest.raises(InvalidSql) as caught:
        sandbox.value(sql)
    assert "root:" not in str(caught.value)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT avg(gb) FROM measurements", "DOUBLE, which is not exact"),
        ("SELECT sum(gb) / 2 FROM measurements", "DOUBLE, which is not exact"),
        ("SELECT max(uid) FROM measurements", "gives VARCHAR, not a number"),
        ("SELECT max(ts) FROM measurements", "gives TIMESTAMP, not a number"),
        ("SELECT count(*) > 1 FROM measurements", "gives BOOLEAN, not a number"),
        ("SELECT sum(gb), count(*) FROM measurements", "gives 2 columns, not one"),
        ("SELECT gb FROM measurements", "gives several rows, not one"),
        ("SELECT sum(gb) FROM measurements HAVING count(*) > 9", "gives no row, not one"),
        ("SELECT CAST(max(uid) AS INTEGER) FROM measurements", "Could not convert"),
    ],
)
def test_one_exact_number_or_a_reason(sandbox, sql, reason):
    with pytest.raises(InvalidSql, match=reason):
        value(sandbox, sql)


@pytest.mark.parametrize(
    ("sql", "position"),
    [
        ("SELECT sum(gb) FORM measurements", 20),
        ("SELECT sum(gb) + random() FROM measurements", 17),
        ("SELECT sum(bytes) FROM measurements", 11),
        ("SELECT count(*) FROM usage", 21),
    ],
)
def test_the_place_is_told(sql, position):
    with pytest.raises(InvalidSql, match=f"at character {position + 1}$") as caught:
        check_query(sql, COLUMNS)
    assert caught.value.position == position


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT sum(region) FROM measurements", "No function matches.* at character 8$"),
        ("SELECT avg(gb) FROM measurements", "DOUBLE, which is not exact"),
        ("SELECT max(uid) FROM measurements", "gives VARCHAR, not a number"),
        ("SELECT sum(gb), count(*) FROM measurements", "gives 2 columns, not one"),
        ("SELECT sum(m.gb) FROM measurements", "m.* at character 12$"),
    ],
)
def test_what_does_not_fit_is_known_without_running(sql, reason):
    check_query(sql, COLUMNS)
    with Checker() as own, pytest.raises(InvalidSql, match=reason):
        own.bind(sql, COLUMNS)


@pytest.mark.parametrize("sql", [*ALLOWED, "SELECT gb FROM measurements"])
def test_what_fits_is_known_without_running(sql):
    with Checker() as own:
        own.check(sql, COLUMNS)
        own.bind(sql, COLUMNS)


def test_what_would_run_for_hours_is_bound_and_not_run():
    rows = "SELECT 1 AS x" + " UNION ALL SELECT 1" * 30
    sql = f"WITH t AS NOT MATERIALIZED ({rows}) SELECT count(*) FROM " + ", ".join(
        f"t AS t{n}" for n in range(8)
    )
    with Checker() as own:
        own.check(sql, COLUMNS)
        own.bind(sql, COLUMNS)
    with Sandbox(SqlLimits(seconds=0.1)) as other, pytest.raises(InvalidSql, match="longer than"):
        other.value(sql)


WORDS = {**COLUMNS, "user": "DECIMAL(38, 12)", "Current_Date": "VARCHAR", "rowid": "VARCHAR"}


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT sum(measurements.user) FROM measurements", 7),
        ('SELECT sum(m."USER") FROM measurements AS m', 7),
        ("SELECT count(m.current_date) FROM measurements AS m", 1),
        ("SELECT count(s.rowid) FROM (SELECT * FROM measurements) AS s", 1),
    ],
)
def test_a_field_with_a_word_of_the_session_is_read_by_its_table(sandbox, sql, expected):
    rows = pa.table(
        {
            **{name: ROWS.slice(0, 1).column(name) for name in COLUMNS},
            "user": pa.array([D(7)], pa.decimal128(38, 12)),
            "Current_Date": ["x"],
            "rowid": ["y"],
        }
    )
    check_query(sql, WORDS)
    with Checker() as own:
        own.bind(sql, WORDS)
    sandbox.put(rows)
    assert sandbox.value(sql) == expected


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT sum(user) FROM measurements", "say measurements.user, at character 12$"),
        ('SELECT sum("user") FROM measurements', "say measurements.user"),
        # Its column is out of reach there, and DuckDB would take the session's.
        ("SELECT length(user) FROM (SELECT gb FROM measurements)", "say measurements.user"),
        ("SELECT length(current_user) FROM measurements", "current_user is not allowed"),
        ("SELECT count(m.current_user) FROM measurements m", "current_user is not allowed"),
        ("SELECT max(s.current_role) FROM (SELECT 1 AS current_role) s", "is not allowed"),
    ],
)
def test_a_word_of_the_session_without_its_table_is_refused(sql, reason):
    with pytest.raises(InvalidSql, match=reason):
        check_query(sql, WORDS)


KEYWORDS = {**COLUMNS, "order": "DECIMAL(38, 12)", "Left": "VARCHAR", "end": "VARCHAR"}


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("SELECT sum(order) FROM measurements", "order"),
        ("SELECT count(*) FROM measurements WHERE order > 1", "order"),
        ("SELECT count(LEFT) FROM measurements", "Left"),
        ("SELECT count(end) FROM measurements ORDER BY 1", "end"),
        ("SELECT sum(order) FROM measurements GROUP BY", "order"),
    ],
)
def test_a_field_with_a_word_of_sql_is_told_how_to_be_written(sql, written):
    with pytest.raises(InvalidSql, match=f'the field {written} has to be written "{written}"'):
        check_query(sql, KEYWORDS)


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT sum("order") FROM measurements',
        "SELECT sum(m.order) FROM measurements m ORDER BY 1",
        'SELECT count("left") FROM measurements',
    ],
)
def test_a_field_with_a_word_of_sql_is_read_in_quotes_or_by_its_table(sql):
    with Checker() as own:
        own.check(sql, KEYWORDS)
        own.bind(sql, KEYWORDS)


def test_other_errors_do_not_blame_the_fields():
    with pytest.raises(InvalidSql, match=r'near "measurements", at character 21$'):
        check_query("SELECT sum(gb) FORM measurements ORDER BY 1", KEYWORDS)


def test_depth_is_no_danger(sandbox):
    assert value(sandbox, "SELECT " + "- " * 900 + "1 FROM measurements LIMIT 1") == 1
