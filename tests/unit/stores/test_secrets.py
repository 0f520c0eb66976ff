import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from cryptography.fernet import Fernet

from meterlake.model.errors import Invalid, Unavailable
from meterlake.stores.secrets import Secrets
from tests.homes import settings


def test_a_secret_comes_back_and_cannot_be_read(tmp_path):
    secrets = Secrets(tmp_path / "home" / "secret.key")

    sealed = secrets.encrypt("pässword")

    assert "ssword" not in sealed
    assert sealed != secrets.encrypt("pässword")
    assert Secrets(tmp_path / "home" / "secret.key").decrypt(sealed) == "pässword"


def test_the_key_belongs_to_its_owner_alone(tmp_path):
    Secrets(tmp_path / "secret.key").encrypt("x")

    assert stat.S_IMODE((tmp_path / "secret.key").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["secret.key"]


def test_many_at_once_make_one_key(tmp_path):
    with ThreadPoolExecutor(8) as pool:
        sealed = list(pool.map(lambda _: Secrets(tmp_path / "secret.key").encrypt("x"), range(16)))

    assert {Secrets(tmp_path / "secret.key").decrypt(each) for each in sealed} == {"x"}


def test_the_key_of_the_settings_leaves_no_file(tmp_path):
    key = Fernet.generate_key().decode()
    given = settings(tmp_path, secret_key=key)

    assert Secrets.of(given).decrypt(Secrets.of(given).encrypt("x")) == "x"
    assert list(tmp_path.iterdir()) == []
    assert key not in repr(given)


@pytest.mark.parametrize("key", ["", "short", "é" * 44, "A" * 43])
def test_what_is_no_key_is_refused_without_being_told(tmp_path, key):
    with pytest.raises(Invalid) as error:
        Secrets(tmp_path / "secret.key", key).encrypt("x")

    assert not key or key not in str(error.value)


def test_another_key_opens_nothing(tmp_path):
    sealed = Secrets(tmp_path / "a").encrypt("x")

    for text in (sealed, "no token", "", "é"):
        with pytest.raises(Unavailable, match="another key"):
            Secrets(tmp_path / "b").decrypt(text)
