"""`meterlake sql`: queries from the command line, a file or typed ones; tables, CSV and Parquet."""

import csv
import io
import json
import re
import subprocess
import sys
from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from meterlake.cli import run

WIDE = "SELECT sum(n) AS total, sum(n) AS total, 1.50::DECIMAL(38,12) AS price FROM"
ROWS = "(VALUES (9007199254740993::BIGINT), (9007199254740993::BIGINT)) AS t(n) -- all of them"


@pytest.fixture
def ask(sample_home, capsys):
    """Run the command; gives its exit code and what it prints."""

    def asked(*arguments: str) -> tuple[int, str, str]:
        code = run([*arguments, "--home", str(sample_home)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return asked


def test_csv_has_every_row_with_all_digits(ask):
    code, out, _ = ask("sql", "--csv", f"{WIDE} {ROWS}\n;")

    assert code == 0
    assert list(csv.reader(io.StringIO(out))) == [
        ["total", "total_2", "price"],
        ["18014398509481986", "18014398509481986", "1.5"],
    ]


@pytest.mark.long
def test_more_rows_than_a_table_shows_are_in_a_file(ask, tmp_path):
    query, out = tmp_path / "query.sql", tmp_path / "out" / "rows.csv"
    query.write_text("SELECT range AS n, 'a,\"b' AS text FROM range(2500) ORDER BY n", "utf-8")

    assert ask("sql", "--file", str(query), "--csv", "--out", str(out))[:2] == (0, "")
    rows = list(csv.reader(io.StringIO(out.read_text("utf-8"))))
    assert (len(rows), rows[0], rows[-1]) == (2501, ["n", "text"], ["2499", 'a,"b'])


@pytest.mark.long
def test_parquet_has_types_without_loss(ask, tmp_path):
    out = tmp_path / "rows.parquet"
    query = f"{WIDE} {ROWS}"
    assert ask("sql", "--parquet", "--out", str(out), query)[0] == 0
    table = pq.read_table(out)

    assert table.schema.field("total").type == pa.decimal128(38, 0)
    assert table.to_pylist() == [
        {
            "total": Decimal(18014398509481986),
            "total_2": Decimal(18014398509481986),
            "price": Decimal("1.500000000000"),
        }
    ]
    assert ask("sql", "--parquet", "--out", str(out), "SELECT published_at FROM about")[0] == 0
    [row] = pq.read_table(out).to_pylist()
    assert isinstance(row["published_at"], datetime)


def test_json_goes_to_a_file(ask, tmp_path):
    out = tmp_path / "rows.jsonl"
    assert (
        ask("sql", "--json", "--out", str(out), "SELECT 1 AS n UNION ALL SELECT 2 ORDER BY n")[0]
        == 0
    )
    assert [json.loads(line) for line in out.read_text("utf-8").splitlines()] == [
        {"n": 1},
        {"n": 2},
    ]


@pytest.mark.long
def test_queries_are_typed_one_after_the_other(ask, monkeypatch):
    typed = "SELECT 41 + 1 AS n\n  WHERE true;\nSELEC 1;\nDROP TABLE account;\nSELECT 'last' AS word;\nexit\nSELECT 99;\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    code, out, err = ask("sql", "-i")

    assert code == 0
    assert "42" in out
    assert "last" in out
    assert "99" not in out
    assert len(err.splitlines()) == 2
    assert "DROP" in err


BILLS = """(VALUES
    ('a', 'EUR', 225.2::DECIMAL(38,12), 1::DECIMAL(38,12)),
    ('b', 'KWD', 225.2, 2), ('c', 'JPY', 225, 3), ('d', 'JPY', 0.123456789012, 4),
    ('e', 'EUR', 12345678901234567890123456.123456789012, 5)
) AS t(account, currency, amount, units)"""
CURRENCIES = """currencies:
  - {code: KWD, name: Kuwaiti dinar, maxDecimalPlaces: 3, roundingMode: HALF_UP}
  - {code: JPY, name: Yen, maxDecimalPlaces: 0, roundingMode: HALF_UP}
"""


@pytest.mark.long
def test_amounts_have_the_decimals_of_the_currency_beside_them(home, capsys, tmp_path):
    file = tmp_path / "currencies.yaml"
    file.write_text(CURRENCIES)
    at = ["--home", str(home)]
    assert run(["config", "apply", str(file), *at]) == 0
    capsys.readouterr()

    assert run(["sql", f"SELECT account, currency, amount, units FROM {BILLS}", *at]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[2:7]]
    assert rows == [
        ["a", "EUR", "225.20", "1"],
        ["b", "KWD", "225.200", "2"],
        ["c", "JPY", "225", "3"],
        ["d", "JPY", "0.123456789012", "4"],
        ["e", "EUR", "12,345,678,901,234,567,890,123,456.123456789012", "5"],
    ]
    # Without a currency they have the decimals that all of the organization's have: yen has none.
    assert run(["sql", f"SELECT amount AS cost FROM {BILLS} LIMIT 1", *at]) == 0
    assert capsys.readouterr().out.split()[-1] == "225.2"
    # What programs read is as it was.
    assert run(["sql", "--csv", f"SELECT currency, amount FROM {BILLS} LIMIT 2", *at]) == 0
    assert capsys.readouterr().out == "currency,amount\nEUR,225.2\nKWD,225.2\n"
    assert run(["sql", "--json", f"SELECT currency, amount FROM {BILLS} LIMIT 1", *at]) == 0
    assert capsys.readouterr().out == '{"currency":"EUR","amount":225.2}\n'


def test_a_number_keeps_the_decimals_that_its_query_gives_it(ask):
    query = "SELECT 225.2::DECIMAL(18,2) AS cost, 1.5::DECIMAL(9,4) AS x, 2::DECIMAL(38,12) AS y"

    assert ask("sql", query)[1].splitlines()[2].split() == ["225.20", "1.5000", "2"]


@pytest.mark.long
def test_amounts_of_published_tables_have_decimals_without_a_currency(ask):
    query = "SELECT 7.5::DECIMAL(38,12) AS total, standing_charge FROM {} WHERE code = 'storage'"

    known = ask("sql", query.format("plan_template"))[1].splitlines()[2]
    assert known.split() == ["7.50", "4.90"]
    usage = "SELECT sum(measurements)::DECIMAL(38,12) AS total FROM usage_per_day WHERE meter = 'storage'"
    assert re.fullmatch(r"[\d,]+", ask("sql", usage)[1].split()[-1])


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "a query, --file or --interactive is required"),
        (("--csv", "--parquet", "SELECT 1"), "--csv and --parquet exclude each other"),
        (("--csv", "--json", "SELECT 1"), "--csv and --json exclude each other"),
    ],
)
def test_wrong_usage_is_told(ask, arguments, sentence):
    code, out, err = ask("sql", *arguments)

    assert (code, out) == (2, "")
    assert sentence in err


def test_a_query_comes_from_the_standard_input(ask, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("SELECT 5 AS five"))

    assert ask("sql", "--file", "-", "--csv")[:2] == (0, "five\n5\n")


@pytest.mark.long
def test_whoever_reads_no_further_ends_the_command_quietly(sample_home):
    """As `meterlake sql --parquet … | head` does."""
    script = "import sys; from meterlake.cli import run; sys.exit(run(sys.argv[1:]))"
    query = "SELECT uuid() FROM range(200000)"
    command = [sys.executable, "-c", script, "sql", "--parquet", query, "--home", str(sample_home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.read(4) == b"PAR1"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--out", "x.csv", "SELECT 1"), "--csv, --parquet or --json"),
        (("--file", "none.sql"), "readable text file"),
        (("--file", "none.sql", "SELECT 1"), "when you give a query"),
        (("-i", "--csv"), "alone"),
        (("--parquet", "--out", "x.parquet", "EXPLAIN SELECT 1"), "EXPLAIN"),
        (("--parquet", "--out", "x.parquet", "SELECT nothing"), "nothing"),
        (("--csv", "--out", "x.csv", "DELETE FROM account"), "only reading"),
    ],
)
def test_what_does_not_go_together_is_refused(ask, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    code, out, err = ask("sql", *arguments)

    assert (code, out) == (1, "")
    assert sentence in err
    assert not list(tmp_path.iterdir())
