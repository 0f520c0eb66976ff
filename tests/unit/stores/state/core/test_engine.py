import importlib
import pkgutil
import shutil
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import exc, select, text

from meterlake.model.errors import Invalid, Unavailable
from meterlake.stores import state as stores_state
from meterlake.stores.state import State
from meterlake.stores.state.core import engine
from meterlake.stores.state.core.tables import METADATA
from tests.organizations import new_organization
from tests.postgres import Server, missing


def test_the_newest_revision_is_the_one_that_is_expected():
    scripts = ScriptDirectory(str(Path(engine.__file__).parent / "migrations"))

    assert scripts.get_heads() == [engine.HEAD]


# Indexes of expressions, those of accounts, stand in the migrations alone.
@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection of expression-based index")
def test_a_migrated_database_has_the_tables_that_the_code_knows(state, org):
    for module in pkgutil.walk_packages(stores_state.__path__, f"{stores_state.__name__}."):
        if ".migrations" not in module.name:
            importlib.import_module(module.name)
    opts = {
        "compare_type": True,
        "include_object": lambda _, name, *__: not str(name).startswith("entity_account_"),
    }
    with state.reading(org) as reader:
        context = MigrationContext.configure(reader.connection, opts=opts)

        assert compare_metadata(context, METADATA) == []


def test_migrating_again_changes_nothing(database):
    with State.at(database) as state:
        org = new_organization(state)

    with State.at(database) as state:
        assert state.organization().id == org


def test_a_database_of_a_newer_version_is_refused(database):
    State.at(database).close()
    opened = engine.Database(database)
    with opened.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    opened.close()

    with pytest.raises(
        Invalid, match="'9999' is not allowed: it must be a revision that this version knows"
    ):
        State.at(database)


def test_a_migration_that_fails_leaves_nothing(tmp_path, monkeypatch):
    broken = tmp_path / "100% broken"
    shutil.copytree(Path(engine.__file__).parent / "migrations", broken)
    [revision] = (broken / "versions").glob("v0041_*.py")
    revision.write_text(
        revision.read_text().replace(
            "    create_tables(TABLES.sorted_tables)\n",
            "    create_tables(TABLES.sorted_tables)\n    raise ZeroDivisionError\n",
        )
    )
    monkeypatch.setattr(engine, "_MIGRATIONS", broken)
    url = engine.sqlite_url(tmp_path / "state.sqlite")

    with pytest.raises(ZeroDivisionError):
        State.at(url)
    monkeypatch.undo()
    State.at(url).close()


@pytest.mark.parametrize(
    "kind", exc.DBAPIError.__subclasses__() + exc.DatabaseError.__subclasses__()
)
def test_every_complaint_of_a_driver_is_the_worlds_or_ours(kind):
    error = kind("SELECT 1", {}, Exception("broken"))
    ours = isinstance(
        error, exc.IntegrityError | exc.ProgrammingError | exc.DataError | exc.NotSupportedError
    )

    with pytest.raises(kind if ours else Unavailable), engine.translate_errors():
        raise error


@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("postgresql://u:secret@db.example/x", " at db.example"),
        ("postgresql://u:secret@db.example:5433/x?connect_timeout=3", " at db.example:5433"),
        ("postgresql://u:secret@/x?host=/run/pg&password=secret", " at /run/pg"),
        ("postgresql://u@/x?host=a:1&host=b:2", " at a:1,b:2"),
        ("postgresql:///x", ""),
        ("sqlite:///state.sqlite", ""),
    ],
)
def test_the_place_of_a_server_is_told_without_a_password(setting, place):
    assert engine.place(engine.parse_url(setting)) == place


@pytest.mark.long
def test_a_server_that_is_gone_is_unavailable_also_for_what_is_asked_all_the_time():
    reason = missing()
    if reason:
        pytest.skip(reason)
    server, question = Server(), select(text("1"))
    try:
        server.initialize()
        server.start()
        database = engine.Database(engine.parse_url(server.url))
        assert database.first(question, {}) == (1,)
        server.kill()
        for _ in range(3):  # of a connection that broke, and of none
            with pytest.raises(Unavailable, match="the State database"):
                database.first(question, {})
        server.start()
        assert database.first(question, {}) == (1,)
        database.close()
    finally:
        server.remove()
