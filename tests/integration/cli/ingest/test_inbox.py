"""`meterlake inbox` and `meterlake maintain`: what people and programs see."""

import json

import pytest

from meterlake.cli.app import run
from tests.homes import HEADER, csv_row, new_home


@pytest.fixture
def home(tmp_path, monkeypatch):
    path = tmp_path / "home"
    new_home(path)
    monkeypatch.setenv("METERLAKE_HOME", str(path))
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.long
def test_an_inbox_from_its_making_to_its_end(home, capsys):
    (home / "a.csv").write_text(HEADER + csv_row("u1") + csv_row("u2", "no number"))

    assert run(["inbox", "add", f"{home}/", "--json"]) == 0
    assert lines(capsys) == [{"url": str(home), "afterwards": "move", "author": "cli"}]
    assert run(["inbox", "poll", "--json"]) == 0
    [receipt] = lines(capsys)
    assert (receipt["name"], receipt["accepted"], receipt["rejected"]) == ("a.csv", 1, 1)
    assert run(["inbox", "list", "--json"]) == 0
    [shown] = lines(capsys)
    [claimed] = shown["objects"]
    assert (claimed["key"], claimed["status"], claimed["accepted"]) == ("in/a.csv", "DONE", 1)
    assert run(["inbox", "list"]) == 0
    assert "in/a.csv" in capsys.readouterr().out
    assert run(["inbox", "remove", str(home)]) == 0
    assert run(["inbox", "list", "--json"]) == 0
    assert lines(capsys) == []


def test_what_is_no_inbox_is_one_clear_line(home, capsys):
    assert run(["inbox", "remove", str(home)]) == 1
    assert run(["inbox", "add", "ftp://host/x"]) == 1
    assert run(["inbox", "add", "s3://bucket"]) == 1
    assert run(["inbox", "add", str(home), "--afterwards", "tag"]) == 1
    assert run(["inbox", "add", str(home), "--afterwards", "eat"]) == 2

    assert len(capsys.readouterr().err.splitlines()) >= 5


@pytest.mark.long
def test_a_file_that_cannot_be_read_is_told(home, capsys):
    (home / "a.parquet").write_bytes(b"no parquet")
    assert run(["inbox", "add", str(home)]) == 0

    assert run(["inbox", "poll"]) == 1

    assert "a.parquet" in capsys.readouterr().err
    assert run(["inbox", "list", "--json"]) == 0
    [shown] = lines(capsys)
    [claimed] = shown["objects"]
    assert claimed["status"] == "FAILED"
    assert claimed["error"].startswith("DamagedFile: no Parquet file: ")
    assert run(["inbox", "list"]) == 0
    assert "DamagedFile" in capsys.readouterr().out


def test_a_folder_that_is_not_there_fails(home, capsys):
    assert run(["inbox", "add", f"{home}2"]) == 1
    assert "a folder that exists" in capsys.readouterr().err
    assert run(["inbox", "add", str(home)]) == 0
    home.rmdir()
    capsys.readouterr()

    assert run(["inbox", "poll"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert f"there is no folder {home}" in line


def test_what_fails_hides_nothing_of_what_came_in(home, capsys):
    (home / "a.csv").write_text(HEADER + csv_row("u1"))
    (home / "no\x01name.csv").write_text(HEADER + csv_row("u2"))
    assert run(["inbox", "add", str(home)]) == 0
    capsys.readouterr()

    assert run(["inbox", "poll"]) == 1
    printed = capsys.readouterr()
    assert "a.csv" in printed.out
    assert "name.csv" in printed.err


@pytest.mark.long
@pytest.mark.usefixtures("home")
def test_maintain_says_what_it_did(capsys):
    assert run(["maintain", "--json"]) == 0

    [done] = lines(capsys)
    assert done["snapshotsExpired"] == 0
    assert {"compactedFiles", "replacedRemoved", "orphansRemoved", "stagingRemoved"} <= set(done)
