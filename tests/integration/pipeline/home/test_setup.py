import sqlite3

import pytest

from meterlake.model.configuration.access import SYSTEM, PermissionPolicy, ServiceUser
from meterlake.model.configuration.organization import Currency, CustomFields, OrganizationConfig
from meterlake.model.errors import Conflict, Invalid
from meterlake.model.resources import response
from meterlake.pipeline.home.setup import init_home
from meterlake.settings import Settings
from meterlake.stores.state import State
from meterlake.stores.state.access.access import granted_policy_ids, key


@pytest.fixture
def settings(tmp_path):
    return Settings(home=tmp_path / "home", _env_file=None)


def no_lake(org_id):
    assert org_id


@pytest.mark.long
def test_a_new_organization_is_ready_to_use(settings):
    made = init_home(settings, "Müller & Söhne", no_lake)

    with State.open(settings) as state:
        configuration = state.configuration(made.org_id)
        assert made.org_code == "muller-sohne"
        assert state.organization().name == "Müller & Söhne"
        config = configuration.single(OrganizationConfig).entity
        assert (config.currency, config.timezone) == ("USD", "UTC")
        currency = configuration.find(Currency, "USD").entity
        assert (currency.max_decimal_places, currency.rounding_mode) == (2, "HALF_UP")
        assert configuration.single(CustomFields).created_by == SYSTEM


@pytest.mark.long
def test_the_first_key_is_the_administrators(settings):
    made = init_home(settings, "Acme", no_lake)

    with State.open(settings) as state, state.reading(made.org_id) as reader:
        configuration = reader.configuration()
        policies = {r.entity.name: r for r in configuration.all(PermissionPolicy)}
        user = configuration.single(ServiceUser)
        access_key = key(reader, made.access_key_id)
        assert access_key.opens_with(made.api_secret)
        assert access_key.service_user_id == user.id
        assert granted_policy_ids(reader, user.id) == [policies["Administrator"].id]
        assert set(policies) == {"Administrator", "ReadOnly"}
        assert all(response(r, configuration)["managedPolicy"] for r in policies.values())


def test_the_secret_is_long_new_and_nowhere_in_the_home(settings):
    first = init_home(settings, "Acme", no_lake)
    second = init_home(settings, "Bolt", no_lake)

    assert len(first.api_secret) == 43
    assert first.api_secret != second.api_secret
    with sqlite3.connect(settings.home / "state.sqlite") as connection:
        dump = "\n".join(connection.iterdump())
    connection.close()
    assert first.access_key_id in dump
    assert first.api_secret not in dump


@pytest.mark.parametrize("again", ["Acme", "ACME", " acme "])
def test_the_same_name_again_is_refused_with_a_clear_sentence(settings, again):
    init_home(settings, "Acme", no_lake)

    with pytest.raises(
        Conflict, match=r"this home has an organization named '(?i:acme)' already, code 'acme'"
    ):
        init_home(settings, again, no_lake)


@pytest.mark.long
def test_names_that_are_written_alike_get_codes_of_their_own(settings):
    codes = [
        init_home(settings, name, no_lake).org_code
        for name in ("A B", "A-B", "a_b", "株式会社", "é")
    ]

    assert codes == ["a-b", "a-b-2", "a-b-3", "organization", "e"]


def test_a_long_name_has_a_short_code(settings):
    assert len(init_home(settings, "x" * 200, no_lake).org_code) == 60


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "a\nb", "a\x00b"])
def test_a_name_that_is_none_is_refused_and_nothing_is_made(settings, name):
    with pytest.raises(Invalid):
        init_home(settings, name, no_lake)

    assert not settings.home.exists()


@pytest.mark.long
def test_without_a_lake_there_is_no_organization(settings):
    def broken(_org_id):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        init_home(settings, "Acme", broken)

    with State.open(settings) as state:
        assert state.organizations() == []
    assert init_home(settings, "Acme", no_lake).org_code == "acme"
