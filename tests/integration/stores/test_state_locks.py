"""The locks that SQLite has on the file of State, of which a process has one set for all its files."""

import subprocess
import sys

from meterlake.stores.state import State
from tests.homes import settings

OTHER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM organization").fetchall()
connection.close()
"""


def test_a_state_that_is_opened_to_be_made_keeps_the_locks_of_the_first(tmp_path):
    """Without them, whoever is the last to close the file removes the log that others read."""
    given = settings(tmp_path / "home", state=None)
    file = tmp_path / "home" / "state.sqlite"
    with State.open(given, create=True) as state:
        assert list(state.organizations()) == []
        State.open(given, create=True).close()
        subprocess.run([sys.executable, "-c", OTHER, str(file)], check=True)

        assert file.with_name("state.sqlite-wal").exists()
        assert list(state.organizations()) == []
    assert oct(file.stat().st_mode)[-3:] == "600"
