"""`meterlake aggregate`, `explain` and `late`: what they print, and how they fail."""

import importlib
import json
import shutil
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

import sample_data
from meterlake.cli import run
from meterlake.cli.shell.options import Options

STORAGE = "stored_gigabytes"
# What takes longer to import than a look at a home does; the last ones where they are installed.
HEAVY = ("numpy", "polars", "pyarrow", "prefect", "boto3", "google", "cryptography", "pandas")
# Runs commands, and tells of each its code and which of the modules they imported.
LOOKS = """
import json, sys
from meterlake.cli import run
commands, heavy = json.loads(sys.stdin.read())
print(json.dumps([[run(each), [name for name in heavy if name in sys.modules]] for each in commands]))
"""


@pytest.fixture(scope="module")
def used(sample_home, tmp_path_factory):
    """The sample home; tests of this module only add runs to it."""
    return str(shutil.copytree(sample_home, tmp_path_factory.mktemp("usage") / "home"))


def lines(capsys):
    return [json.loads(line, parse_float=Decimal) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["2026-13"],
        [sample_data.MONTH, "--frequency", "daily", "--on", "2026-10-01"],
        ["--frequency", "daily"],
        ["--on", "2026-10-01"],
        ["--frequency", "weekly", "--on", "tomorrow"],
        ["--from", "2026-10-01"],
        ["--from", "2026-10-02", "--to", "2026-10-02"],
        ["--frequency", "daily", "--on", "0001-01-01"],
    ],
)
def test_what_is_no_period_is_one_line_of_error(used, capsys, command):
    assert run(["aggregate", *command, "--home", used]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


@pytest.mark.long
def test_periods_of_every_kind_are_aggregated(used, capsys):
    at = ["--home", used, "--json"]
    found = {}
    for command in (
        [sample_data.MONTH],
        ["--frequency", "daily", "--on", f"{sample_data.MONTH}-05"],
        ["--from", f"{sample_data.MONTH}-01", "--to", f"{sample_data.MONTH}-11"],
    ):
        assert run(["aggregate", *command, *at]) == 0
        found[tuple(command)] = lines(capsys)

    month, day, days = found.values()
    assert {line["month"] for line in month} == {line["period"] for line in month} == {"2026-10"}
    assert {(line["frequency"], line["period"]) for line in (*day, *days)} == {
        ("DAILY", "2026-10-05"),
        ("AD_HOC", "2026-10-01/2026-10-11"),
    }
    # Of storage, the files have the first ten days.
    assert sums(days) == sums(month)
    assert 0 < sum(sums(day).values()) < sum(sums(month).values())


def sums(printed):
    return {
        (line["account"], line["aggregation"]): line["measurements"]
        for line in printed
        if line["aggregation"] == STORAGE
    }


@pytest.mark.long
def test_a_quantity_is_explained_to_people_and_to_programs(used, capsys):
    assert run(["aggregate", sample_data.MONTH, "--home", used, "--json"]) == 0
    first = next(line for line in lines(capsys) if line["aggregation"] == STORAGE)
    names = (first["account"], first["aggregation"], sample_data.MONTH)
    assert run(["explain", "quantity", *names, "--limit", "2", "--home", used, "--json"]) == 0
    [explained] = lines(capsys)

    assert explained["quantity"] == first["quantity"]
    assert explained["measurementCount"] == first["measurements"]
    assert len(explained["measurements"]) == 2
    assert explained["measurements"][0]["file"] in {
        "03-storage-days-01-10.json",
        "11-llm-bad-rows.csv",
    }
    assert explained["statement"].startswith("SELECT")
    assert "start" in explained["parameters"]

    assert run(["explain", "quantity", *names, "--limit", "2", "--home", used]) == 0
    out = capsys.readouterr().out
    assert "GROUP BY" in out
    assert "Measurements" in out
    assert f"The first of {first['measurements']}" in out


@pytest.mark.long
def test_a_number_of_usage_is_explained_to_people_and_to_programs(used, capsys):
    days = ("--from", "2026-10-01", "--to", "2026-11-01", "--account", "almgren-arkitekter")
    number = ["explain", "number", "storage", "egress_gigabytes", *days]
    assert run([*number, "--limit", "100", "--home", used, "--json"]) == 0
    [found] = lines(capsys)
    assert found["measurementCount"] == len(found["data"]) == 10
    total = found["row"]["measure.egress_gigabytes.SUM"]
    assert sum(each["value"] for each in found["data"]) == total > 0

    assert run([*number, "--limit", "4", "--home", used]) == 0
    shown = capsys.readouterr().out
    after = shown.partition("--after ")[2].split()[0]
    assert found["data"][3]["uid"] in shown
    assert found["data"][4]["uid"] not in shown
    assert run([*number, "--after", after, "--home", used, "--json"]) == 0
    assert lines(capsys)[0]["data"] == found["data"][4:]


@pytest.mark.parametrize(
    "words",
    [
        ("nothing", "gigabytes_out"),
        ("storage", "nothing"),
        ("storage", "egress_gigabytes", "--account", "nobody"),
        ("storage", "egress_gigabytes", "--where", "region"),
        ("storage", "egress_gigabytes", "--where", "nothing=x"),
        ("storage", "egress_gigabytes", "--to", "soon"),
    ],
)
def test_a_number_of_nothing_is_one_line_of_error(used, capsys, words):
    days = ("--from", "2026-10-01", *(() if "--to" in words else ("--to", "2026-11-01")))
    assert run(["explain", "number", *words, *days, "--home", used]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize(
    "command",
    [
        ["nobody", "nothing", "2026-10"],
        ["brightpath-ai", "nothing", "2026-10"],
        ["brightpath-ai", STORAGE, "2026-10", "--segment", "region"],
    ],
)
def test_what_is_not_there_is_one_line_of_error(used, capsys, command):
    assert run(["explain", "quantity", *command, "--home", used]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1


@pytest.mark.slow
def test_late_data_is_listed_and_part_of_the_status(home, capsys):
    at = ["--home", str(home)]
    assert run(["late", *at]) == 0
    assert "Nothing came late" in capsys.readouterr().out
    assert run(["aggregate", sample_data.MONTH, *at]) == 0
    capsys.readouterr()
    file = str(sample_data.MEASUREMENTS / "06-storage-days-11-20.json.gz")
    assert run(["ingest", file, *at, "--json"]) == 0
    [receipt] = lines(capsys)
    assert run(["late", *at, "--json"]) == 0
    [late] = lines(capsys)
    assert run(["status", *at, "--json"]) == 0
    [status] = lines(capsys)

    assert status["late"] == [late]
    assert (late["period"], late["closedBy"]) == (sample_data.MONTH, "quantities")
    assert late["measurements"] == receipt["accepted"]
    assert run(["status", *at]) == 0
    assert "Late for closed periods" in capsys.readouterr().out


@pytest.mark.long
def test_usage_that_matches_no_segment_is_told(home, tmp_path, capsys):
    at = ["--home", str(home)]
    segmented = {
        "aggregation": "SUM",
        "meterId": "storage",
        "targetField": "gigabytes",
        "segmentedFields": ["region"],
        "segments": [{"region": "eu-central"}],
        "quantityPerUnit": 1,
        "rounding": "NONE",
        "unit": "GB",
    }
    document = {"aggregations": [segmented | {"code": "by_region", "name": "By region"}]}
    (tmp_path / "more.json").write_text(json.dumps(document))
    assert run(["config", "apply", str(tmp_path / "more.json"), *at]) == 0
    query = (
        "SELECT count(*) AS rows, count(DISTINCT account_id) AS accounts FROM storage"
        " WHERE region IS DISTINCT FROM 'eu-central'"
        " AND ts >= '2026-09-30 22:00:00' AND ts < '2026-10-31 23:00:00'"
    )
    capsys.readouterr()
    assert run(["sql", query, *at, "--json"]) == 0
    [beside] = lines(capsys)
    assert beside["rows"] > 0

    assert run(["aggregate", sample_data.MONTH, *at]) == 0

    assert capsys.readouterr().err == (
        f"meterlake: aggregation 'by_region' has no segment for {beside['rows']} measurements of"
        f" {beside['accounts']} accounts\n"
    )


@pytest.mark.long
def test_only_what_adds_up_over_accounts_has_a_sum(home, tmp_path, capsys):
    at = ["--home", str(home)]
    greatest = {
        "code": "greatest",
        "name": "Greatest",
        "aggregation": "MAX",
        "meterId": "storage",
        "targetField": "gigabytes",
        "quantityPerUnit": 1,
        "rounding": "NONE",
        "unit": "GB",
    }
    (tmp_path / "more.json").write_text(json.dumps({"aggregations": [greatest]}))
    assert run(["config", "apply", str(tmp_path / "more.json"), *at]) == 0
    capsys.readouterr()
    assert run(["aggregate", sample_data.MONTH, *at]) == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines() if line.strip()]
    table = {name: cells for name, *cells in words}

    assert len(table["egress_gigabytes"]) == len(table["greatest"]) + 1


@pytest.mark.long
def test_looks_import_nothing_heavy(used, capsys):
    """In one process, one after the other: of whoever imports something first, it is told.

    `explain quantity` looks, too, where nothing changed: nothing need be calculated again.
    """
    assert run(["aggregate", sample_data.MONTH, "--home", used, "--json"]) == 0
    [first, *_] = lines(capsys)
    names = [first["account"], first["aggregation"]]
    commands = [
        ["status"],
        ["late"],
        ["rejected", "list", "--reason", "UndefinedMeter"],
        ["explain", "quantity", *names, sample_data.MONTH],
        ["sql", "SELECT 1"],
        ["sql", "SELECT account, quantity FROM quantity_current"],
    ]
    asked = [[*each, "--home", used] for each in commands]
    done = subprocess.run(
        [sys.executable, "-c", LOOKS],
        input=json.dumps([asked, HEAVY]),
        capture_output=True,
        text=True,
        check=True,
    )

    assert json.loads(done.stdout.splitlines()[-1]) == [[0, []]] * len(commands), done.stderr


def test_commands_find_no_pandas_which_duckdb_would_load_for_a_parameter(used, monkeypatch):
    monkeypatch.delitem(sys.modules, "pandas", raising=False)
    with Options(home=Path(used)).open(), pytest.raises(ModuleNotFoundError):
        importlib.import_module("pandas")
    assert importlib.util.find_spec("pandas") is not None
