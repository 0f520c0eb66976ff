"""Another version of the time zone database: what is stored stays, only new periods follow it."""

import json
import os
import shutil
import subprocess
import sys
from importlib.resources import files

import pytest

from meterlake.stores import open_stores
from tests.doubles.homes import furnish, make_home

# A government moves Berlin to London's time: the database says so from one release to the next.
LOOK = """
import json, sys
from datetime import UTC
from pathlib import Path
from meterlake.model.values.period import Month, zone
from meterlake.settings import Settings
from meterlake.stores import open_stores

with open_stores(Settings(home=Path(sys.argv[1]))) as stores:
    org = stores.state.organization().id
    with stores.lake(org).reader() as connection:
        def ask(query):
            return [list(map(str, row)) for row in connection.execute(query).fetchall()]
        [[table]] = ask("SELECT table_name FROM duckdb_tables() WHERE table_name LIKE 'm!_%' ESCAPE '!'")
        found = {
            "measurements": ask(f'SELECT uid, ts, ets, received_at FROM lake."{table}" ORDER BY uid'),
            "quantities": ask("FROM lake.quantity ORDER BY ALL"),
            "sources": ask("FROM lake.source ORDER BY ALL"),
        }
    with stores.state.reading(org) as reader:
        from meterlake.stores.state.billing.bills import bills
        found["bills"] = [each.content.body for each in bills.of_period(reader)]
    month = Month(2026, 7).period(zone("Europe/Berlin"))
    found["july"] = month.start.astimezone(UTC).isoformat()
    print(json.dumps(found, default=str))
"""


def look(home, zones=None):
    env = dict(os.environ) if zones is None else os.environ | {"PYTHONTZPATH": str(zones)}
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(home)], env=env, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_new_zone_database_changes_nothing_that_is_stored(tmp_path):
    made, clock = make_home(tmp_path / "home")
    with open_stores(made, clock) as stores:
        furnish(stores, clock)
    zones = tmp_path / "zones"
    source = files("tzdata").joinpath("zoneinfo")
    shutil.copytree(str(source), zones)
    shutil.copy(zones / "Europe" / "London", zones / "Europe" / "Berlin")

    before, after = look(made.home), look(made.home, zones)

    assert (before.pop("july"), after.pop("july")) == (
        "2026-06-30T22:00:00+00:00",
        "2026-06-30T23:00:00+00:00",
    )
    assert before == after
    assert len(before["measurements"]) == 5
    assert before["quantities"]
    assert before["bills"]
