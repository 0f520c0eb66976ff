"""A backup that is taken while measurements come in, restored elsewhere: everything reconciles.

PostgreSQL is dumped first, then the bucket is copied, as docs/operations.md says.
"""

import subprocess

import pytest
from sqlalchemy import make_url

from meterlake.cli import run
from meterlake.pipeline.maintenance.maintain import maintain
from meterlake.settings import as_environment
from tests.commands import api_server, drain, wait_until, worker
from tests.databases import NUMBERS, administrate, adopt_files, new_database
from tests.e2e.remote_homes import Client, Installation, installation, stored_uids
from tests.homes import HEADER, csv_row, open_home
from tests.postgres import program

pytestmark = pytest.mark.slow

WAIT_S = 240
ROWS = 400


@pytest.fixture
def source(tmp_path, postgresql, s3_lakes):
    with installation(tmp_path / "source", postgresql, s3_lakes) as made:
        made.folder.mkdir()
        yield made


def dump(database: str, path) -> None:
    pg_dump = program("pg_dump")
    assert pg_dump
    subprocess.run([pg_dump, "--format=custom", f"--file={path}", database], check=True)


def restore(path, server: str) -> str:
    """A new database with what a dump has; its URL."""
    name = f"restored_{next(NUMBERS)}"
    administrate(server, f"CREATE DATABASE {name} TEMPLATE template0")
    url = make_url(server).set(database=name).render_as_string(hide_password=False)
    pg_restore = program("pg_restore")
    assert pg_restore
    subprocess.run([pg_restore, "--exit-on-error", f"--dbname={url}", str(path)], check=True)
    return url


def copy_objects(source: Installation, target: Installation) -> int:
    """Copy all files of an installation, each as it is; how many."""
    there, here = source.store.objects(source.prefix), target.store.objects(target.prefix)
    names = [each.key for each in there.list()]
    for name in names:
        here.put_bytes(name, there.get(name))
    return len(names)


def restored(source: Installation, path, server: str, folder) -> Installation:
    """An installation with the database of a dump, and nothing in its bucket yet."""
    folder.mkdir()
    target = Installation(folder, restore(path, server), source.store)
    target.options["secret_key"] = source.options["secret_key"]
    adopt_files(target.options["catalog"], target.options["lake"])
    return target


def check(options, monkeypatch) -> int:
    with monkeypatch.context() as patched:
        for name, value in as_environment(options).items():
            patched.setenv(name, value)
        return run(["check", "reconciliation"])


def test_a_backup_beside_writers_reconciles_and_goes_on_where_it_was(
    source, tmp_path, postgresql, monkeypatch
):
    made, first = source.initialize(), source.machine("first")
    path = tmp_path / "meterlake.dump"
    with api_server(first) as (url, server), worker(first) as (_, process):
        with (
            Client(url, made, "client") as client,
            open_home(first.home, made.org_id, **source.options) as home,
        ):
            # Larger than what lives in the catalog: files of its own in the bucket.
            home.ingest("a.csv", HEADER + "".join(csv_row(f"a{row}") for row in range(2000)))
            wait_until(lambda: len(home.uids()) > 2000 + ROWS, WAIT_S)
            known = stored_uids(home.uids)
            dump(source.options["state"], path)
            home.ingest("b.csv", HEADER + "".join(csv_row(f"b{row}") for row in range(2000)))
            maintain(home.stores.organization(made.org_id))
            stop_at = len(client.acknowledged) + ROWS
            wait_until(lambda: len(client.acknowledged) > stop_at, WAIT_S)
            target = restored(source, path, postgresql, tmp_path / "target")
            assert copy_objects(source, target) > 0
        drain(server, process)

    options = target.machine("first")
    assert check(options, monkeypatch) == 0
    with open_home(options.home, made.org_id, **target.options) as home:
        home.check_rows()
        found = stored_uids(home.uids)
        # All that was there before the dump began is there, once, and nothing that nobody sent.
        assert len(found) == len(set(found))
        assert set(known) <= set(found)
        sent = {*client.acknowledged, *(f"{name}{row}" for name in "ab" for row in range(2000))}
        assert set(found) <= sent
        assert set(found) < sent
        # What came after the dump is delivered once more: only that comes in.
        again = home.ingest("again.csv", HEADER + "".join(map(csv_row, sorted(sent))))
        assert (again.accepted, again.rejected) == (
            len(sent) - len(found),
            len(found) - again.repeats,
        )
        maintain(home.stores.organization(made.org_id))
        home.check_rows()
    assert check(options, monkeypatch) == 0


def test_a_bucket_that_was_copied_before_the_dump_lacks_files_and_the_check_says_so(
    source, tmp_path, postgresql, monkeypatch, capsys
):
    made, first = source.initialize(), source.machine("first")
    path = tmp_path / "meterlake.dump"
    with open_home(first.home, made.org_id, **source.options) as home:
        home.ingest("a.csv", HEADER + "".join(csv_row(f"a{row}") for row in range(2000)))
        target = Installation(tmp_path / "target", new_database(postgresql), source.store)
        copy_objects(source, target)
        home.ingest("b.csv", HEADER + "".join(csv_row(f"b{row}") for row in range(2000)))
    dump(source.options["state"], path)
    target.options |= {
        "secret_key": source.options["secret_key"],
        **dict.fromkeys(("state", "catalog"), restore(path, postgresql)),
    }
    target.folder.mkdir()

    assert check(target.machine("first"), monkeypatch) == 1
    assert "Traceback" not in capsys.readouterr().err
