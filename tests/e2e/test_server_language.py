"""A real server of PostgreSQL that speaks another language than English is refused at the start."""

import shutil
from pathlib import Path

import pytest

from meterlake.cli import run
from meterlake.settings import as_environment
from tests.homes import settings
from tests.postgres import Server, missing

NEUTRAL = Path("/usr/lib/locale/C.utf8")
LANGUAGE = "de_DE.UTF-8"


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A server whose role has no language of its own."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    if not NEUTRAL.exists():
        pytest.skip(f"{NEUTRAL} is not there: no locale can be made of it")
    # Under a German name it is a German locale for the server, which only asks whether there is one.
    folder = Path("/dev/shm" if Path("/dev/shm").exists() else tmp_path, f"locale-{tmp_path.name}")
    shutil.copytree(NEUTRAL, folder / "de_DE.utf8")
    folder.chmod(0o755)
    monkeypatch.setenv("LOCPATH", str(folder))
    made = Server()
    try:
        made.initialize()
        yield made
    finally:
        made.remove()
        shutil.rmtree(folder)


@pytest.mark.slow
def test_a_server_that_speaks_german_is_refused_until_the_role_speaks_english(
    server, tmp_path, monkeypatch, capsys
):
    server.start(lc_messages=LANGUAGE)
    own = settings(tmp_path / "home", state=server.url, catalog=server.url)
    for name, value in as_environment(own).items():
        monkeypatch.setenv(name, value)

    assert run(["init", "--name", "Acme"]) != 0
    refused = capsys.readouterr().err
    assert "lc_messages" in refused
    assert LANGUAGE in refused
    assert "ALTER ROLE" in refused
    assert "Traceback" not in refused

    words = ("-h", str(server.folder), "-U", "meterlake", "-d", "postgres", "-qc")
    server.run("psql", *words, "ALTER ROLE meterlake SET lc_messages = 'C'")
    assert run(["init", "--name", "Acme"]) == 0
