"""Marks of lakes whose catalogs are files, beside those who write to them."""

import os
import subprocess
import sys
import textwrap

import pytest

from meterlake.model.values import failpoint
from meterlake.settings import as_environment
from meterlake.stores import open_stores
from meterlake.stores.lake.backends.location import LakeMarks
from tests.homes import HEADER, a_home, csv_row

# Another process of the home, which has written and now reads.
_READER = """
    import sys
    from meterlake.settings import Settings
    from meterlake.stores.lake.backends.location import open_lake
    lake = open_lake(Settings(_env_file=None), sys.argv[1])
    lake.open_to_write()
    with lake.reader() as reader:
        print(*reader.execute("SELECT count(*) FROM lake.uid_index").fetchone())
    lake.close()
"""


def count_elsewhere(home) -> int:
    environment = {**os.environ, **as_environment(home.stores.settings)}
    command = [sys.executable, "-c", textwrap.dedent(_READER), home.org_id]
    return int(subprocess.check_output(command, env=environment, text=True))


@pytest.mark.long
def test_a_mark_costs_no_commit_its_locks(tmp_path, monkeypatch):
    """Who closes the catalog elsewhere would remove the log that the commit goes to."""
    with a_home(tmp_path) as home:
        home.ingest("a.csv", HEADER + csv_row("u1"))
        marks, log = LakeMarks(home.stores.settings), home.organization.lake.catalog.paths[1]
        logs = []

        def look(step):
            if step == "lake.before_commit":
                logs.append(log.exists())
                before = marks.read([home.org_id])
                assert count_elsewhere(home) == 1
                assert marks.read([home.org_id]) == before
                logs.append(log.exists())

        with (
            open_stores(home.stores.settings) as others,
            others.lake(home.org_id).reader() as reader,
        ):
            # As long as somebody reads here, the log is not written to the file.
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM lake.uid_index").fetchall()
            monkeypatch.setattr(failpoint, "hook", look)
            home.ingest("b.csv", HEADER + csv_row("u2"))
            monkeypatch.setattr(failpoint, "hook", None)
            assert count_elsewhere(home) == 2
            reader.execute("ROLLBACK")

        assert logs == [True, True]


def test_every_commit_gives_a_mark_of_its_own(tmp_path):
    with a_home(tmp_path) as home:
        marks, found = LakeMarks(home.stores.settings), set()
        for number in range(5):
            home.ingest(f"{number}.csv", HEADER + csv_row(f"u{number}"))
            found.add(marks.read([home.org_id])[home.org_id])
            assert marks.read([home.org_id])[home.org_id] in found

        assert len(found) == 5
        assert marks.read(["nobody"]) == {"nobody": ""}
