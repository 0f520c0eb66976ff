"""Many writers at once, on real databases."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from threading import Barrier

import pytest

from meterlake.model.customers.accounts import Account
from meterlake.model.errors import DuplicateCode, StaleVersion
from meterlake.stores.state import State
from meterlake.stores.state.core.engine import sqlite_url
from tests.organizations import new_organization

WRITERS = 4


def account(code):
    return Account(code=code, name=code, email_address="a@b.example")


def updated(state, org, id, code):
    """Update version 1 of an account; whether that worked."""
    try:
        with state.transaction(org, code) as transaction:
            transaction.update(id, 1, account(code))
    except StaleVersion:
        return False
    return True


def created(state, org, code):
    """Create an account of a code; whether that worked."""
    try:
        with state.transaction(org, code) as transaction:
            transaction.create(account(code))
    except DuplicateCode:
        return False
    return True


def together(function):
    """Call a function of a number in several threads at the same moment."""
    barrier = Barrier(WRITERS)

    def run(number):
        barrier.wait()
        return function(number)

    with ThreadPoolExecutor(WRITERS) as threads:
        return list(threads.map(run, range(WRITERS)))


def test_two_updates_of_one_version_never_both_succeed(state, org):
    for turn in range(5):
        with state.transaction(org, "USER_1") as transaction:
            account_id = transaction.create(account(f"start-{turn}")).id

        outcomes = together(
            lambda n, i=account_id, turn=turn: updated(state, org, i, f"{turn}-{n}")
        )

        assert sum(outcomes) == 1
        assert state.configuration(org).get(Account, account_id).version == 2


def test_two_entities_never_get_the_same_code(state, org):
    outcomes = together(lambda _: created(state, org, "acme"))

    assert sum(outcomes) == 1


def test_a_database_is_migrated_once_however_many_open_it(database):
    def opened(number):
        with State.at(database) as state:
            return new_organization(state, f"org-{number}")

    together(opened)

    with State.at(database) as state:
        assert len(state.organizations()) == WRITERS


def _process(path, org, id, number):
    with State.at(sqlite_url(path)) as state:
        return updated(state, org, id, f"process-{number}")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_processes_are_kept_apart_too(tmp_path):
    path = tmp_path / "state.sqlite"
    with State.at(sqlite_url(path)) as state:
        org = new_organization(state)
        with state.transaction(org, "USER_1") as transaction:
            account_id = transaction.create(account("start")).id
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as processes:
        outcomes = list(processes.map(_process, [path] * 4, [org] * 4, [account_id] * 4, range(4)))

    assert sum(outcomes) == 1
