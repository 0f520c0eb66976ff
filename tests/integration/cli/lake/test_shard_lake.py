"""`meterlake shard-lake`: what people and programs see."""

import json

import pytest

from meterlake.cli.app import run
from tests.homes import HEADER, csv_row, new_home


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    path = tmp_path / "home"
    new_home(path)
    monkeypatch.setenv("METERLAKE_HOME", str(path))
    file = tmp_path / "a.csv"
    file.write_text(HEADER + "".join(csv_row(f"u{number}") for number in range(50)))
    assert run(["ingest", str(file)]) == 0
    capsys.readouterr()
    return path


def record(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_lake_gets_shards_and_is_made_whole_again(home, capsys, tmp_path):  # noqa: ARG001
    assert run(["shard-lake", "--shards", "4", "--json"]) == 0
    found = record(capsys)
    assert (found["shards"], found["uids"]) == (4, 50)
    assert 0 < found["smallest"] <= found["largest"] < 50

    again = tmp_path / "b.csv"
    again.write_text(HEADER + csv_row("u7") + csv_row("new") + csv_row("u8", 9))
    assert run(["ingest", str(again), "--json"]) == 0
    receipt = record(capsys)
    assert [receipt[name] for name in ("accepted", "repeats", "rejected")] == [1, 1, 1]

    assert run(["maintain"]) == 0
    assert run(["check", "reconciliation"]) == 0
    capsys.readouterr()
    assert run(["shard-lake", "--shards", "1", "--json"]) == 0
    assert record(capsys) | {"snapshot": 0} == {
        "shards": 1,
        "uids": 51,
        "smallest": 51,
        "largest": 51,
        "snapshot": 0,
    }


@pytest.mark.parametrize("count", ["0", "-2", "65"])
def test_a_wrong_number_is_refused_by_name(home, capsys, count):
    assert run(["shard-lake", f"--shards={count}"]) == 1
    error = capsys.readouterr().err
    assert "shards" in error
    assert "a number from 1 to 64" in error
    assert not list((home / "lakes").glob("*/cache/uid-shards*"))


@pytest.mark.parametrize("words", [[], ["--shards", "many"], ["--shards", "2x"]])
def test_what_is_no_number_is_wrong_usage(home, capsys, words):  # noqa: ARG001
    assert run(["shard-lake", *words]) == 2
    assert "shards" in capsys.readouterr().err
