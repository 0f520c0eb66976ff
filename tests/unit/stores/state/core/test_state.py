import sqlite3

import pytest
from sqlalchemy import text

from meterlake.model.customers.accounts import Account
from meterlake.model.errors import DuplicateCode, Invalid, NotFound, Required, Unavailable
from meterlake.settings import Settings
from meterlake.stores.state import State
from tests.organizations import Clock, new_organization


def settings(home, **values):
    return Settings(home=home, _env_file=None, **values)


def test_a_home_on_a_path_with_every_character_works_and_moves(tmp_path):
    home = tmp_path / "Käse & Brot %20 #1?x=y"
    with State.open(settings(home), create=True) as state:
        org = new_organization(state)

    moved = home.rename(tmp_path / "woanders")

    with State.open(settings(moved)) as state:
        assert state.organization().id == org
        assert len(state.configuration(org).versions()) == 4


def test_where_there_is_no_home_none_is_made(tmp_path):
    with pytest.raises(NotFound, match="init"):
        State.open(settings(tmp_path / "nothing"))

    assert list(tmp_path.iterdir()) == []


def test_organizations_are_found_by_id_by_code_and_alone(state):
    acme = new_organization(state, "acme")
    assert state.organization().id == acme

    bolt = new_organization(state, "bolt")

    assert state.organization("acme").id == state.organization(acme).id == acme
    assert {each.id for each in state.organizations()} == {acme, bolt}
    several = (
        r"--org is required: this home has acme \(.*\), bolt \(.*\); name one, such as --org acme"
    )
    with pytest.raises(Required, match=several):
        state.organization()
    with pytest.raises(NotFound, match=r"no organization 'bold'; .* did you mean 'bolt'"):
        state.organization("bold")


def test_the_code_of_an_organization_is_its_own(state):
    new_organization(state, "acme")

    with pytest.raises(DuplicateCode):
        new_organization(state, "acme")


def test_an_organization_that_could_not_be_finished_does_not_exist(state):
    with pytest.raises(ZeroDivisionError), state.new_organization("acme", "Acme", "SYSTEM"):
        raise ZeroDivisionError

    assert state.organizations() == []


def test_nobody_writes_to_an_organization_that_does_not_exist(state):
    with pytest.raises(NotFound), state.transaction("nobody", "USER_1"):
        pass


def test_what_a_reader_writes_is_not_kept(state, org):
    with state.reading(org) as reader:
        reader.connection.execute(text("DELETE FROM entity"))

    assert state.configuration(org).versions()


def test_sqlite_is_opened_for_keeps(tmp_path):
    with State.open(settings(tmp_path), create=True) as state:
        org = new_organization(state)
        with state.reading(org) as reader:
            values = [
                reader.connection.execute(text(f"PRAGMA {name}")).scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            ]

    assert values == ["wal", 2, 1, 10_000]


@pytest.mark.parametrize(
    "content", [b"no database at all" * 100, b"SQLite format 3\x00" + b"\x00" * 4000]
)
def test_a_damaged_file_is_unavailable(tmp_path, content):
    (tmp_path / "state.sqlite").write_bytes(content)

    with pytest.raises(Unavailable, match="the State database is unavailable"):
        State.open(settings(tmp_path))


def test_a_folder_in_place_of_the_file_is_unavailable(tmp_path):
    (tmp_path / "state.sqlite").mkdir()

    with pytest.raises(Unavailable):
        State.open(settings(tmp_path))


def test_a_home_that_cannot_be_made_is_unavailable(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(Unavailable, match="home folder"):
        State.open(settings(tmp_path / "file" / "home"), create=True)


def fill(transaction):
    transaction.connection.execute(text("PRAGMA max_page_count = 1"))
    for number in range(1_000):
        name = "x" * 200
        transaction.create(Account(code=f"a{number}", name=name, email_address="a@b.example"))


def test_a_full_disk_is_unavailable_and_leaves_nothing(tmp_path):
    with State.open(settings(tmp_path), Clock(), create=True) as state:
        org = new_organization(state)
        with pytest.raises(Unavailable, match="full"), state.transaction(org, "a") as transaction:
            fill(transaction)

        assert list(state.configuration(org).all(Account)) == []


def test_a_database_that_another_program_holds_is_unavailable(tmp_path, monkeypatch):
    monkeypatch.setattr("meterlake.stores.state.core.engine.BUSY_SECONDS", 0.05)
    with State.open(settings(tmp_path), create=True) as state:
        org = new_organization(state)
        other = sqlite3.connect(tmp_path / "state.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        try:
            with pytest.raises(Unavailable, match="locked"), state.transaction(org, "a"):
                pass
            assert state.configuration(org).versions(), "readers never wait"
        finally:
            other.close()


@pytest.mark.parametrize("url", ["mysql://a:secret@b/c", "nonsense secret"])
def test_a_url_that_is_none_is_refused_without_its_password(tmp_path, url):
    with pytest.raises(Invalid) as caught:
        State.open(settings(tmp_path, state=url))

    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_unavailable(tmp_path):
    with pytest.raises(Unavailable):
        State.open(settings(tmp_path, state=f"postgresql://nobody@/x?host={tmp_path}"))
