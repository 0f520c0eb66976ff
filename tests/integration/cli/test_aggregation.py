"""`meterlake aggregation try`: values per account, and nothing kept."""

import json
import shutil
from decimal import Decimal

import pytest

import sample_data
from meterlake.cli import run


@pytest.fixture(scope="module")
def used(sample_home, tmp_path_factory):
    """The sample home; nothing of this module changes it."""
    return str(shutil.copytree(sample_home, tmp_path_factory.mktemp("try") / "home"))


@pytest.mark.long
def test_a_query_is_tried_over_the_usage_of_a_month(used, capsys):
    command = ["aggregation", "try", "stored_gigabytes", "--month", sample_data.MONTH]
    sql = "SELECT count(*) FROM measurements"

    assert run([*command, "--sql", sql, "--json", "--home", used]) == 0
    lines = [json.loads(line, parse_float=Decimal) for line in capsys.readouterr().out.splitlines()]
    assert lines
    assert all(line["value"] == line["measurements"] > 0 for line in lines)
    assert [line["account"] for line in lines] == sorted(line["account"] for line in lines)
    assert run([*command, "--sql", sql, "--home", used]) == 0
    assert "measurements" in capsys.readouterr().out


def test_an_aggregation_without_sql_is_tried_as_it_is(used, capsys):
    command = ["aggregation", "try", "stored_gigabytes", "--month", sample_data.MONTH]

    assert run([*command, "--json", "--home", used]) == 0
    lines = [json.loads(line, parse_float=Decimal) for line in capsys.readouterr().out.splitlines()]
    assert lines
    assert all(line["value"] > 0 and line["measurements"] > 0 for line in lines)


@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        (["--sql", "SELECT sum(secret) FROM measurements"], "no column 'secret', at character 12"),
        (["--sql", "SELECT getenv('HOME')"], "function 'getenv' is not allowed"),
    ],
)
def test_what_cannot_be_tried_is_one_line_of_error(used, capsys, sql, sentence):
    command = ["aggregation", "try", "stored_gigabytes", "--month", sample_data.MONTH]

    assert run([*command, *sql, "--home", used]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert sentence in line


@pytest.mark.long
def test_accounts_without_a_value_are_told(used, capsys):
    sql = "SELECT gigabytes FROM measurements"
    command = ["aggregation", "try", "stored_gigabytes", "--month", sample_data.MONTH, "--json"]

    assert run([*command, "--sql", sql, "--home", used]) == 1
    out, err = capsys.readouterr()
    assert "it gives several rows, not one" in err
    assert all("error" in json.loads(line) for line in out.splitlines())
