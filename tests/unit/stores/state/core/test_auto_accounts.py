"""Skeleton accounts: made once per code, whoever meets the code first."""

from datetime import UTC, datetime

import pytest

from meterlake.model.customers.accounts import Account
from meterlake.pipeline.home.setup import initialize
from meterlake.settings import Settings
from meterlake.stages.ingest.validate.account_codes import AccountCodes
from meterlake.stores import open_stores
from meterlake.stores.state.core.auto_accounts import account_ids, create_auto_accounts
from tests.organizations import prepare_home


@pytest.fixture
def org(tmp_path):
    settings = Settings(home=prepare_home(tmp_path / "home"))
    made = initialize(settings, "Acme")
    with open_stores(settings, lambda: datetime(2026, 10, 1, tzinfo=UTC)) as stores:
        yield stores.state, made.org_id


def wanted(state, org_id, *codes):
    accounts = AccountCodes(org_id, account_ids(state, org_id))
    return {code: accounts.new_id(code) for code in codes}


def test_a_skeleton_account_has_the_name_and_the_address_of_the_contract(org):
    state, org_id = org
    assert create_auto_accounts(state, org_id, wanted(state, org_id, "acme")) == 1
    [account] = [each.entity for each in state.configuration(org_id).all(Account)]
    assert (account.code, account.name) == ("acme", "acme-autocreated")
    assert account.email_address.endswith("-autocreated@example.com")


def test_accounts_that_are_there_already_are_not_created_again(org):
    state, org_id = org
    ids = wanted(state, org_id, "a", "b")
    assert create_auto_accounts(state, org_id, ids) == 2
    assert create_auto_accounts(state, org_id, ids) == 0
    assert account_ids(state, org_id) == ids


def test_a_code_that_someone_else_took_meanwhile_is_a_conflict_and_creates_nothing(org):
    state, org_id = org
    ids = wanted(state, org_id, "a", "b")
    with state.transaction(org_id, "test") as transaction:
        transaction.create(Account(name="B", code="b", email_address="b@example.com"))
    assert create_auto_accounts(state, org_id, ids) is None
    assert set(account_ids(state, org_id)) == {"b"}


def test_the_old_code_of_a_renamed_skeleton_gets_an_account_of_its_own(org):
    state, org_id = org
    first = wanted(state, org_id, "acme")
    create_auto_accounts(state, org_id, first)
    with state.transaction(org_id, "test") as transaction:
        record = transaction.get(Account, first["acme"])
        renamed = record.entity.model_copy(update={"code": "acme-corp"})
        transaction.update(record.id, record.version, renamed)

    assert (
        create_auto_accounts(state, org_id, first) is None
    )  # decided before the account was renamed
    assert create_auto_accounts(state, org_id, wanted(state, org_id, "acme")) == 1

    assert set(account_ids(state, org_id)) == {"acme", "acme-corp"}


def test_a_deleted_skeleton_comes_back_under_its_id(org):
    state, org_id = org
    ids = wanted(state, org_id, "acme")
    create_auto_accounts(state, org_id, ids)
    with state.transaction(org_id, "test") as transaction:
        transaction.delete(Account, ids["acme"])

    assert create_auto_accounts(state, org_id, wanted(state, org_id, "acme")) == 1

    assert account_ids(state, org_id) == ids
    with state.reading(org_id) as reader:
        history = reader.history(Account, ids["acme"])
        assert [past.version for past in history] == [1, 2, 3]
        for past in history:
            assert reader.at_version(Account, ids["acme"], past.version) == past.entity
        # The second one deleted it.
        assert history[1].entity is None
        assert [reader.at_version(Account, ids["acme"], each) for each in (None, 4)] == [None, None]
