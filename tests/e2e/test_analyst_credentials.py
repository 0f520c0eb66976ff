"""Analysts read a lake in a bucket with a key and a role of their own, which may only read.

The script that `meterlake publish` leaves is run by a DuckDB of another process, which knows nothing
of meterlake's credentials. Their key is one of a server of the same files that takes no writes.
"""

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from meterlake.pipeline.publish.run import publish
from meterlake.stores.processes import free_port
from meterlake.stores.state.core.engine import parse_url
from tests.databases import LakeStore
from tests.e2e.remote_homes import installation
from tests.homes import HEADER, csv_row, open_home
from tests.soak import servers

pytestmark = pytest.mark.slow
ROWS = 1500
PAGE = Path(__file__).parents[2] / "docs" / "analyst.md"
# Each statement in turn: what it answers, or that it was refused.
ANALYST = """
import json, sys
import duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
connection.execute(open(sys.argv[2]).read())
for statement in json.load(sys.stdin):
    try:
        print(json.dumps(connection.execute(statement).fetchall()))
    except duckdb.Error as error:
        print(json.dumps(str(error)))
"""
ENTITIES = "SELECT id FROM public.entity"


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    if reason := servers.missing():
        pytest.skip(reason)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, servers.KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("PGUSER", "meterlake")
    made = servers.Bucket(tmp_path / "bucket")
    try:
        made.start()
        yield made
    finally:
        made.remove()


@contextmanager
def read_only_server(folder, key):
    """The same files at another address, where one key may read and nobody may write."""
    address = ("127.0.0.1", free_port())
    words = ["--addr", "{}:{}".format(*address), "--auth-key", key, "--read-only"]
    program = servers.program()
    assert program
    with subprocess.Popen(
        [program, "serve", "s3", *words, str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            servers.wait_for(address)
            yield "{}:{}".format(*address)
        finally:
            process.kill()


def grant(database, schema, role):
    """Make a role with the rights that the page for analysts names."""
    grants = [line for line in PAGE.read_text().splitlines() if " lake_<organization> " in line]
    assert len(grants) == 3
    engine = create_engine(parse_url(database), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
        for each in grants:
            own = each.replace("lake_<organization>", schema)
            connection.exec_driver_sql(own.replace("analyst", role))
    engine.dispose()


def put_in(script):
    """The script with the key of the analyst."""
    key = {"YOUR KEY ID": "reader", "YOUR SECRET": "readersecret", "YOUR REGION": "us-east-1"}
    for placeholder, value in key.items():
        assert placeholder in script
        script = script.replace(placeholder, value)
    return script


def ask(role, file, script, *statements):
    """What a DuckDB of its own answers; it knows the role and the script, and nothing else."""
    done = subprocess.run(
        [sys.executable, "-I", "-c", ANALYST, str(file), str(script)],
        input=json.dumps(statements),
        env={"PATH": os.environ["PATH"], "HOME": str(script.parent), "PGUSER": role},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_analysts_read_with_a_key_and_a_role_that_may_only_read(bucket, tmp_path, postgresql):
    store = LakeStore("s3", "s3_endpoint", bucket.url)
    (tmp_path / "machines").mkdir()
    with installation(tmp_path / "machines", postgresql, store) as machines:
        made = machines.initialize()
        options = machines.machine("first")
        with open_home(options.home, made.org_id, **machines.options) as home:
            organization = home.stores.organization(made.org_id)
            home.ingest("a.csv", HEADER + "".join(csv_row(f"a{n}") for n in range(ROWS)))
            done = publish(organization)
            schema = organization.lake.catalog.schema
            root = organization.lake.files.root
            role = f"analyst_{schema[-12:]}"
            grant(machines.options["catalog"], schema, role)
            # Published before it came: it is seen in the live lake only.
            home.ingest("b.csv", HEADER + "".join(csv_row(f"b{n}") for n in range(ROWS)))
        given = (done.path.parent / "live.sql").read_text()
        assert servers.KEY not in given.replace(str(tmp_path), "")
        with read_only_server(tmp_path / "bucket", "reader,readersecret") as address:
            own = put_in(given.replace(bucket.url.partition("://")[2], address))
            script = tmp_path / "own.sql"
            script.write_text(own)
            found = ask(
                *(role, done.path, script),
                "SELECT count(*) FROM main.egress",
                "SELECT count(*) FROM live.egress",
                "SELECT count(*), count(DISTINCT uid) FROM lake.uid_index",
                "DELETE FROM lake.uid_index",
                f"COPY (SELECT 1) TO '{root}stranger.parquet'",
                "SELECT count(*) FROM __ducklake_metadata_lake.public.entity",
                f"SELECT count(*) FROM postgres_query('__ducklake_metadata_lake', '{ENTITIES}')",
            )
            wrong = tmp_path / "wrong.sql"
            wrong.write_text(own.replace("readersecret", "guessed"))
            [refused] = ask(role, done.path, wrong, "SELECT sum(row) FROM lake.uid_index")

    assert found[:3] == [[[ROWS]], [[2 * ROWS]], [[2 * ROWS, 2 * ROWS]]]
    assert "read-only" in found[3]
    assert isinstance(found[4], str)
    assert "does not exist" in found[5]
    assert "permission denied" in found[6]
    assert "403" in refused
    assert not list((tmp_path / "bucket").rglob("stranger*"))
