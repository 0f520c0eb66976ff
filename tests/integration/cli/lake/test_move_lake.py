"""`meterlake move-lake`: what people and programs see."""

import json

import pytest
from sqlalchemy import make_url

from meterlake.cli.app import run
from tests.databases import need_folder, new_database
from tests.homes import HEADER, csv_row, new_home


@pytest.fixture
def home(tmp_path, monkeypatch, capsys):
    need_folder()
    path = tmp_path / "home"
    new_home(path)
    monkeypatch.setenv("METERLAKE_HOME", str(path))
    file = tmp_path / "a.csv"
    file.write_text(HEADER + "".join(csv_row(f"u{number}") for number in range(1500)))
    assert run(["ingest", str(file)]) == 0
    capsys.readouterr()
    return path


def lines(capsys):
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def stored(capsys) -> str:
    assert run(["sql", "SELECT count(*) AS n FROM lake.uid_index", "--json"]) == 0
    return capsys.readouterr().out


@pytest.mark.long
def test_nothing_moves_before_one_says_where(home, capsys):
    for words in ([], ["--dry-run"]):
        assert run(["move-lake", *words]) == 1
        assert "--lake or --catalog is required" in capsys.readouterr().err
    assert run(["move-lake", "--remove-source"]) == 1
    assert "no move has left anything" in capsys.readouterr().err
    assert run(["move-lake", "--lake", "home", "--catalog", "sqlite"]) == 1
    assert "are there already" in capsys.readouterr().err
    for catalog in ("mysql://u@h/d", "nonsense"):
        assert run(["move-lake", "--catalog", catalog]) == 1
        error = capsys.readouterr().err
        assert "postgresql://user@host/database" in error
        assert catalog not in error
    assert run(["move-lake", "--lake", "ftp://here"]) == 1
    assert "--lake: 'ftp://here' is not allowed" in capsys.readouterr().err
    assert not (home / "move-lake.json").exists()


def test_an_unreachable_target_changes_nothing(home, capsys):
    address = "postgresql://u:secret@127.0.0.1:1/d"
    assert run(["move-lake", "--catalog", address]) == 1
    error = capsys.readouterr().err
    assert "catalog of lakes" in error
    assert "secret" not in error
    assert not (home / "move-lake.json").exists()


@pytest.fixture
def catalog(postgresql):
    """The URL of a database, with a password."""
    url = make_url(new_database(postgresql)).set(password="pass")
    return url.render_as_string(hide_password=False)


@pytest.mark.slow
def test_a_home_moves_to_a_bucket_and_back(home, capsys, monkeypatch, catalog, s3_lakes):
    monkeypatch.setenv("METERLAKE_S3_ENDPOINT", s3_lakes.url)
    there = ["move-lake", "--lake", "s3://lakes/by-command", "--catalog", catalog]
    before = stored(capsys)

    assert run([*there, "--dry-run", "--json"]) == 0
    [planned] = lines(capsys)
    assert run([*there, "--json"]) == 0
    [moved] = lines(capsys)
    assert planned == moved | {"sent": 0}
    assert moved["organization"] == "sample"
    assert moved["files"] == moved["sent"] > 0
    # The same command again has nothing left to do.
    monkeypatch.setenv("METERLAKE_CATALOG", catalog)
    assert run(there) == 0
    assert "The lakes are moved" in capsys.readouterr().out
    assert stored(capsys) == before

    assert run(["move-lake", "--remove-source", "--json"]) == 0
    assert lines(capsys) == [{"removedFiles": moved["files"]}]
    assert not list(home.rglob("*.parquet"))
    assert run(["move-lake", "--lake", "home", "--catalog", "sqlite"]) == 0
    monkeypatch.delenv("METERLAKE_CATALOG")
    capsys.readouterr()
    assert run(["move-lake", "--remove-source", "--json"]) == 0
    assert lines(capsys) == [{"removedFiles": moved["files"]}]
    assert stored(capsys) == before


@pytest.mark.slow
def test_the_password_of_a_catalog_stays_with_whoever_gave_it(home, capsys, monkeypatch, catalog):
    before = stored(capsys)
    assert run(["move-lake", "--catalog", catalog]) == 0
    capsys.readouterr()
    assert run(["status"]) == 1
    assert "METERLAKE_CATALOG with the password" in capsys.readouterr().err
    for name in ("settings.json", "move-lake.json"):
        assert "pass@" not in (home / name).read_text()
    monkeypatch.setenv("METERLAKE_CATALOG", catalog)
    assert stored(capsys) == before
    assert run(["move-lake", "--catalog", "sqlite", "--remove-source"]) == 1
    assert "`meterlake move-lake --remove-source` removes" in capsys.readouterr().err
    assert run(["move-lake", "--remove-source"]) == 0
    assert run(["move-lake", "--catalog", "sqlite", "--remove-source"]) == 0
    capsys.readouterr()
    assert run(["status"]) == 1
    assert "`meterlake move-lake --catalog VALUE`" in capsys.readouterr().err
    monkeypatch.delenv("METERLAKE_CATALOG")
    assert stored(capsys) == before
