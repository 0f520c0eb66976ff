"""What the processes of a home agree on: written into the home, taken from it, compared with it."""

import json
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from meterlake.cli.app import run
from meterlake.model.errors import Conflict, Invalid, NotFound, Required
from meterlake.settings import SCOPES, Settings, SettingScope, as_environment
from meterlake.stores import open_stores
from meterlake.stores.home_settings import FILE_NAME, agree_on_settings, change, shared_settings
from meterlake.stores.secrets import Secrets
from tests.homes import new_home

KEY = Fernet.generate_key().decode()
# Of each setting that homes have two values, as a process is told them.
VALUES = {
    "state": ("postgresql://me@here/one", "postgresql://me@here/two"),
    "objects": ("s3://one/x", "folder"),
    "export_folder": ("one", "/two"),
    "export_credentials": ("own", "federated"),
    "secret_key": (KEY, Fernet.generate_key().decode()),
    "group_read": (True, False),
    "document_templates": (Path("/one"), Path("/two")),
    "document_fonts": (Path("/one"), Path("/two")),
    "line_bytes": (5000, 6000),
    "source_bytes": (5000, 6000),
    "source_ratio": (500, 600),
    "source_rows_per_byte": (2, 3),
    "settle_seconds": (5, 6),
    "upload_arrival_seconds": (5, 6),
    "export_missed": ("skip", "catch_up"),
    "lake": ("s3://bucket/a", "gs://bucket/a"),
    "catalog": ("postgresql://me@here/a", "postgresql://me@here/b"),
    "segment_copies": ("objects", "none"),
    "segment_lost_seconds": (5, 6.5),
    "snapshot_days": (5, 6),
    "event_days": (5, 6),
    "alert_freshness_hours": (5, 6.5),
    "alert_reject_rate": (0.1, 0.07),
    "alert_reject_hours": (0.1, 6),
    "alert_reject_least": (5, 6),
    "public_url": ("https://a.example", "https://b.example"),
    "redirect_urls": (("https://a.example/x",), ()),
    "webhook_loopback": (True, False),
    "webhook_private": (True, False),
    "webhook_allow": (("10.0.0.0/8", "a.example"), ()),
    "webhook_secret_hours": (5, 6.5),
    "approve_held_bills": (True, False),
    "s3_endpoint": ("http://a.example", "http://b.example"),
    "gcs_endpoint": ("http://a.example", "http://b.example"),
    "sts_endpoint": ("http://a.example", "http://b.example"),
    "gcs_sts_endpoint": ("http://a.example", "http://b.example"),
    "stripe_url": ("http://a.example", "http://b.example"),
    "marketplace_endpoint": ("http://a.example", "http://b.example"),
}


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


# What some of them need beside them to be accepted by a process that stays.
NEEDED = {
    "segment_copies": {"objects": "s3://far/x"},
    "lake": {"catalog": "postgresql://me@here/a"},
}


def told(home, **values) -> Settings:
    return Settings(_env_file=None, home=home, **values)


def named(scope) -> list[str]:
    return sorted(name for name, each in SCOPES.items() if each is scope)


def test_every_setting_has_a_scope_and_every_shared_one_is_tried_here():
    assert set(SCOPES) == set(Settings.model_fields)
    assert set(VALUES) == {
        name for name, each in SCOPES.items() if each is not SettingScope.PROCESS
    }


@pytest.mark.parametrize("name", sorted(set(VALUES) - {"secret_key"}))
def test_a_process_that_is_told_nothing_takes_what_another_was_told(home, name):
    value = VALUES[name][0]
    given = NEEDED.get(name, {}) | {name: value}
    first = agree_on_settings(told(home, **given), lasting=True)

    found = getattr(agree_on_settings(told(home)), name)

    absolute = {"export_folder": Path(str(value)).absolute()}
    assert found == absolute.get(name, value)
    assert type(found) is type(getattr(first, name))
    # The same again is no contradiction, and neither is another process that knows it already.
    agree_on_settings(told(home, **given), lasting=True)
    assert agree_on_settings(agree_on_settings(told(home)), lasting=True)


@pytest.mark.parametrize("name", named(SettingScope.HOME) + named(SettingScope.SERVICE))
def test_a_process_that_is_told_something_else_does_not_start(home, name):
    first, second = VALUES[name]
    agree_on_settings(told(home, **NEEDED.get(name, {}), **{name: first}), lasting=True)

    with pytest.raises(Conflict) as caught:
        agree_on_settings(told(home, **{name: second}))

    assert f"METERLAKE_{name.upper()}" in str(caught.value)
    if name == "secret_key":
        assert str(second) not in str(caught.value)
        change(told(home), name, None)
    else:
        assert f"meterlake settings set {name} " in str(caught.value)
        text = json.dumps(second) if isinstance(second, tuple) else str(second)
        change(told(home), name, text)
    agree_on_settings(told(home, **{name: second}))
    with pytest.raises(Conflict):
        agree_on_settings(told(home, **{name: first}))


@pytest.mark.parametrize("name", ["lake", "catalog"])
def test_lakes_that_are_in_the_home_are_not_looked_for_elsewhere(home, name):
    lake = home / "lakes" / "an-organization"
    lake.mkdir(parents=True)
    (lake / "catalog.sqlite").touch()

    with pytest.raises(Conflict, match="home folder"):
        agree_on_settings(told(home, **{name: VALUES[name][0]}))


@pytest.mark.parametrize("name", named(SettingScope.SERVICE))
def test_a_command_writes_nothing_of_a_service_into_the_home(home, name):
    first, second = VALUES[name]
    agree_on_settings(told(home, **{name: first}))

    assert shared_settings(told(home)) == {}
    assert getattr(agree_on_settings(told(home, **{name: second}), lasting=True), name) == second


@pytest.mark.parametrize("name", named(SettingScope.ROUTE))
def test_another_network_may_know_another_way(home, name):
    first, second = VALUES[name]
    agree_on_settings(told(home, **{name: first}))

    assert getattr(agree_on_settings(told(home, **{name: second})), name) == second
    assert getattr(agree_on_settings(told(home)), name) == first


@pytest.mark.parametrize("name", named(SettingScope.PROCESS))
def test_what_is_a_process_s_own_is_not_written_down(home, name):
    field = Settings.model_fields[name]
    if name == "home" or field.default is None:
        pytest.skip("nothing to tell")

    agree_on_settings(told(home, **{name: field.default}), lasting=True)

    assert not (home / FILE_NAME).exists()


def test_no_password_and_no_key_stands_in_the_file(home):
    url = "postgresql://me:hidden-1@here/one?password=hidden-2"
    agree_on_settings(told(home, state=url, secret_key=KEY), lasting=True)

    text = (home / FILE_NAME).read_text()
    assert "hidden" not in text
    assert KEY not in text
    assert (home / FILE_NAME).stat().st_mode & 0o777 == 0o600
    with pytest.raises(Required, match="METERLAKE_STATE"):
        agree_on_settings(told(home))
    assert agree_on_settings(told(home, state=url.replace("here", "there"))).state is not None


@pytest.mark.parametrize("name", ["state", "catalog"])
@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("postgresql://me:hidden@here/one", True),
        ("postgresql://me@here/one?password=hidden", True),
        ("postgresql://me@here/one", False),
    ],
)
def test_whoever_changes_a_url_with_a_password_is_told_that_it_is_left_out(
    home, monkeypatch, capsys, name, url, hidden
):
    monkeypatch.delenv("METERLAKE_STATE", raising=False)

    assert run(["settings", "set", name, url, "--home", str(home)]) == 0

    said = capsys.readouterr()
    assert ("The password is not written into the home" in said.out + said.err) is hidden
    assert (f"METERLAKE_{name.upper()} with the whole URL" in said.out + said.err) is hidden
    assert "hidden" not in said.out + said.err + (home / FILE_NAME).read_text()


def test_a_key_that_comes_from_a_variable_is_never_made(home):
    agree_on_settings(told(home, secret_key=KEY))

    with pytest.raises(Required, match="METERLAKE_SECRET_KEY"):
        Secrets.of(told(home)).encrypt("x")
    with pytest.raises(Required, match="METERLAKE_SECRET_KEY"):
        agree_on_settings(told(home), lasting=True)
    assert not (home / "secret.key").exists()
    with pytest.raises(Invalid):
        agree_on_settings(told(home, secret_key="short"))


def test_a_key_beside_another_one_in_the_home_is_refused(home):
    Secrets.of(told(home)).encrypt("x")

    with pytest.raises(Conflict, match="METERLAKE_SECRET_KEY"):
        agree_on_settings(told(home, secret_key=KEY))
    agree_on_settings(told(home, secret_key=(home / "secret.key").read_text().strip()))


@pytest.mark.long
def test_a_home_with_its_own_database_takes_no_other_one(tmp_path):
    path = tmp_path / "home"
    new_home(path)

    with (
        pytest.raises(Conflict, match="SQLite in the home folder"),
        open_stores(told(path, state="postgresql://nobody@127.0.0.1:1/x")),
    ):
        pass


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b"\xff"])
def test_a_file_that_is_damaged_is_told(home, text):
    (home / FILE_NAME).write_bytes(text)

    with pytest.raises(Invalid, match="a JSON object"):
        agree_on_settings(told(home))


@pytest.mark.parametrize("name", ["threads", "nothing", "home", "secret_key"])
def test_what_homes_do_not_have_is_not_changed(home, name):
    with pytest.raises(Invalid):
        change(told(home), name, "1")


def test_a_home_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(NotFound):
        change(told(tmp_path / "none"), "snapshot_days", "1")
    agree_on_settings(told(tmp_path / "none", snapshot_days=3), lasting=True)
    assert not (tmp_path / "none").exists()


def test_children_are_told_what_the_parent_was(home, monkeypatch):
    """They run in another folder, where neither our .env nor what is relative to ours is found."""
    values = {name: first for name, (first, _) in VALUES.items()} | {
        "threads": 3,
        "duckdb_memory": "1GB",
    }
    parent = told(home, **values)
    for name, text in as_environment(parent).items():
        monkeypatch.setenv(name, text)

    child = Settings(_env_file=None)

    assert child.model_fields_set == parent.model_fields_set
    for name in parent.model_fields_set - {"export_folder"}:
        assert getattr(child, name) == getattr(parent, name)
    assert child.export_folder == Path("one").absolute()


BAD = [
    ("state", "mysql://me@here/one"),
    ("catalog", "mysql://me@here/one"),
    ("catalog", "sqlite:///catalog.sqlite"),
    ("catalog", "here"),
    ("catalog", "postgresql://me:word:word/one"),
    ("lake", "ftp://here/one"),
    ("lake", "s3://"),
    ("lake", "s3:///prefix"),
    ("lake", "S3://bucket/prefix"),
    ("lake", "s3:/bucket/prefix"),
    ("lake", "file:///srv/lakes"),
    ("objects", "ftp://here/one"),
    ("objects", "gs://"),
]


@pytest.mark.parametrize(("name", "value"), BAD)
def test_a_value_that_names_no_place_is_refused_before_it_stands_in_the_home(home, name, value):
    with pytest.raises(Invalid, match=f"METERLAKE_{name.upper()}: "):
        agree_on_settings(told(home, **{name: value}), lasting=True)
    with pytest.raises(Invalid, match=f"^{name}: "):
        change(told(home), name, value)
    assert shared_settings(told(home)) == {}


def test_a_runner_that_there_is_not_is_refused_by_every_process(home):
    with pytest.raises(Invalid, match="METERLAKE_RUNNER: 'frogs' is not allowed"):
        agree_on_settings(told(home, runner="frogs"))


@pytest.mark.parametrize("name", ["state", "lake", "catalog", "objects", "runner"])
def test_an_empty_variable_is_none(home, name):
    assert getattr(agree_on_settings(told(home, **{name: ""})), name) is None
    assert shared_settings(told(home)) == {}


@pytest.mark.parametrize("name", ["lake", "objects"])
def test_a_setting_of_a_home_is_not_empty(home, name):
    with pytest.raises(Invalid, match=f"^{name}: ''"):
        change(told(home), name, "")
